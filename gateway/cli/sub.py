"""`meshgate sub`: receive events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import click

from gateway.cli import texts
from gateway.cli.bodies import write_body
from gateway.cli.console import Output, note, show_line, timestamp
from gateway.cli.events import event_fields, event_line, header_lines
from gateway.cli.missed import Absence
from gateway.cli.numbers import Whole
from gateway.cli.options import grouped, output_option
from gateway.cli.peer_options import SECONDS, PeerOptions, peer_options, run
from gateway.client import DatagramClient, NoAnswerError, StreamClient
from gateway.core.event import Event


@dataclass(frozen=True, slots=True)
class EventPrinter:
    """Prints an event as the options want it."""

    output: Output
    timestamps: bool = False
    headers: bool = False
    raw: bool = False

    def check(self) -> None:
        if self.raw and (self.timestamps or self.headers or self.output is Output.JSON):
            raise click.UsageError("--raw shows nothing but bodies: leave out --timestamps, --headers and --json")

    def print(self, event: Event) -> None:
        if self.raw:
            write_body(event.body)
            return
        at = timestamp(time.time())
        fields = {**({"received_at": at} if self.timestamps else {}), **event_fields(event)}
        show_line(fields, self.output, f"{at}  {event_line(event)}" if self.timestamps else event_line(event))
        if self.headers and self.output is Output.TEXT:
            for line in header_lines(event):
                show_line({}, self.output, line)


@dataclass(frozen=True, slots=True)
class ShownEnd:
    """When to end: after so many events, or with an error if none came for so many seconds."""

    count: int | None
    timeout: float | None


@click.command("sub")
@click.argument("patterns", metavar="PATTERN...", nargs=-1, required=True, type=texts.pattern)
@click.option(
    "--group", type=texts.utf8, metavar="NAME", help="Join the group NAME: each event goes to one of its members."
)
@click.option("-n", "--count", type=Whole(min=1), help="End after COUNT events.")
@click.option("--timeout", type=SECONDS, help="End with an error if no event came for SECONDS.")
@click.option("--verify", is_flag=True, help="emm only: show only packets whose sender the trust store proves.")
@click.option("--reconnect", is_flag=True, help="Come back when the session ends, and say what was missed.")
@click.option("--timestamps", is_flag=True, help="Begin each line with the time at which the event came.")
@click.option("--headers", is_flag=True, help="Show the event's other fields below its body.")
@click.option("--raw", is_flag=True, help="Show bodies only, as they are.")
@output_option
@peer_options
@grouped("printer", EventPrinter)
@grouped("end", ShownEnd)
def command(
    peer: PeerOptions,
    patterns: tuple[str, ...],
    group: str | None,
    verify: bool,
    reconnect: bool,
    printer: EventPrinter,
    end: ShownEnd,
) -> None:
    """Show events whose subject matches PATTERN (`*` is one token, `>` at the end one or more), as they come.

    Says on standard error when the mesh has acknowledged the subscription: from then on nothing is missed.
    """
    peer.check_options(verify=verify)
    printer.check()
    shown = ShownEvents(printer, end)
    absence = Absence(peer, patterns)

    async def follow(client: StreamClient) -> None:
        for pattern in patterns:
            await client.subscribe(pattern, group)
        absence.end()
        try:
            await show(client)
        finally:
            absence.begin()

    async def lease() -> None:
        if group is not None:
            raise click.UsageError("--group: emm has no groups")
        async with peer.connect_emm(verify=verify) as client:
            await client.subscribe(*patterns)
            await show(client)

    async def show(client: StreamClient | DatagramClient) -> None:
        note(f"subscribed to {' '.join(patterns)} at {client.peer}")
        await shown.show(client.events(), client.peer)

    run(lease() if peer.is_emm else peer.use_stream(follow, reconnect=reconnect), peer)


class ShownEvents:
    """Shows events until there were enough of them, over as many sessions as it takes."""

    def __init__(self, printer: EventPrinter, end: ShownEnd) -> None:
        self._printer = printer
        self._count, self._timeout = end.count, end.timeout
        self._shown_count = 0

    async def show(self, events: AsyncIterator[Event], peer: str) -> None:
        while self._count is None or self._shown_count < self._count:
            try:
                async with asyncio.timeout(self._timeout):
                    event = await anext(events)
            except TimeoutError:
                raise NoAnswerError(peer, f"no event within {self._timeout:g} s") from None
            except StopAsyncIteration:
                return
            self._shown_count += 1
            self._printer.print(event)
