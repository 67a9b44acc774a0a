"""The published packets, and the keys they were made with."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.auth.keyring import GatewayIdentity, Key, KeyRing
from gateway.auth.verification import public_of
from gateway.core.event import Event
from gateway.protocols.emm.mapping import to_event
from gateway.protocols.emm.options import EmmOptions
from gateway.protocols.emm.signing import Signer
from gateway.protocols.spec import CodecContext
from gateway.records.raw_log.frames import FrameSource, RawFrame

_FILE: dict[str, Any] = json.loads((Path(__file__).parent / "vectors.json").read_text())

NODE = bytes.fromhex(_FILE["constants"]["node_id"])
NODE_TEXT = "00112233-4455-6677-8899-aabbccddeeff"
KEY_ID = bytes.fromhex(_FILE["constants"]["auth_key_id"])
MESSAGE_ID = bytes.fromhex(_FILE["constants"]["message_id"])
SECRET = bytes.fromhex(_FILE["constants"]["secret"])
TIMESTAMP: int = _FILE["constants"]["timestamp"]
# RFC 8032, section 7.1, test 1
SEED = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
RECEIVED_AT = TIMESTAMP * 1_000_000

KEY = Key(KEY_ID, hmac=SECRET, ed25519=public_of(SEED))
RING = KeyRing({NODE: {KEY_ID: KEY}})
IDENTITY = GatewayIdentity(bytes(15) + b"g", bytes.fromhex("000000ff"), b"s" * 32, b"h" * 32)
ENV = CodecContext(RING, IDENTITY)
SIGNER = Signer(NODE, KEY_ID, SECRET, SEED)
SOURCE = FrameSource("emm", "devices", "edge-0", 1, peer="192.0.2.7:40000")

STRICT = EmmOptions()
OPEN = EmmOptions(unauthenticated="accept")


@dataclass(frozen=True, slots=True)
class Vector:
    name: str
    packet: bytes
    canonical: bytes
    hmac: bytes | None
    signature: bytes | None


def _optional(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


VECTORS = tuple(
    Vector(
        entry["name"].partition(" ")[0],
        bytes.fromhex(entry["packet"]),
        bytes.fromhex(entry["canonical"]),
        _optional(entry["hmac"]),
        _optional(entry["signature"]),
    )
    for entry in _FILE["packets"]
)
E1, E2, E3, E4, E5, E6 = (vector.packet for vector in VECTORS)


def receive(
    packet: bytes,
    options: EmmOptions = STRICT,
    env: CodecContext = ENV,
    *,
    received_at: int = RECEIVED_AT,
    event_id: str = "0-0-0",
) -> Event:
    return to_event(RawFrame(packet, SOURCE, received_at), event_id, options, env)
