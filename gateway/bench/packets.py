"""Signed packets by the hundred thousand: all that differs between two of them is written into one template.

A packet of the protocol's own encoder costs ten times as much, which for a run of minutes is minutes of preparation.
"""

from __future__ import annotations

from gateway.auth.verification import hmac_sha256, sign_ed25519
from gateway.bench.marker import INDEX_DIGITS, MIN_BODY_BYTES, PROBE, Marker
from gateway.bench.workload import WorkError
from gateway.core.wire import U32, U64
from gateway.protocols.emm import codec
from gateway.protocols.emm.frames import MAX_FIELD_BYTES, SEALED_HEADER_BYTES, VALUE_BYTES, Field, FieldType
from gateway.protocols.emm.signing import Signer

_ID_START, _ID_END = 1, 5
_FIELD_HEAD_BYTES = 2
_TIME_START = SEALED_HEADER_BYTES - U64.size
_HMAC_HEAD = bytes((FieldType.HMAC, VALUE_BYTES[FieldType.HMAC]))
_SIGNATURE_HEAD = bytes((FieldType.SIGNATURE, VALUE_BYTES[FieldType.SIGNATURE]))


class PacketTemplate:
    """Makes packets of `size` bytes from one node.

    The last byte or two may be missing if a field's head would be torn.

    `first_id`: the message id of frame 0. Raises WorkError where `size` has no room for what must be in a packet.
    """

    def __init__(self, signer: Signer, subject: str, size: int, marker: Marker, first_id: int) -> None:
        self._hmac, self._seed = signer.hmac, signer.ed25519_private
        self._first_id = first_id
        packet = _of_size(signer, subject, size, marker)
        signed = packet[: len(packet) - signer.tags_bytes]
        digits = packet.index(marker.word) + len(marker.word)
        self._digits = marker.digits
        self._version = signed[:_ID_START]
        self._kind = signed[_ID_END:_TIME_START]
        self._head = signed[SEALED_HEADER_BYTES:digits]
        self._tail = signed[digits + INDEX_DIGITS :]

    def packet(self, index: int, timestamp: int) -> bytes:
        """Returns a packet. Signed fields stand in signing order: the tags' input is what stands before them."""
        message_id = U32.pack((self._first_id + index) & 0xFFFF_FFFF)
        digits = self._digits(index)
        head = self._version + message_id + self._kind + U64.pack(timestamp)
        signed = b"".join((head, self._head, digits, self._tail))
        packet = signed
        if self._hmac is not None:
            packet += _HMAC_HEAD + hmac_sha256(self._hmac, signed)
        if self._seed is not None:
            packet += _SIGNATURE_HEAD + sign_ed25519(self._seed, signed)
        return packet


def _of_size(signer: Signer, subject: str, size: int, marker: Marker) -> bytes:
    def packet(body_bytes: int) -> bytes:
        fields = Field(FieldType.STRING, subject.encode()), Field(FieldType.JSON, marker.body(PROBE, body_bytes))
        return codec.encode(codec.Draft(bytes(4), 0, fields), signer)

    least = len(packet(MIN_BODY_BYTES))
    if size < least:
        raise WorkError(f"--size {size}: a packet signed like this has at least {least} bytes")
    spare = size - least + _field_bytes(MIN_BODY_BYTES)
    return packet(max(body for body in range(MIN_BODY_BYTES, spare) if _field_bytes(body) <= spare))


def _field_bytes(value_bytes: int) -> int:
    """Returns the bytes of a value in a packet: each piece of 255 bytes has a head, and so has the rest, even if
    empty."""
    return value_bytes + _FIELD_HEAD_BYTES * (value_bytes // MAX_FIELD_BYTES + 1)


def first_message_id(now_ns: int) -> int:
    """Ids count up from here. A run that sends fewer than 100,000 packets a second never meets the ids of the run
    before, though a node has only four bytes for them: they move on with the clock, and begin again in half a day."""
    return now_ns // 10_000 % (1 << 32)
