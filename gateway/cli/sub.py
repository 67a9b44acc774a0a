"""`meshgate sub`: receive events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import click

from gateway.cli.console import Output, note, show_line
from gateway.cli.events import event_fields, event_line
from gateway.cli.numbers import Whole
from gateway.cli.options import output_option
from gateway.cli.peer_options import SECONDS, Peer, peer_options, run
from gateway.client import DatagramClient, NoAnswerError, StreamClient
from gateway.event import Event


@click.command("sub")
@click.argument("patterns", metavar="PATTERN...", nargs=-1, required=True)
@click.option("--group", metavar="NAME", help="Each event goes to one member of the group.")
@click.option("-n", "--count", type=Whole(min=1), help="End after so many events.")
@click.option("--timeout", type=SECONDS, help="End with an error if none came for so many seconds.")
@click.option("--verify", is_flag=True, help="emm only: show only packets whose sender the trust store proves.")
@click.option("--reconnect", is_flag=True, help="Come back when the session ends, and subscribe again.")
@output_option
@peer_options
def command(
    peer: Peer, patterns: tuple[str, ...], group: str | None, count: int | None, timeout: float | None,
    verify: bool, reconnect: bool, output: Output,
) -> None:  # fmt: skip
    """Show events whose subject matches PATTERN (`*` is one token, `>` at the end one or more), as they come.

    Says on standard error when the mesh has acknowledged the subscription: from then on nothing is missed.
    """
    peer.check_options(verify=verify)
    shown = Shown(output, count, timeout)

    async def follow(client: StreamClient) -> None:
        for pattern in patterns:
            await client.subscribe(pattern, group)
        await show(client)

    async def lease() -> None:
        if group is not None:
            raise click.UsageError("--group: a hello of emm names none")
        async with peer.connect_emm(verify=verify) as client:
            await client.subscribe(*patterns)
            await show(client)

    async def show(client: StreamClient | DatagramClient) -> None:
        note(f"subscribed to {' '.join(patterns)} at {client.peer}")
        await shown.show(client.events(), client.peer)

    run(lease() if peer.is_emm else peer.use_stream(follow, reconnect=reconnect), peer)


class Shown:
    """Shows events until there were enough of them, over as many sessions as it takes."""

    def __init__(self, output: Output, count: int | None, timeout: float | None) -> None:
        self._output = output
        self._count = count
        self._timeout = timeout
        self._seen = 0

    async def show(self, events: AsyncIterator[Event], peer: str) -> None:
        while self._count is None or self._seen < self._count:
            try:
                async with asyncio.timeout(self._timeout):
                    event = await anext(events)
            except TimeoutError:
                raise NoAnswerError(peer, f"no event within {self._timeout:g} s") from None
            except StopAsyncIteration:
                return
            self._seen += 1
            show_line(event_fields(event), self._output, event_line(event))
