"""`meshgate serve`: answer requests with a command."""

from __future__ import annotations

import asyncio
import os
import shutil
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from dataclasses import dataclass

import click

from gateway.cli import texts
from gateway.cli.bodies import guessed_type
from gateway.cli.console import CommandError, Output, note, show_line
from gateway.cli.events import answer_fields
from gateway.cli.numbers import Whole
from gateway.cli.options import grouped, output_option
from gateway.cli.peer_options import PeerOptions, peer_options, run
from gateway.client import Answer, IncomingRequest, StreamClient
from gateway.core.content import BINARY

FAILED = "failed"
"""The code of the error that a failing command is."""
PARALLEL = 8
"""Commands at once; who asks meanwhile waits for one to end."""
LINE_BYTES = 1_048_576
"""The longest line of progress: as much as the largest frame."""


@dataclass(frozen=True, slots=True)
class Serving:
    """Says how requests are served: what answers are, how many at once, which lines are progress, when to end."""

    content_type: str | None
    progress_lines: str | None
    parallel: int
    count: int | None
    output: Output = Output.TEXT


@click.command("serve")
@click.argument("pattern", type=texts.pattern)
@click.argument("line", metavar="-- CMD...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--content-type", metavar="TYPE", help="The answers' content type.  [default: JSON if it is, else text]")
@click.option("-n", "--count", type=Whole(min=1), help="End after COUNT requests.")
@click.option(
    "--parallel", type=Whole(min=1), default=PARALLEL, show_default=True, help="The most commands that run at once."
)
@click.option(
    "--progress-lines", metavar="PREFIX", help="Send output lines that begin with PREFIX at once, as progress."
)
@click.option("--reconnect", is_flag=True, help="Come back when the session ends, and serve again.")
@output_option
@peer_options
@grouped("serving", Serving)
def command(peer: PeerOptions, pattern: str, line: tuple[str, ...], reconnect: bool, serving: Serving) -> None:
    """Run CMD for each request whose subject matches PATTERN: its input is the request's body, its output the answer.

    CMD finds the subject in MESHGATE_SUBJECT and the body's type in MESHGATE_CONTENT_TYPE. If it fails, the answer is
    an error with the last line it wrote to standard error. A request that is cancelled ends its command. With
    --output json each answer is a line.
    """
    peer.check_sessions()
    if shutil.which(line[0]) is None:
        raise CommandError(f"there is no command {line[0]}")
    servant = Servant(line, serving)

    async def serve(client: StreamClient) -> None:
        await client.serve(pattern, servant.answer)
        note(f"serving {pattern} at {client.peer}")
        await servant.until_enough(client)

    run(peer.use_stream(serve, reconnect=reconnect), peer)


class Servant:
    """Answers with what its command says, over as many sessions as it takes."""

    def __init__(self, line: tuple[str, ...], serving: Serving) -> None:
        self._line = line
        self._content_type = serving.content_type
        self._progress = None if serving.progress_lines is None else serving.progress_lines.encode()
        self._room = asyncio.Semaphore(serving.parallel)
        self._remaining = serving.count
        self._output_form = serving.output
        self._enough = asyncio.Event()

    async def until_enough(self, client: StreamClient) -> None:
        """Raises EndedError where the session ends first."""
        enough = asyncio.ensure_future(self._enough.wait())
        ended = asyncio.ensure_future(client.wait_ended())
        try:
            await asyncio.wait((enough, ended), return_when=asyncio.FIRST_COMPLETED)
            if not enough.done():
                await ended
        finally:
            enough.cancel()
            ended.cancel()

    async def answer(self, request: IncomingRequest) -> Answer:
        async with self._room:
            answer = await self._run(request)
        if self._output_form is Output.JSON:
            show_line({"subject": request.subject, **answer_fields(answer)}, self._output_form, "")
        if self._remaining is not None:
            self._remaining -= 1
            if self._remaining <= 0:
                self._enough.set()
        return answer

    async def _run(self, request: IncomingRequest) -> Answer:
        variables = {"MESHGATE_SUBJECT": request.subject, "MESHGATE_CONTENT_TYPE": request.content_type}
        process = await asyncio.create_subprocess_exec(
            *self._line, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=LINE_BYTES, env=os.environ | variables
        )
        try:
            output, complaints, _ = await asyncio.gather(
                self._output(process, request), _stream(process.stderr).read(), _feed(process, request.body)
            )
            code = await process.wait()
        except BaseException:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise
        if code:
            return failure(code, complaints)
        content_type = guessed_type(output) if self._content_type is None else self._content_type
        return Answer(body=output if content_type == BINARY else output.removesuffix(b"\n"), content_type=content_type)

    async def _output(self, process: Process, request: IncomingRequest) -> bytes:
        stdout = _stream(process.stdout)
        if self._progress is None:
            return await stdout.read()
        kept = []
        async for line in stdout:
            if line.startswith(self._progress):
                body = line.removeprefix(self._progress).strip()
                request.progress(body, guessed_type(body))
            else:
                kept.append(line)
        return b"".join(kept)


def failure(code: int, complaints: bytes) -> Answer:
    """Returns the answer of a command that failed: its last line, or its exit.

    >>> failure(3, b"looking\\nnot found\\n").message, failure(-9, b"").message
    ('not found', 'killed by signal 9')
    """
    lines = complaints.decode(errors="replace").strip().splitlines()
    ended = f"exit code {code}" if code > 0 else f"killed by signal {-code}"
    return Answer.error(FAILED, lines[-1] if lines else ended)


async def _feed(process: Process, body: bytes) -> None:
    """A command need not read its input."""
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    with suppress(ConnectionError):
        process.stdin.write(body)
        await process.stdin.drain()
    process.stdin.close()


def _stream(pipe: asyncio.StreamReader | None) -> asyncio.StreamReader:
    assert pipe is not None  # noqa: S101 - it is a pipe
    return pipe
