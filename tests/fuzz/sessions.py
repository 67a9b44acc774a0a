"""Sessions of the stream protocols, fed in pieces, and the mappings of what they let through.

The first byte of an input says how it arrives: in pieces of which size, to which end of a connection, and whether the
transport keeps the bounds of messages.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Any

from gateway.auth.keyring import KeyRing
from gateway.core.reasons import Reason, Rejected
from gateway.protocols import protocols
from gateway.protocols.actions import Action, FramesReceived, Opened, Terminated
from gateway.protocols.session import Session
from gateway.protocols.session_settings import SessionSettings
from gateway.protocols.spec import CodecContext, ProtocolSpec
from gateway.records.raw_log.frames import Fact, FrameSource, RawFrame
from tests.fuzz.target import Target
from tests.unit.protocols.contract.streams import examples, stream_protocols

FRAME_BYTES = 32_768
PIECES = (1 << 20, 1, 2, 3, 7, 64, 512, 4096)
MOST_PIECES = 256
"""More of them take long and reach nothing new."""
DIALLED, MESSAGES = 0x08, 0x10
ENV = CodecContext(KeyRing())
TIMERS = 8
ANSWER_FACTOR, ANSWER_BYTES = 64, 65_536
"""What a peer is told may be so many times as much as it has said: a small frame may have an answer in words."""


def session_targets() -> Iterator[Target]:
    for name in stream_protocols():
        yield Target(f"{name}-session", partial(feed, protocols()[name]), partial(_seeds, name))
    yield Target("wolpertinger-xml", _feed_document, _documents)


def _documents() -> Sequence[bytes]:
    """Returns the XML in the lines that the protocol's tests know, and one with every type of value."""
    lines = [line for line in examples("wolpertinger").frames.values() if b":" in line]
    found = [base64.b64decode(line.rpartition(b";")[2]) for line in lines if line.startswith(b"message_id:1;")]
    return [b"\0" + document for document in found if document] + [b"\1" + document for document in found if document]


def _feed_document(data: bytes) -> None:
    """An XML document in a line of its own; compressed, where the first byte is odd."""
    is_gzip, document = bool(data and data[0] & 1), data[1:]
    packed = gzip.compress(document) if is_gzip else document
    option = b"gzip:%d;" % len(packed) if is_gzip else b""
    line = b"message_id:1;" + option + base64.b64encode(packed) + b"\n"
    feed(protocols()["wolpertinger"], b"\0" + line)


def _seeds(name: str) -> Sequence[bytes]:
    told = examples(name)
    whole = [told.opening + frame for frame in told.frames.values()]
    together = told.opening + b"".join(told.frames.values())
    plain = [b"\0" + data for data in [*whole, *told.states.values(), together]]
    modes = [bytes([mode]) + data for mode in (1, 5, DIALLED, MESSAGES) for data in (whole[0], together)]
    return [*plain, *modes]


def feed(spec: ProtocolSpec[Any], data: bytes) -> None:
    mode, data = data[0] if data else 0, data[1:]
    session = _session(spec, mode)
    connection = _Connection(spec, session)
    piece = max(PIECES[mode & 7], len(data) // MOST_PIECES) if not mode & MESSAGES else FRAME_BYTES
    for at in range(0, len(data), piece):
        session.receive(data[at : at + piece], connection.now)
        connection.settle()
        assert session.buffered_bytes <= 2 * FRAME_BYTES + piece, "more is buffered than a frame may have"
        if session.closed:
            break
    connection.end()
    assert connection.sent <= ANSWER_FACTOR * len(data) + ANSWER_BYTES, "a peer is told far more than it says"


def _session(spec: ProtocolSpec[Any], mode: int) -> Session:
    assert spec.session is not None
    settings = SessionSettings(
        token=bytes, dialled=bool(mode & DIALLED), frame_bytes=FRAME_BYTES, message_transport=bool(mode & MESSAGES)
    )
    return spec.session(settings, _options(spec.name))


@cache
def _options(name: str) -> Any:
    return protocols()[name].options()


class _Connection:
    """What an edge does with a session: it logs what is received at once, and writes what is to be sent."""

    def __init__(self, spec: ProtocolSpec[Any], session: Session) -> None:
        self.now, self.sent = 1_000.0, 0
        self._spec, self._session = spec, session
        self._facts: dict[str, Fact] = {"envelope": True, "format": "json"}
        self._options = _options(spec.name)
        session.start(self.now)
        self.settle()

    def settle(self) -> None:
        while actions := self._session.actions():
            for action in actions:
                self._take(action)
        self.sent += sum(map(len, self._session.data_to_send()))

    def _take(self, action: Action) -> None:
        match action:
            case Opened(facts):
                self._facts |= facts
            case Terminated(reason, detail):
                assert reason != Reason.INTERNAL, detail
            case FramesReceived():
                self._map(action)
                if action.tag is not None:
                    self._session.logged(action.tag, self.now)

    def _map(self, received: FramesReceived) -> None:
        """Reads it as the router does: each frame is an event, or it is refused."""
        assert sum(received.lengths) == len(received.data)
        source = FrameSource(self._spec.name, "fuzz", "edge-0", 1, 1, node="n", facts=dict(self._facts))
        at = 0
        for length in received.lengths:
            raw = RawFrame(bytes(received.data[at : at + length]), source, 1_700_000_000_000_000, received.replies)
            at += length
            try:
                self._spec.to_event(raw, "0-0-0", self._options, ENV)
            except Rejected:
                continue

    def end(self) -> None:
        """Its timers run out, then its peer has gone."""
        for _ in range(TIMERS):
            if self._session.closed or (timer := self._session.get_timer()) is None:
                break
            self.now = max(self.now, timer)
            self._session.handle_timer(self.now)
            self.settle()
        self._session.receive_eof()
        self.settle()
