"""Layer 1 of wolpertinger, from bytes and to bytes, without state.

    UTF-8 XML → gzip → AES → base64 → split        sending: `pack`, then `encode`
    `decode`, joined by `Fragments`, then `unpack`  receiving

>>> unpack(decode(b"message_id:1;aGVsbG8="), None, 100)
b'hello'
"""

from __future__ import annotations

import binascii
import gzip
import zlib
from dataclasses import dataclass

from gateway.core.reasons import Reason, Rejected
from gateway.protocols.wolpertinger.cipher import Cipher
from gateway.protocols.wolpertinger.frames import (
    ID_LIMIT,
    MAX_OBJECTS,
    MAX_PIECES,
    PIECE_CHARACTERS,
    BadTransmission,
    Confirmation,
    Piece,
    Result,
)

_KEYS = frozenset({b"message_id", b"result", b"gzip", b"encryption", b"fragment_count", b"fragment_index"})
_FRAGMENT_KEYS = frozenset({b"fragment_count", b"fragment_index"})
_CONFIRMATION_KEYS = frozenset({b"message_id", b"result"})
MAX_TAGS = 3 * MAX_OBJECTS
"""Two for each object, and as many again inside objects of a peer's own types as half of them have. A kilobyte of gzip
can hold twenty times as many, which the parser takes 18 ms for."""
_GZIP_WINDOW = 31
"""zlib's name for the gzip format with the largest window."""


def decode(message: bytes) -> Piece | Confirmation:
    """Reads one layer-1 message.

    Raises BadTransmission if a result code can answer it, and Rejected if nothing can.
    """
    # One pair more than there are keys is enough to see that one is repeated or unknown.
    *pairs, text = message.split(b";", len(_KEYS) + 1)
    metadata = _metadata(pairs)
    message_id = _number(metadata.get(b"message_id", b""), ID_LIMIT)
    if message_id is None:
        raise Rejected(Reason.MISSING_FIELD, "a message without a message_id")
    if b"result" in metadata:
        return _confirmation(metadata, message_id, text)
    index, count = _position(metadata, message_id)
    if metadata.get(b"encryption", b"aes").lower() != b"aes":
        raise BadTransmission(Result.ENCRYPTION, Reason.BAD_CIPHERTEXT, "an unknown encryption", message_id)
    length = _number(metadata.get(b"gzip", b"0"), ID_LIMIT)
    if length is None:
        raise BadTransmission(Result.FORMAT, Reason.MALFORMED, "the length of gzip is no number", message_id)
    return Piece(message_id, text, length if b"gzip" in metadata else None, b"encryption" in metadata, index, count)


def _metadata(pairs: list[bytes]) -> dict[bytes, bytes]:
    metadata: dict[bytes, bytes] = {}
    for pair in pairs:
        key, colon, value = pair.partition(b":")
        key = key.lower()
        if not colon or b":" in value:
            raise Rejected(Reason.MALFORMED, "a pair without exactly one colon")
        if key not in _KEYS or key in metadata:
            raise Rejected(Reason.MALFORMED, "a key that is unknown or repeated")
        metadata[key] = value
    return metadata


def _number(value: bytes, limit: int) -> int | None:
    """Reads decimal digits below the limit, and nothing that `int` takes besides."""
    if not value.isdigit() or len(value) > len(str(limit)):
        return None
    number = int(value)
    return number if number < limit else None


def _confirmation(metadata: dict[bytes, bytes], message_id: int, text: bytes) -> Confirmation:
    result = _number(metadata[b"result"], ID_LIMIT)
    if metadata.keys() != _CONFIRMATION_KEYS or text or result is None:
        raise Rejected(Reason.MALFORMED, "a confirmation that says more than a result")
    return Confirmation(message_id, result)


def _position(metadata: dict[bytes, bytes], message_id: int) -> tuple[int, int]:
    keys = _FRAGMENT_KEYS & metadata.keys()
    if not keys:
        return 0, 1
    count = _number(metadata.get(b"fragment_count", b""), MAX_PIECES + 1)
    index = _number(metadata.get(b"fragment_index", b""), MAX_PIECES)
    if count is None or index is None or index >= count:
        raise BadTransmission(Result.SPLITTING, Reason.MALFORMED, "a fragment out of its count", message_id)
    return index, count


def unpack(whole: Piece, cipher: Cipher | None, limit: int) -> bytes:
    """Returns the layer-2 message in a joined one. `limit` bounds what gzip may make of it."""
    try:
        data = binascii.a2b_base64(whole.text, strict_mode=True)
    except (binascii.Error, ValueError):
        raise BadTransmission(Result.FORMAT, Reason.BAD_ENCODING, "not base64", whole.message_id) from None
    if not whole.encrypted:
        return _plain(whole, data, limit)
    data = _decrypt(data, cipher, whole.message_id)
    try:
        return _plain(whole, data, limit)
    except BadTransmission as bad:
        raise _undecryptable(whole.message_id) from bad


def _plain(whole: Piece, data: bytes, limit: int) -> bytes:
    """Returns what was compressed, if anything was."""
    if whole.gzip is None:
        return data
    if whole.gzip != len(data):
        raise BadTransmission(Result.FORMAT, Reason.MALFORMED, "the length of gzip is another", whole.message_id)
    return _gunzip(data, limit, whole.message_id)


def _undecryptable(message_id: int) -> BadTransmission:
    """Returns the one refusal of an encrypted message that layer 1 cannot read, wherever that shows.

    Padding, length and gzip must not be told apart: whoever can change what is on its way would learn from it how the
    padding of a message ends that he has recorded, and so, byte by byte, the message (CBC has no tag).
    """
    return BadTransmission(Result.ENCRYPTION, Reason.BAD_CIPHERTEXT, "it does not decrypt", message_id)


def _decrypt(data: bytes, cipher: Cipher | None, message_id: int) -> bytes:
    if cipher is None:
        raise BadTransmission(Result.ENCRYPTION, Reason.BAD_CIPHERTEXT, "no key was exchanged", message_id)
    try:
        return cipher.decrypt(data)
    except ValueError:
        raise _undecryptable(message_id) from None


def _gunzip(data: bytes, limit: int, message_id: int) -> bytes:
    inflater = zlib.decompressobj(_GZIP_WINDOW)
    try:
        inflated = inflater.decompress(data, limit + 1)
    except zlib.error:
        raise BadTransmission(Result.FORMAT, Reason.MALFORMED, "not gzip", message_id) from None
    if len(inflated) > limit:
        raise BadTransmission(Result.FORMAT, Reason.BOMB, f"gzip of more than {limit} bytes", message_id)
    if inflated.count(b"<") > MAX_TAGS:
        raise BadTransmission(Result.FORMAT, Reason.BOMB, f"gzip of more than {MAX_TAGS} tags", message_id)
    if not inflater.eof or inflater.unused_data:
        raise BadTransmission(Result.FORMAT, Reason.MALFORMED, "gzip that is cut off or goes on", message_id)
    return inflated


@dataclass(frozen=True, slots=True)
class Packed:
    """A layer-2 message ready to be split: its base64, and the metadata that all pieces carry."""

    text: bytes
    metadata: bytes


def pack(data: bytes, cipher: Cipher | None, *, compress: bool) -> Packed:
    metadata = b""
    if compress:
        data = gzip.compress(data, mtime=0)
        metadata = b"gzip:%d;" % len(data)
    if cipher is not None:
        data = cipher.encrypt(data)
        metadata = b"encryption:aes;" + metadata
    return Packed(binascii.b2a_base64(data, newline=False), metadata)


def encode(message_id: int, packed: Packed) -> list[bytes]:
    """Returns the layer-1 messages that carry it: one, or as many as it must be split into."""
    head = b"message_id:%d;" % message_id
    text = packed.text
    if len(text) <= PIECE_CHARACTERS:
        return [head + packed.metadata + text]
    pieces = [text[at : at + PIECE_CHARACTERS] for at in range(0, len(text), PIECE_CHARACTERS)]
    head += b"fragment_count:%d;" % len(pieces)
    return [head + b"fragment_index:%d;" % index + packed.metadata + piece for index, piece in enumerate(pieces)]


def encode_confirmation(message_id: int, result: Result) -> bytes:
    return b"result:%d;message_id:%d;" % (result, message_id)
