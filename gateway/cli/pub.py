"""`meshgate pub`: publish events."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from gateway.cli.bodies import BodyCommand, body_options, read_body, subject_argument
from gateway.cli.console import CommandError, Output, show
from gateway.cli.messages import OutgoingMessage, Pace, messages_of_lines, repeated
from gateway.cli.numbers import Number, Whole
from gateway.cli.options import grouped, output_option
from gateway.cli.peer_options import SECONDS, PeerOptions, peer_options, run
from gateway.client import NoAnswerError, StreamClient, Wrapping
from gateway.client.packets import ALGORITHMS
from gateway.client.stream import SETTLE_SECONDS
from gateway.core.quantity import quantity
from gateway.core.subjects import is_control
from gateway.protocols.actions import Outcome

PUBLISH_SECONDS = 30.0
SENT = "sent"
"""The outcome of a datagram, as far as anybody knows."""
EACH_ITS_OWN = "-"
"""Stands in the place of the subject: each line says its own."""
UNCONFIRMED = 64
"""Events that may wait for their confirmation at once."""


@dataclass(frozen=True)
class BodySource:
    """Names the source of the bodies: the command line, a file, or its lines."""

    body: str | None
    content_type: str | None
    file: Path | None
    lines: bool
    count: int

    def check(self, subject: str) -> None:
        if self.lines and self.count > 1:
            raise click.UsageError("--count repeats one event, and --lines makes one of each line")
        if self.body is not None and (self.file is not None or (self.lines and self.body != "-")):
            raise click.UsageError(f"BODY, and {'--lines' if self.lines else '--file'}: choose one of them")
        if subject == EACH_ITS_OWN and not self.lines:
            raise click.UsageError("the subject `-` is for --lines, where each line says its own")
        if is_control(subject):
            raise click.UsageError(f"{subject}: nobody but the mesh publishes under `mesh.`; req asks it something")


@dataclass(frozen=True)
class PacketOptions:
    """Options that only packets of emm have."""

    urgent: bool
    compress: bool
    encrypt: str | None

    @property
    def wrapping(self) -> Wrapping:
        return Wrapping(self.urgent, self.compress, ALGORITHMS[self.encrypt] if self.encrypt else None)


@click.command("pub", cls=BodyCommand)
@subject_argument
@body_options
@click.option(
    "--file",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Take the body, or the lines, from FILE.",
)
@click.option("--lines", is_flag=True, help="Publish an event for each line of the input.")
@click.option(
    "--rate", type=Number(min=0, min_open=True), metavar="PER_SECOND", help="Publish at most this many a second."
)
@click.option("-n", "--count", type=Whole(min=1), default=1, show_default=True, help="How many times to publish.")
@click.option(
    "--timeout",
    type=SECONDS,
    default=PUBLISH_SECONDS,
    show_default=True,
    help="Give up if an event is not confirmed within SECONDS.",
)
@click.option("--urgent", is_flag=True, help="emm only: set the urgent flag.")
@click.option("--compress", is_flag=True, help="emm only: gzip the body; its content type is not sent.")
@click.option(
    "--encrypt", type=click.Choice(sorted(ALGORITHMS)), help="emm only: encrypt the body; its content type is not sent."
)
@output_option
@peer_options
@grouped("source", BodySource)
@grouped("packing", PacketOptions)
def command(
    peer: PeerOptions,
    subject: str,
    source: BodySource,
    rate: float | None,
    timeout: float,
    packing: PacketOptions,
    output: Output,
) -> None:
    """Publish an event on SUBJECT. BODY may be `-` for standard input.

    Ends when the peer has confirmed it, where its protocol confirms; else when it has read it.

    With --lines each line of standard input (or of --file) is the body of an event. Where SUBJECT is `-`, each line is
    a JSON object with `subject` and `body` (or `body_base64`) and perhaps `content_type`, as `sub --json` writes them.
    """
    peer.check_options(**asdict(packing))
    source.check(subject)
    published = Published()
    with ExitStack() as files:
        if source.lines:
            own_subject = None if subject == EACH_ITS_OWN else subject
            lines = sys.stdin.buffer if source.file is None else files.enter_context(source.file.open("rb"))
            messages = messages_of_lines(lines, own_subject, source.content_type)
        else:
            single = OutgoingMessage(subject, *read_body(source.body, source.content_type, source.file))
            messages = repeated(single, source.count)
        paced = _paced(messages, rate)
        if peer.is_emm:
            run(_send(peer, paced, packing.wrapping, published), peer)
        else:
            run(peer.use_stream(lambda client: _publish(client, paced, timeout, published), seconds=timeout), peer)
    _show_published(published, None if source.lines else single, output, peer.via)


def _show_published(published: Published, single: OutgoingMessage | None, output: Output, protocol: str) -> None:
    """Says what was published: so many lines, or one event once or more often."""
    outcome = {"outcome": published.outcome}
    acknowledged = f", {_outcome_in_words(published.outcome, protocol)}" if published.count else ""
    if single is None:
        counts, events = {"count": published.count, "bytes": published.bytes}, quantity(published.count, "event")
        show(counts | outcome, output, f"published {events}: {quantity(published.bytes, 'byte')}{acknowledged}")
        return
    size = len(single.body)
    facts = {"subject": single.subject, "count": published.count, "bytes": size, "content_type": single.content_type}
    times = f" {published.count} times" if published.count > 1 else ""
    show(facts | outcome, output, f"published {single.subject}{times}: {quantity(size, 'byte')}{acknowledged}")


class Published:
    """Counts what was published so far, and keeps what became of the last message."""

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self.outcome = ""

    def add(self, message: OutgoingMessage, outcome: str) -> None:
        self.count += 1
        self.bytes += len(message.body)
        self.outcome = outcome


async def _paced(messages: AsyncIterator[OutgoingMessage], rate: float | None) -> AsyncIterator[OutgoingMessage]:
    pace = Pace(rate)
    async for message in messages:
        await pace.wait()
        yield message


async def _publish(
    client: StreamClient, messages: AsyncIterator[OutgoingMessage], seconds: float, published: Published
) -> None:
    """Publishes in order; several wait for their confirmation at once."""
    unconfirmed: deque[tuple[OutgoingMessage, asyncio.Task[Outcome]]] = deque()

    async def end_first() -> None:
        message, task = unconfirmed.popleft()
        published.add(message, await task)

    try:
        async for message in messages:
            unconfirmed.append((message, asyncio.create_task(_publish_one(client, message, seconds))))
            while unconfirmed and (unconfirmed[0][1].done() or len(unconfirmed) > UNCONFIRMED):
                await end_first()
    except CommandError:  # of a line: those before it are published all the same
        await asyncio.gather(*(task for _, task in unconfirmed))
        raise
    else:
        while unconfirmed:
            await end_first()
    finally:
        for _, task in unconfirmed:
            task.cancel()
    if published.outcome == Outcome.WRITTEN:
        await client.settle(min(seconds, SETTLE_SECONDS))


async def _publish_one(client: StreamClient, message: OutgoingMessage, seconds: float) -> Outcome:
    try:
        async with asyncio.timeout(seconds):
            return await client.publish(message.subject, message.body, message.content_type)
    except TimeoutError:
        raise NoAnswerError(client.peer, f"{message.subject} was not confirmed within {seconds:g} s") from None


async def _send(
    peer: PeerOptions, messages: AsyncIterator[OutgoingMessage], wrapping: Wrapping, published: Published
) -> None:
    peer.note_unsigned()
    async with peer.connect_emm() as client:
        async for message in messages:
            await client.publish(message.subject, message.body, message.content_type, wrapping)
            published.add(message, SENT)


def _outcome_in_words(outcome: str, protocol: str) -> str:
    """Returns the outcome in words, so that nobody takes for success what no peer has confirmed.

    >>> _outcome_in_words("written", "yamp"), _outcome_in_words("confirmed", "hsp")
    ('written: yamp does not confirm', 'confirmed')
    """
    return outcome if outcome == Outcome.CONFIRMED else f"{outcome}: {protocol} does not confirm"
