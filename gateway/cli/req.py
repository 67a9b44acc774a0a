"""`meshgate req`: ask, and wait for the answer."""

from __future__ import annotations

import logging

import click

from gateway.cli.bodies import BodyCommand, body_options, body_text, read_body, subject_argument, write_body
from gateway.cli.console import CommandError, Exit, Output, printable, show
from gateway.cli.events import answer_fields
from gateway.cli.options import output_option
from gateway.cli.peer_options import SECONDS, PeerOptions, peer_options, run
from gateway.client import Answer, StreamClient
from gateway.client.stream import REQUEST_SECONDS
from gateway.core.event import Event

NO_REASON = "the server gave no reason"
"""An hsp server may refuse with ERROR_UNDEF, which says nothing at all."""


@click.command("req", cls=BodyCommand)
@subject_argument
@body_options
@click.option(
    "--timeout",
    type=SECONDS,
    default=REQUEST_SECONDS,
    show_default=True,
    help="Give up after SECONDS without an answer or progress.",
)
@click.option("--progress", is_flag=True, help="Show progress, on standard error.  [with -v too]")
@output_option
@peer_options
def command(
    peer: PeerOptions,
    subject: str,
    body: str | None,
    content_type: str | None,
    timeout: float,
    progress: bool,
    output: Output,
) -> int:
    """Ask on SUBJECT and print the answer. BODY may be `-` for standard input. Ctrl-C cancels the request.

    An error that is answered ends with exit code 1 and its code.
    """
    peer.check_sessions()
    data, named = read_body(body, content_type)
    progress_handler = _show_progress if progress or logging.getLogger().isEnabledFor(logging.INFO) else None

    async def ask(client: StreamClient) -> Answer:
        return await client.request(subject, data, named, timeout=timeout, on_progress=progress_handler)

    answer = run(peer.use_stream(ask, seconds=timeout), peer)
    if output is Output.JSON:
        show(answer_fields(answer), output, "")
    elif answer.ok:
        write_body(answer.body)
    else:
        raise CommandError(printable(f"{subject}: {answer.code}: {answer.message or NO_REASON}"))
    return Exit.OK if answer.ok else Exit.FAILURE


def _show_progress(event: Event) -> None:
    click.echo(printable(f"progress  {body_text(event.body)}".rstrip()), err=True)
