"""The examples of hsp for the contract."""

from __future__ import annotations

from tests.unit.protocols.contract.streams import GOES_ON, Examples

FRAMES = {
    "DATA": bytes.fromhex("00 0099 00000003 78797a"),
    "DATA_ACK": bytes.fromhex("01 00000001 0007 00000005 68656c6c6f"),
    "ACK": bytes.fromhex("02 00000001"),
    "PING": b"\x03",
    "PONG": b"\x04",
    "ERROR": bytes.fromhex("05 00000001 1234 00000003 626164"),
    "ERROR_UNDEF": bytes.fromhex("06 00000001"),
    "command 7": b"\x07",
}
NOTHING_IS_OPEN = {
    "DATA": GOES_ON,
    "DATA_ACK": GOES_ON,
    "ACK": "malformed",
    "PING": GOES_ON,
    "PONG": "malformed",
    "ERROR": "malformed",
    "ERROR_UNDEF": "malformed",
    "command 7": "unknown_type",
}

EXAMPLES = Examples(
    opening=b"",
    frames=FRAMES,
    states={"open": b""},
    walk={"open": NOTHING_IS_OPEN},
    sized=lambda size: bytes.fromhex("00 0099") + size.to_bytes(4, "big") + bytes(size),
    refused_after=lambda _limit: 7,
)
