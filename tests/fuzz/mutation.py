"""Changes of an input: what a fuzzer does to a seed, as data, so that a run can be repeated and made smaller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

INTERESTING = (0, 1, 2, 3, 0x1F, 0x20, 0x3B, 0x7F, 0x80, 0xC0, 0xD8, 0xED, 0xFE, 0xFF)
NUMBERS = (0, 1, 7, 8, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**63)
TOKENS = (
    b".", b"/", b"*", b">", b"\0", b"\n", b";", b":", b",", b"{", b"[", b'"', b"'", b"<", b"&", b"\xff\xfe",
    b"\xc3\xa9",
    b"mesh.", b"mesh.subscribe", b'{"subject":"a.>"}', b"[1,2]", b"null", b"NaN", b"1e999", b'"\\ud800"', b"anon:",
    b"\x1f\x8b\x08\0\0\0\0\0\0\3", b"message_id:", b"fragment_count:2;", b"]]>", b"<!DOCTYPE a>", b"application/json",
)  # fmt: skip
MOST_BYTES = 65_536
MOST_EDITS = 8


class Edit(NamedTuple):
    """`at` and `size` are parts of 65,536 of the input, so that an edit fits inputs of every length."""

    kind: int
    at: int
    value: int
    size: int


def mutated(seed: bytes, edits: Sequence[Edit], others: Sequence[bytes]) -> bytes:
    """Applies the edits in their order. `others`: seeds from which pieces may come."""
    data = bytearray(seed)
    for edit in edits:
        _KINDS[edit.kind % len(_KINDS)](data, edit, others)
        del data[MOST_BYTES:]
    return bytes(data)


def random_edits(random: Random) -> list[Edit]:
    count = random.choice((1, 1, 1, 2, 2, 3, 4, MOST_EDITS))
    return [
        Edit(random.getrandbits(8), random.getrandbits(16), random.getrandbits(32), random.getrandbits(16))
        for _ in range(count)
    ]


def _place(data: bytearray, at: int) -> int:
    return at * len(data) >> 16


def _flip_bit(data: bytearray, edit: Edit, _others: Sequence[bytes]) -> None:
    if data:
        data[_place(data, edit.at)] ^= 1 << (edit.value & 7)


def _set_byte(data: bytearray, edit: Edit, _others: Sequence[bytes]) -> None:
    if data:
        data[_place(data, edit.at)] = edit.value & 0xFF


def _set_interesting(data: bytearray, edit: Edit, _others: Sequence[bytes]) -> None:
    if data:
        data[_place(data, edit.at)] = INTERESTING[edit.value % len(INTERESTING)]


def _set_number(data: bytearray, edit: Edit, _others: Sequence[bytes]) -> None:
    """A length that is wrong is what a parser trips over most."""
    width = (1, 2, 4, 8)[edit.size & 3]
    number = NUMBERS[edit.value % len(NUMBERS)] + (edit.size >> 3 & 3) - 1
    at = _place(data, edit.at)
    data[at : at + width] = (number % 256**width).to_bytes(width, "big" if edit.size & 4 else "little")


def _add_to_number(data: bytearray, edit: Edit, _others: Sequence[bytes]) -> None:
    width = (1, 2, 4, 8)[edit.size & 3]
    at = _place(data, edit.at)
    number = int.from_bytes(data[at : at + width], "big") + edit.value % 33 - 16
    data[at : at + width] = (number % 256**width).to_bytes(width, "big")


def _delete(data: bytearray, edit: Edit, _others: Sequence[bytes]) -> None:
    at = _place(data, edit.at)
    del data[at : at + 1 + edit.size % 64]


def _cut_off(data: bytearray, edit: Edit, _others: Sequence[bytes]) -> None:
    del data[_place(data, edit.at) :]


def _insert(data: bytearray, edit: Edit, _others: Sequence[bytes]) -> None:
    at = _place(data, edit.at)
    data[at:at] = edit.value.to_bytes(4, "big")[: 1 + edit.size % 4]


def _insert_token(data: bytearray, edit: Edit, _others: Sequence[bytes]) -> None:
    at = _place(data, edit.at)
    data[at:at] = TOKENS[edit.value % len(TOKENS)]


def _repeat(data: bytearray, edit: Edit, _others: Sequence[bytes]) -> None:
    """A piece many times: what is counted, nested or concatenated grows."""
    at = _place(data, edit.at)
    piece = bytes(data[at : at + 1 + edit.size % 48])
    data[at:at] = piece * (1 << edit.value % 11)


def _splice(data: bytearray, edit: Edit, others: Sequence[bytes]) -> None:
    other = others[edit.value % len(others)]
    begin = edit.size * len(other) >> 16
    at = _place(data, edit.at)
    data[at:at] = other[begin:]


def _follow(data: bytearray, edit: Edit, others: Sequence[bytes]) -> None:
    data += others[edit.value % len(others)]


_KINDS: tuple[Callable[[bytearray, Edit, Sequence[bytes]], None], ...] = (
    _flip_bit, _set_byte, _set_interesting, _set_number, _add_to_number, _delete, _cut_off, _insert, _insert_token,
    _repeat, _splice, _follow,
)  # fmt: skip
KINDS = len(_KINDS)
