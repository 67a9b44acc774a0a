"""`meshgate pub`: publish an event."""

from __future__ import annotations

import asyncio

import click

from gateway.cli.bodies import BodyCommand, body_options, read_body, subject_argument
from gateway.cli.console import Output, show
from gateway.cli.numbers import Whole
from gateway.cli.options import output_option
from gateway.cli.peer_options import SECONDS, Peer, peer_options, run
from gateway.client import NoAnswerError, StreamClient, Wrapping
from gateway.client.packets import ALGORITHMS
from gateway.client.stream import SETTLE_SECONDS
from gateway.protocols.actions import Outcome

PUBLISH_SECONDS = 30.0
SENT = "sent"
"""What became of a datagram, as far as anybody knows."""


@click.command("pub", cls=BodyCommand)
@subject_argument
@body_options
@click.option("-n", "--count", type=Whole(min=1), default=1, show_default=True, help="How often.")
@click.option("--timeout", type=SECONDS, default=PUBLISH_SECONDS, show_default=True,
              help="Give up if not confirmed within SECONDS.")  # fmt: skip
@click.option("--urgent", is_flag=True, help="emm: with the urgent flag.")
@click.option("--compress", is_flag=True, help="emm only: gzip the body; its content type is not sent.")
@click.option("--encrypt", type=click.Choice(sorted(ALGORITHMS)), help="emm: encrypted, likewise.")
@output_option
@peer_options
def command(
    peer: Peer, subject: str, body: str | None, content_type: str | None, count: int, timeout: float,
    urgent: bool, compress: bool, encrypt: str | None, output: Output,
) -> None:  # fmt: skip
    """Publish an event on SUBJECT. BODY may be `-` for standard input.

    Ends when the peer has confirmed it, where its protocol confirms; else when it has read it.
    """
    peer.check_options(urgent=urgent, compress=compress, encrypt=encrypt)
    data, named = read_body(body, content_type)

    async def publish(client: StreamClient) -> str:
        outcome = ""
        try:
            async with asyncio.timeout(timeout):
                for _ in range(count):
                    outcome = await client.publish(subject, data, named)
        except TimeoutError:
            raise NoAnswerError(client.peer, f"{subject} was not confirmed within {timeout:g} s") from None
        if outcome == Outcome.WRITTEN:
            await client.settle(min(timeout, SETTLE_SECONDS))
        return outcome

    async def send() -> str:
        peer.note_unsigned()
        wrapping = Wrapping(urgent, compress, ALGORITHMS[encrypt] if encrypt else None)
        async with peer.connect_emm() as client:
            for _ in range(count):
                await client.publish(subject, data, named, wrapping)
        return SENT

    outcome = run(send() if peer.is_emm else peer.use_stream(publish, seconds=timeout), peer)
    told = {"subject": subject, "count": count, "bytes": len(data), "content_type": named, "outcome": outcome}
    times = f" {count} times" if count > 1 else ""
    show(told, output, f"published {subject}{times}: {len(data)} bytes, {_known(outcome, peer.via)}")


def _known(outcome: str, protocol: str) -> str:
    """Nobody may take for success what nobody has answered for.

    >>> _known("written", "yamp"), _known("confirmed", "hsp")
    ('written: yamp does not confirm', 'confirmed')
    """
    return outcome if outcome == Outcome.CONFIRMED else f"{outcome}: {protocol} does not confirm"
