"""The examples of yamp for the contract."""

from __future__ import annotations

from tests.unit.protocols.contract.streams import GOES_ON, Examples

HANDSHAKE = bytes.fromhex("00 0001 04 6a736f6e")


def uid(number: int) -> bytes:
    return bytes([number]) * 16


FRAMES = {
    "handshake": HANDSHAKE,
    "ping": bytes.fromhex("01 03 616263"),
    "pong": bytes.fromhex("02 03 616263"),
    "close": bytes.fromhex("03 0003 627965"),
    "close-redirect": bytes.fromhex("04 0017 7463703a2f2f3139322e3136382e302e34323a35303030"),
    "event": b"\x05" + uid(1) + bytes.fromhex("03 666f6f 00000007 7b2261223a317d"),
    "request": b"\x06" + uid(2) + bytes.fromhex("03 73756d 00 00000007 5b312c322c335d"),
    "cancel": b"\x07" + uid(8) + bytes.fromhex("04 736c6f77") + uid(7) + b"\x00",
    "response": b"\x08" + uid(3) + bytes.fromhex("03 73756d") + uid(2) + bytes.fromhex("00 00000001 36"),
    "type 9": b"\x09",
}
BEGINNING = dict.fromkeys(FRAMES, "malformed") | {
    "handshake": GOES_ON,
    "close": "peer_error",
    "close-redirect": "redirect",
    "type 9": "unknown_type",
}
OPEN = dict.fromkeys(FRAMES, GOES_ON) | {
    "handshake": "malformed",
    "close": "bye",
    "close-redirect": "redirect",
    "type 9": "unknown_type",
}
HEAD_BYTES = 1 + 16 + 1 + 3 + 4


def sized(size: int) -> bytes:
    """An event whose body is a JSON string."""
    body = size - HEAD_BYTES
    return b"\x05" + uid(1) + b"\x03foo" + body.to_bytes(4, "big") + b'"' + b"x" * (body - 2) + b'"'


EXAMPLES = Examples(
    opening=HANDSHAKE,
    frames=FRAMES,
    states={"awaiting the handshake": b"", "open": HANDSHAKE},
    walk={"awaiting the handshake": BEGINNING, "open": OPEN},
    sized=sized,
    refused_after=lambda _limit: HEAD_BYTES,
)
