"""Packets that are nearly right: built from odd fields but with true tags, or true packets with something changed."""

from __future__ import annotations

from random import Random

from gateway.auth.verification import hmac_sha256, sign_ed25519
from gateway.core.reasons import Rejected
from gateway.core.wire import U8, U16, U64
from gateway.protocols.emm import codec
from gateway.protocols.emm.frames import EventType, Field, FieldType, Flag, Header, Packet
from gateway.protocols.emm.signing import Signer
from tests.unit.protocols.emm.vectors import KEY_ID, NODE, SECRET, SEED, TIMESTAMP, VECTORS

OTHER_SECRET, OTHER_SEED = b"another secret", b"o" * 32
EXPIRED_KEY_ID = bytes.fromhex("0000000e")
HMAC_KEY_ID = bytes.fromhex("0000000a")
SIGNATURE_KEY_ID = bytes.fromhex("0000000b")
KEY_IDS = (KEY_ID, EXPIRED_KEY_ID, HMAC_KEY_ID, SIGNATURE_KEY_ID, bytes(4))

_TEXTS = (b"temp.high", b"a", b"", b"\xff", "größe".encode(), b"mesh.emm.hello", b"Mesh/emm", b"x" * 255, b"y" * 254)
_VALUES = (
    *(b'{"k":1}', b"[1,2]", b" 1 ", b"NaN", b"{", b"", b"1 2", b"\xff", b'"\\ud800"'),
    *(b"[" * 66 + b"]" * 66, b"0" * 255),
)
_METADATA = (
    bytes.fromhex("01010102010c030ca0a1a2a3a4a5a6a7a8a9aaab"),
    bytes.fromhex("010102040ca0a1a2a3a4a5a6a7a8a9aaab"),
    bytes.fromhex("0101010502"),
    b"",
)


def nearly_right(random: Random) -> bytes:
    make = random.choice((_common, _nearly_common, _nearly_common, _odd_fields, _built, _vector))
    packet = make(random)
    if random.random() < 0.4:
        for _ in range(random.randint(1, 3)):
            packet = random.choice((_flip, _flip, _put, _cut, _extend, _set_length))(packet, random)
    return packet


def _vector(random: Random) -> bytes:
    return random.choice(VECTORS).packet


def _common(random: Random) -> bytes:
    return _assemble(_common_fields(random), random)


def _nearly_common(random: Random) -> bytes:
    """The common packet with one step in its order wrong, and tags that are true of it."""
    fields = _common_fields(random)
    at = random.randrange(len(fields))
    match random.randrange(5):
        case 0:
            fields.insert(random.randrange(len(fields) + 1), fields[at])
        case 1:
            del fields[at]
        case 2:
            random.shuffle(fields)
        case 3:
            fields.insert(at, _field(random.choice((*FieldType, 0, 6, 0x7F)), random))
        case _:
            fields[at] = Field(fields[at].type, random.randbytes(random.choice((0, 3, 4, 8, 16, 17, 254, 255))))
    return _assemble(fields, random)


def _common_fields(random: Random) -> list[Field]:
    data = random.choice(((), (Field(random.choice((1, 4, 5)), random.choice(_VALUES)),), (_field(2, random),)))
    fields = [Field(FieldType.STRING, random.choice(_TEXTS)), *data, Field(FieldType.NODE_ID, NODE)]
    if random.random() < 0.3:
        fields.append(Field(FieldType.TIMESTAMP, U64.pack(_time(random))))
    if random.random() < 0.8:
        fields.append(Field(FieldType.AUTH_KEY_ID, random.choice(KEY_IDS)))
    return fields


def _odd_fields(random: Random) -> bytes:
    kinds = random.choices((*FieldType, 0, 6, 0x19, 0x7F, 0xFF), k=random.randint(0, 8))
    fields = [_field(kind, random) for kind in kinds if kind not in (FieldType.HMAC, FieldType.SIGNATURE)]
    if random.random() < 0.5:
        fields += [Field(FieldType.STRING, b"temp.high"), Field(FieldType.NODE_ID, NODE)]
    if random.random() < 0.5:
        fields.sort(key=lambda item: item.type)
    return _assemble(fields, random)


def _built(random: Random) -> bytes:
    draft = codec.Draft(
        random.randbytes(4), _time(random), (Field(1, b"temp.high"), Field(4, random.randbytes(random.randint(0, 260))))
    )
    return codec.encode(draft, Signer(NODE, KEY_ID, SECRET, None, announce=random.random() < 0.2))


def _field(kind: int, random: Random) -> Field:
    right = {
        FieldType.NODE_ID: NODE,
        FieldType.AUTH_KEY_ID: random.choice(KEY_IDS),
        FieldType.TIMESTAMP: U64.pack(_time(random)),
        FieldType.ENCRYPTION: random.choice(_METADATA),
        FieldType.INTEGER: random.randbytes(4),
        FieldType.FLOAT: bytes.fromhex(random.choice(("3fc00000", "7fc00000", "ff800000"))),
        FieldType.JSON: random.choice(_VALUES),
        FieldType.STRING: random.choice(_TEXTS),
    }
    if kind in right and random.random() < 0.9:
        return Field(kind, right[FieldType(kind)])
    return Field(kind, random.randbytes(random.choice((0, 1, 4, 8, 12, 16, 32, 255))))


def _assemble(fields: list[Field], random: Random) -> bytes:
    """Whatever the fields are, with tags that are true of them."""
    kinds = random.choice(((), (16,), (16,), (16,), (18,), (16, 18), (18, 16), (16, 16)))
    flags = random.choice((0, 0, 0, 0, Flag.URGENT, Flag.ENCRYPTED, Flag.COMPRESSED, 0x08))
    event_type = random.choice((3, 3, 3, 3, EventType.HELLO, EventType.HEARTBEAT, 4, 0))
    payload = codec.encode_fields(fields)
    size = len(payload) + sum(34 if kind == FieldType.HMAC else 66 for kind in kinds)
    header = U8.pack(1) + random.randbytes(4) + U8.pack(flags) + U8.pack(event_type) + U64.pack(_time(random))
    header += U16.pack(size)
    try:
        signed = codec.canonical(Packet(Header(b"", 0, 0, 0), tuple(fields), header))
    except Rejected:  # broken Encryption Metadata has no canonical form
        signed = header + payload
    return header + payload + b"".join(_tag(kind, signed, random) for kind in kinds)


def _tag(kind: int, signed: bytes, random: Random) -> bytes:
    secret, seed = random.choices(((SECRET, SEED), (OTHER_SECRET, OTHER_SEED), (b"wrong", b"w" * 32)), (8, 1, 1))[0]
    if kind == FieldType.HMAC:
        return b"\x10\x20" + hmac_sha256(secret, signed)
    return b"\x12\x40" + sign_ed25519(seed, signed)


def _time(random: Random) -> int:
    odd = (TIMESTAMP - 300, TIMESTAMP - 301, TIMESTAMP + 120, TIMESTAMP + 121, 0, 2**64 - 1)
    return random.choice(odd) if random.random() < 0.4 else TIMESTAMP


def _flip(packet: bytes, random: Random) -> bytes:
    at = random.randrange(len(packet) or 1)
    return packet[:at] + bytes([packet[at] ^ 1 << random.randrange(8)]) + packet[at + 1 :] if packet else b""


def _put(packet: bytes, random: Random) -> bytes:
    at = random.randrange(len(packet) or 1)
    return packet[:at] + random.randbytes(1) + packet[at + 1 :]


def _cut(packet: bytes, random: Random) -> bytes:
    return packet[: random.randint(0, len(packet))]


def _extend(packet: bytes, random: Random) -> bytes:
    return packet + random.randbytes(random.randint(1, 20))


def _set_length(packet: bytes, random: Random) -> bytes:
    """Payload Length made right again after a change."""
    return packet[:15] + U16.pack(max(len(packet) - 17, 0)) + packet[17:]
