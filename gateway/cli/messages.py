"""Events to publish, from the command line: one that is repeated, or one for each line of a file or a pipe."""

from __future__ import annotations

import asyncio
import base64
import binascii
import io
import json
import os
import stat
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from gateway.cli.bodies import guessed_type
from gateway.cli.console import CommandError
from gateway.core.content import JSON
from gateway.core.subjects import configured_subject

LINE_BYTES = 4 * 1024 * 1024
"""The longest line: more than the largest frame, written in base64."""


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """An event to be published."""

    subject: str
    body: bytes
    content_type: str


async def repeated(message: OutgoingMessage, count: int) -> AsyncIterator[OutgoingMessage]:
    for _ in range(count):
        yield message


async def messages_of_lines(
    stream: BinaryIO, subject: str | None, content_type: str | None
) -> AsyncIterator[OutgoingMessage]:
    """Yields a message for each line that is not empty.

    Args:
        subject: of all of them, whose bodies the lines are; None where each line is a JSON object of its own.
        content_type: of those that do not say one themselves; None to guess it from the body.
    """
    number = 0
    async for line in _lines(stream):
        number += 1
        body = line.rstrip(b"\r\n")
        if not body:
            continue
        if subject is not None:
            yield OutgoingMessage(subject, body, guessed_type(body) if content_type is None else content_type)
            continue
        try:
            yield message_of_json(body, content_type)
        except ValueError as wrong:
            raise CommandError(f"line {number}: {wrong}") from None


def message_of_json(line: bytes, content_type: str | None = None) -> OutgoingMessage:
    """Returns the message in a line as `sub --json` writes it. Raises ValueError.

    >>> message_of_json(b'{"subject": "temp.high", "body": {"celsius": 81}}')
    OutgoingMessage(subject='temp.high', body=b'{"celsius": 81}', content_type='application/json')
    """
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("expected a JSON object with subject and body") from None
    if not isinstance(fields, dict) or not isinstance(fields.get("subject"), str):
        raise ValueError("expected a JSON object with subject and body")
    body, is_json = _body_of(fields)
    kind = fields.get("content_type", content_type)
    return OutgoingMessage(configured_subject(fields["subject"]), body, _type_of(kind, body, is_json=is_json))


def _body_of(fields: Mapping[str, Any]) -> tuple[bytes, bool]:
    """A text is the body itself; any other value of JSON is written as JSON."""
    if "body_base64" in fields:
        try:
            return base64.b64decode(fields["body_base64"], validate=True), False
        except (binascii.Error, TypeError, ValueError):
            raise ValueError("body_base64 is no base64") from None
    body = fields.get("body", "")
    if isinstance(body, str):
        return body.encode(errors="surrogateescape"), False
    return json.dumps(body, ensure_ascii=False).encode(errors="surrogateescape"), True


def _type_of(named: Any, body: bytes, *, is_json: bool) -> str:
    if named is not None:
        return str(named)
    return JSON if is_json else guessed_type(body)


async def _lines(stream: BinaryIO) -> AsyncIterator[bytes]:
    """Yields lines as they come. A pipe is waited for beside everything else, since the session must go on."""
    if not _is_pipe(stream):
        for line in stream:
            yield line
        return
    reader = asyncio.StreamReader(LINE_BYTES)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), stream)
    try:
        while line := await reader.readline():
            yield line
    except ValueError:
        raise CommandError(f"a line is longer than {LINE_BYTES} bytes") from None
    finally:
        transport.close()


def _is_pipe(stream: BinaryIO) -> bool:
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (io.UnsupportedOperation, OSError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)


class Pace:
    """Lets so many pass a second; without a rate, all of them at once."""

    def __init__(self, per_second: float | None) -> None:
        self._interval = 0.0 if per_second is None else 1 / per_second
        self._next = 0.0

    async def wait(self) -> None:
        """Waits until the next message is due. Lateness is not made up for by a burst longer than a second."""
        if not self._interval:
            return
        now = asyncio.get_running_loop().time()
        self._next = max(self._next + self._interval, now - 1.0) if self._next else now
        await asyncio.sleep(self._next - now)
