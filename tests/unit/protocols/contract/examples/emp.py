"""The examples of emp for the contract."""

from __future__ import annotations

from tests.unit.protocols.contract.streams import GOES_ON, Examples

HELLO = bytes.fromhex("0000000c 00000000 01000000")
FRAMES = {
    "hello": HELLO,
    "bye": bytes.fromhex("00000008 01000000"),
    "ping": bytes.fromhex("00000008 02000000"),
    "pong": bytes.fromhex("00000008 03000000"),
    "error": bytes.fromhex("00000012 04000000 03000000 0004 74657374"),
    "data": bytes.fromhex("0000000b 05000000 010203"),
    "type 128": bytes.fromhex("0000000b 80000000 010203"),
    "request": bytes.fromhex("0000001e 05800000 00000014 00000000 80000000 0000000000000001 6869"),
    "response": bytes.fromhex("0000001e 05800000 00000014 00000000 00000000 0000000000000001 6f6b"),
    "gzip": bytes.fromhex("0000002a 05800000 0000000c 01000000 01000000 1f8b0800000000000003cbc80400ac2a93d802000000"),
    "type 6": bytes.fromhex("00000008 06000000"),
    "size 7": bytes.fromhex("00000007 050000"),
    "E without a block": bytes.fromhex("00000008 05800000"),
    "scheme 2": bytes.fromhex("00000014 05800000 0000000c 01000000 02000000"),
}
BROKEN = {
    "type 6": "unknown_type",
    "size 7": "malformed",
    "E without a block": "malformed",
    "scheme 2": "unknown_type",
}

EXAMPLES = Examples(
    opening=HELLO,
    frames=FRAMES,
    states={"greeting": b"", "open": HELLO},
    walk={
        "greeting": dict.fromkeys(FRAMES, "malformed")
        | BROKEN
        | {"hello": GOES_ON, "bye": "bye", "error": "peer_error", "scheme 2": "malformed"},
        "open": dict.fromkeys(FRAMES, GOES_ON)
        | BROKEN
        | {"hello": "malformed", "bye": "bye", "error": "peer_error", "response": "malformed"},
    },
    sized=lambda size: size.to_bytes(4, "big") + bytes.fromhex("05000000") + bytes(size - 8),
    refused_after=lambda _limit: 4,
)
