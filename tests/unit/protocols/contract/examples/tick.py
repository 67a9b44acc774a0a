"""The examples of the sixth protocol for the contract."""

from __future__ import annotations

from tests.unit.protocols.contract.streams import GOES_ON, Examples

FRAMES = {
    "event": bytes.fromhex("0008 00 00000000 01 61 78"),
    "request": bytes.fromhex("0008 01 00000005 01 61 78"),
    "response": bytes.fromhex("0008 02 00000005 01 61 78"),
    "kind 4": bytes.fromhex("0006 04 00000000 00"),
    "subject past the end": bytes.fromhex("0006 00 00000000 01"),
}

EXAMPLES = Examples(
    opening=b"",
    frames=FRAMES,
    states={"open": b""},
    walk={
        "open": dict.fromkeys(FRAMES, GOES_ON)
        | {"response": "malformed", "kind 4": "unknown_type", "subject past the end": "truncated"}
    },
    sized=lambda size: (size - 2).to_bytes(2, "big") + bytes.fromhex("00 00000000 01 61") + bytes(size - 9),
    refused_after=lambda _limit: 2,
)
