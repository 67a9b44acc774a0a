"""A hash table for the message ids that a lane lets pass in one stretch of log time (see `known_ids`)."""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

GENERATION_SECONDS = 360
"""A table takes ids for so long at most, however few they are."""

_LEAST_SLOTS = 65_536
_FULL_TENTHS = 7
_SLOTS_A_WORD = 4
"""Two bytes of the filter for each slot: it is wrong about one id in a thousand. With one byte it was one in a hundred,
and those that it was wrong about cost more than all others."""
_FEW = 16
"""So few ids are looked up one by one, which then takes less time than all at once."""
_U64 = np.uint64
_MIX = (_U64(secrets.randbits(64) | 1), _U64(secrets.randbits(64) | 1))
"""Secret, so that nobody can choose message ids that meet in one slot."""
UPPER, _SHIFT = _U64(32), _U64(29)
"""UPPER is by how much mixed bits are shifted to find a place in a table."""
_BIT_SHIFTS = tuple(_U64(shift) for shift in (0, 6, 12, 18))
_ONE, _LOW_BITS = _U64(1), _U64(63)
_SECONDS = 0xFFFFFFFF
_AT_ONCE = 1 << 18
"""So many ids of a new table are placed together: it bounds the memory beside the table."""

Idents = NDArray[np.uint64]
Checks = NDArray[np.uint32]
Seconds = NDArray[np.uint32]
Slots = NDArray[np.uint64]
"""Ids as a table holds them, two words each: the ident, and check and second."""


def mixed_bits(idents: Idents) -> Idents:
    mixed = (idents ^ idents >> UPPER) * _MIX[0]
    return (mixed ^ mixed >> _SHIFT) * _MIX[1]


def slots_of(idents: Idents, checks: Checks, seconds: Seconds) -> Slots:
    return np.stack((idents, checks.astype(_U64) << UPPER | seconds), axis=1)


def filter_masks(mixed: Idents) -> Idents:
    """Returns the bits by which a filter knows an id: up to four of a word."""
    bits = [_ONE << (mixed >> shift & _LOW_BITS) for shift in _BIT_SHIFTS]
    mask: Idents = bits[0] | bits[1] | bits[2] | bits[3]
    return mask


def _place(upper: Idents, table: NDArray[np.uint64]) -> Idents:
    """Returns where in a table each id belongs, by the upper half of its mixed bits."""
    return upper * _U64(len(table)) >> UPPER


class IdTable:
    """A hash table with open addressing, for ids that pass within GENERATION_SECONDS, with a filter in front.

    A slot is two words side by side, so that it is one place in memory: the ident, and check and second. It is free
    while the second word is 0. Nothing is ever taken out, so a key lies between its home and the next free slot.
    """

    __slots__ = ("_begins_at", "_filter", "_slots", "ends_at", "used")

    def __init__(self, begins_at: int, count: int) -> None:
        self._begins_at = self.ends_at = begins_at
        """The log times at which the first and the last ids were put here."""
        self.used = 0
        words = max(_LEAST_SLOTS, count * 10 // _FULL_TENTHS) // _SLOTS_A_WORD + 1
        self._slots = np.zeros((words * _SLOTS_A_WORD, 2), _U64)
        self._filter: Idents = np.zeros(words, _U64)

    @property
    def memory_bytes(self) -> int:
        return self._slots.nbytes + self._filter.nbytes

    def room(self, log_seconds: int) -> int:
        """Returns how many more ids it takes at this time of the log."""
        is_over = log_seconds - self._begins_at >= GENERATION_SECONDS
        return 0 if is_over else max(len(self._slots) * _FULL_TENTHS // 10 - self.used, 0)

    def may_have(self, upper: Idents, masks: Idents) -> NDArray[np.intp]:
        """Returns the places of the ids that may be here."""
        places: NDArray[np.intp] = (self._filter[_place(upper, self._filter)] & masks == masks).nonzero()[0]
        return places

    def find(self, idents: Idents, checks: Checks, upper: Idents) -> list[int]:
        """Returns when each id passed; 0 for one that is not here."""
        homes = _place(upper, self._slots)
        if len(idents) <= _FEW:
            return [
                self._find_one(*wanted) for wanted in zip(idents.tolist(), checks.tolist(), homes.tolist(), strict=True)
            ]
        return self._find_many(idents, checks.astype(_U64), homes)

    def _find_one(self, ident: int, check: int, slot: int) -> int:
        while True:
            found, other = self._slots[slot].tolist()
            if not other or (found == ident and other >> 32 == check):
                return int(other & _SECONDS)
            slot = (slot + 1) % len(self._slots)

    def _find_many(self, idents: Idents, checks: Idents, slots: Idents) -> list[int]:
        seconds = np.zeros(len(idents), _U64)
        wanted, count = np.arange(len(idents)), _U64(len(self._slots))
        while len(wanted):
            found = self._slots[slots]
            others = found[:, 1]
            is_same = (found[:, 0] == idents) & (others >> UPPER == checks) & (others != 0)
            seconds[wanted[is_same]] = others[is_same] & _U64(_SECONDS)
            goes_on = (others != 0) & ~is_same
            wanted, idents, checks = wanted[goes_on], idents[goes_on], checks[goes_on]
            slots = (slots[goes_on] + _ONE) % count
        return seconds.tolist()

    def _add_to_filter(self, idents: Idents) -> Idents:
        """Returns the upper half of the ids' mixed bits too."""
        mixed = mixed_bits(idents)
        upper = mixed >> UPPER
        np.bitwise_or.at(self._filter, _place(upper, self._filter), filter_masks(mixed))
        return upper

    def fill(self, rows: Slots, log_seconds: int) -> None:
        """Puts ids into a table that has none yet, without a search: a fifth of the time that `put` takes.

        They are placed in the order of their homes, each in its home or right behind the one before it. Of the same id
        twice the last one stands first, as `put` leaves them.
        """
        count = len(rows)
        order = np.arange(count, dtype=_U64)[::-1].copy()
        for begin in range(0, count, _AT_ONCE):
            order[begin : begin + _AT_ONCE] |= mixed_bits(rows[begin : begin + _AT_ONCE, 0]) >> UPPER << UPPER
        order.sort()
        taken = -1
        for begin in range(0, count, _AT_ONCE):
            piece = order[begin : begin + _AT_ONCE]
            steps = np.arange(len(piece))
            slots = _place(piece >> UPPER, self._slots).view(np.int64) - steps
            slots[0] = max(int(slots[0]), taken + 1)
            slots = np.maximum.accumulate(slots) + steps
            taken = int(slots[-1])
            chosen = rows[(count - 1) - (piece & _U64(_SECONDS)).view(np.int64)]
            fitting = int(np.searchsorted(slots, len(self._slots)))
            self._slots[slots[:fitting]] = chosen[:fitting]
            if behind := len(chosen) - fitting:  # those behind the last slot go on at the first ones that are free
                free = np.flatnonzero(self._slots[:, 1] == 0)[:behind]
                self._slots[free] = chosen[fitting:]
            self._add_to_filter(chosen[:, 0])
        self.used = count
        self.ends_at = log_seconds

    def put(self, rows: Slots, log_seconds: int) -> None:
        """Puts ids, of which one that is there gets the new second. There must be room.

        Of the same id twice, both go the same way, so the last takes the first place and the other stands behind it.
        """
        self.ends_at = log_seconds
        count = _U64(len(self._slots))
        slots = _place(self._add_to_filter(rows[:, 0]), self._slots)
        while len(rows):
            found = self._slots[slots]
            is_free = found[:, 1] == 0
            is_known = ~is_free & (found[:, 0] == rows[:, 0]) & (found[:, 1] >> UPPER == rows[:, 1] >> UPPER)
            takes = is_free | is_known
            self._slots[slots[takes]] = rows[takes]
            # Where several want one slot the last one gets it; the others go on.
            has_it = takes & (self._slots[slots, 0] == rows[:, 0]) & (self._slots[slots, 1] == rows[:, 1])
            self.used += int((is_free & has_it).sum())
            left = ~has_it
            rows, slots = rows[left], (slots[left] + _ONE) % count
