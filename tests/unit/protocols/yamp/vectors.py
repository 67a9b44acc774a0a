"""Frames of yamp as bytes, written by hand from the specification."""

from __future__ import annotations

from gateway.protocols.yamp.frames import (
    Cancel,
    Close,
    CloseRedirect,
    Frame,
    Handshake,
    Ping,
    Pong,
    Request,
    Response,
    ResponseType,
    UserEvent,
)


def uid(number: int) -> bytes:
    """Returns that byte sixteen times."""
    return bytes([number]) * 16


def frame(text: str) -> bytes:
    """Hex with spaces; `NN*16` is that byte sixteen times."""
    return b"".join(uid(int(word[:2], 16)) if "*" in word else bytes.fromhex(word) for word in text.split())


HANDSHAKE_JSON = frame("00 0001 04 6a736f6e")
HANDSHAKE_MSGPACK = frame("00 0001 07 6d73677061636b")
EVENT = frame("05 01*16 03 666f6f 00000007 7b2261223a317d")
REQUEST = frame("06 02*16 03 73756d 00 00000007 5b312c322c335d")
PROGRESSIVE_REQUEST = frame("06 02*16 03 73756d 01 00000007 5b312c322c335d")
CANCEL = frame("07 08*16 03 73756d 02*16 00")
KILL = frame("07 08*16 03 73756d 02*16 01")
DONE = frame("08 0a*16 03 73756d 02*16 00 00000001 36")

FRAMES: dict[str, tuple[bytes, Frame]] = {
    "handshake json": (HANDSHAKE_JSON, Handshake("json")),
    "handshake msgpack": (HANDSHAKE_MSGPACK, Handshake("msgpack")),
    "handshake of version 2 without a serializer": (frame("00 0002 00"), Handshake("", 2)),
    "ping": (frame("01 03 616263"), Ping(b"abc")),
    "ping without payload": (frame("01 00"), Ping()),
    "pong": (frame("02 03 616263"), Pong(b"abc")),
    "close": (frame("03 0003 627965"), Close("bye")),
    "close without reason": (frame("03 0000"), Close()),
    "close-redirect": (
        frame("04 0017 7463703a2f2f3139322e3136382e302e34323a35303030"),
        CloseRedirect("tcp://192.168.0.42:5000"),
    ),
    "event": (EVENT, UserEvent(uid(1), "foo", b'{"a":1}')),
    "event without body": (frame("05 01*16 03 666f6f 00000000"), UserEvent(uid(1), "foo")),
    "request": (REQUEST, Request(uid(2), "sum", b"[1,2,3]")),
    "progressive request": (PROGRESSIVE_REQUEST, Request(uid(2), "sum", b"[1,2,3]", progressive=True)),
    "cancel": (frame("07 08*16 04 736c6f77 07*16 00"), Cancel(uid(8), "slow", uid(7))),
    "kill": (frame("07 08*16 04 736c6f77 07*16 01"), Cancel(uid(8), "slow", uid(7), kill=True)),
    "cancel without uri": (frame("07 08*16 00 07*16 00"), Cancel(uid(8), "", uid(7))),
    "done": (DONE, Response(uid(10), "sum", uid(2), ResponseType.DONE, b"6")),
    "error": (
        frame("08 09*16 03 73756d 02*16 01 00000004 6e756c6c"),
        Response(uid(9), "sum", uid(2), ResponseType.ERROR, b"null"),
    ),
    "progress": (
        frame("08 09*16 03 73756d 02*16 02 00000002 3530"),
        Response(uid(9), "sum", uid(2), ResponseType.PROGRESS, b"50"),
    ),
    "cancelled": (
        frame("08 09*16 04 736c6f77 07*16 03 00000000"),
        Response(uid(9), "slow", uid(7), ResponseType.CANCELLED),
    ),
}
