"""The message ids that a lane has let pass: an index in memory over what Spark's state holds.

    young: a dictionary ─► tables, the youngest first, each with a filter in front

A repeat is a frame whose key passed before, and was received at most `horizon_seconds` before or after it. The worker
decides that here, and the ids that a raw record has added leave with it as one row, which Spark stores (see
`router.plan`). So the engine keeps the durable, watermarked truth, and this index is rebuilt from it (`restore`).

Invariants
1. Every id is exact. An authenticated packet's id is its node's number and its Message ID, side by side in 64 bits. Any
   other key is known by 96 bits of its BLAKE2b digest; ten million of those meet by chance once in 10^15 lookups. A
   filter only says where there is no need to look.
2. Time is the log's own: the greatest receive time so far, never more than the router's clock. It never goes back, so
   Spark finds no row late, and a router that was away does not forget what its backlog still repeats.
3. An id is kept for `keep_seconds` at least. It leaves with its whole table, so nothing is ever searched for what is
   old. An id that passes again after the horizon stands in a younger place too, and that one counts.
4. A table never grows. Where one is full the next begins, so that no record waits for a table to be moved.
5. An index is one worker's, and is used from record to record in the order of the log.

Memory: 17 bytes a slot, and at most six of ten slots are taken: 28 bytes an id, up to twice that at a rate that grows.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from gateway.config import Config

LATENESS_SECONDS = 300
"""The most by which the clocks of two edges, or of an edge and the router, may be apart."""
GENERATION_SECONDS = 360
PACKET_KEY_BYTES, NODE_BYTES = 20, 16
"""The key of an authenticated packet: NODE ID and Message ID."""
DIGEST_BYTES = 12
MAX_NODES = 1 << 20
"""Nodes that have a number. The keys of any further one are known by digests."""

LONG_AGO = 1
"""The second of an id that is as good as unknown: nothing that is received lies within the horizon of it."""
YOUNG_IDS = 16_384
"""So many wait in the dictionary for a table: numpy takes as long for one id as for a hundred."""

_HEAD = struct.Struct("<II")
_LEAST_SLOTS = 65_536
_FULL_TENTHS, _SPARE_TENTHS = 6, 11
_FEW = 16
"""So few ids are looked up one by one, which then takes less time than all at once."""
_AT_ONCE = 50_000
"""So many ids are taken back together."""
_U32, _U64 = np.uint32, np.uint64
_MIX = (_U64(secrets.randbits(64) | 1), _U64(secrets.randbits(64) | 1))
"""Secret, so that nobody can choose message ids that meet in one slot."""
_SHIFTS = (_U64(32), _U64(29))
_BIT_SHIFTS = tuple(_U64(shift) for shift in (0, 6, 12, 18))
_ONE, _LOW_BITS = _U64(1), _U64(63)
_SECONDS = 0xFFFFFFFF
FIRST_SECOND, LAST_SECOND = 1, _SECONDS
"""Whoever asks puts a receive time outside of these to the nearer one, so that no edge's clock ends a query."""

Idents = NDArray[np.uint64]
Checks = NDArray[np.uint32]
Seconds = NDArray[np.uint32]


def repeat_horizon_seconds(config: Config) -> int:
    """Returns how far apart a frame and its repeat may be received. A packet that claims a time as far ahead as the
    skew allows stays fresh that much longer than the window.
    """
    return config.replay_window_seconds + config.clock_skew_seconds


def keep_seconds(config: Config) -> int:
    """Returns how long an id must be known, in log time: by Spark's state too, whose watermark is so far behind."""
    return repeat_horizon_seconds(config) + LATENESS_SECONDS


def message_key(text: str) -> bytes:
    """Returns the key under which an id is known: NODE ID and Message ID of a packet, or the digest of any other text.

    >>> message_key("00000000-0000-0000-0000-000000000001:0000002a").hex()
    '000000000000000000000000000000010000002a'
    >>> len(message_key("yamp\\0node\\0id"))
    12
    """
    if len(text) == 45 and text[36] == ":":
        try:
            packed = bytes.fromhex(text[:36].replace("-", "") + text[37:])
        except ValueError:
            packed = b""
        if len(packed) == PACKET_KEY_BYTES:
            return packed
    return _digest(text.encode())


def _digest(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=DIGEST_BYTES).digest()


class KnownIds:
    """The ids of one lane.

    Args:
        horizon_seconds: within which a key is a repeat.
    """

    def __init__(self, horizon_seconds: int) -> None:
        self.horizon_seconds = horizon_seconds
        self.log_seconds = 0
        self._young: dict[bytes, int] = {}
        self._tables: list[_Table] = []  # the youngest first
        self._numbers: dict[bytes, int] = {}
        self._added: list[tuple[bytes, int]] = []

    def __len__(self) -> int:
        return len(self._young) + sum(table.used for table in self._tables)

    @property
    def memory_bytes(self) -> int:
        """The memory that the tables take, without the few nodes' numbers."""
        return sum(table.memory_bytes for table in self._tables)

    # -- the log goes on -----------------------------------------------------------------------------------

    def advance(self, received_seconds: int, now_seconds: int) -> int:
        """Begins a record that was received at this second, and returns the log's time."""
        before, self.log_seconds = self.log_seconds, max(self.log_seconds, min(received_seconds, now_seconds))
        self._added = []
        if before // GENERATION_SECONDS != self.log_seconds // GENERATION_SECONDS:
            self._settle(before)
        return self.log_seconds

    def _settle(self, log_seconds: int) -> None:
        """Moves the young ids into a table, and drops the tables that are past their time."""
        if self._young:
            idents, checks = self._idents(list(self._young))
            self._table_for(len(self._young), log_seconds).put(
                idents, checks, np.array(list(self._young.values()), _U32)
            )
            self._young = {}
        oldest = self.log_seconds - self.horizon_seconds - LATENESS_SECONDS
        self._tables = [table for table in self._tables if table.ends_at >= oldest]

    def _table_for(self, count: int, log_seconds: int) -> _Table:
        """Returns a table with room. A new one is as large as what came in the last stretch of its length needs."""
        number = log_seconds // GENERATION_SECONDS
        tables = self._tables
        if not (tables and tables[0].number == number and tables[0].has_room(count)):
            lately = sum(table.used for table in tables if table.number >= number - 1)
            tables.insert(0, _Table(number, max(count, lately) * _SPARE_TENTHS // 10))
        return tables[0]

    # -- keys ----------------------------------------------------------------------------------------------

    def admit(self, keys: Sequence[bytes], received_seconds: Sequence[int]) -> list[bool]:
        """Returns for each key whether it is new, and remembers those that are. The keys are in the log's order."""
        if not keys:
            return []
        if len(set(keys)) < len(keys):
            return self._admit_with_repeats(keys, received_seconds)
        passed = self._find(keys)
        if passed is None:
            self._remember(zip(keys, received_seconds, strict=True))
            return [True] * len(keys)
        verdicts = [
            last == 0 or abs(second - last) > self.horizon_seconds
            for last, second in zip(passed, received_seconds, strict=True)
        ]
        self._remember(compress(zip(keys, received_seconds, strict=True), verdicts))
        return verdicts

    def _admit_with_repeats(self, keys: Sequence[bytes], received_seconds: Sequence[int]) -> list[bool]:
        """Admits the first of each key, then the rest, which is asked again. A key that comes twice in one second is
        a repeat the second time whatever is known of it, so a flood of one id costs no more than others.
        """
        firsts: dict[bytes, int] = {}
        later: dict[tuple[bytes, int], int] = {}
        for at, pair in enumerate(zip(keys, received_seconds, strict=True)):
            if firsts.setdefault(pair[0], at) != at and received_seconds[firsts[pair[0]]] != pair[1]:
                later.setdefault(pair, at)
        verdicts = [False] * len(keys)
        for chosen in (list(firsts.values()), list(later.values())):
            admitted = self.admit([keys[at] for at in chosen], [received_seconds[at] for at in chosen])
            for at, is_new in zip(chosen, admitted, strict=True):
                verdicts[at] = is_new
        return verdicts

    def mark(self, key: bytes, received_second: int) -> None:
        """Remembers a key, whether or not it is known."""
        self._remember([(key, received_second)])

    def take_back(self) -> None:
        """Makes what the record has added new again, so that it can be routed in another way."""
        self._young.update((key, LONG_AGO) for key, _ in self._added)
        self._added = []

    def _remember(self, pairs: Iterable[tuple[bytes, int]]) -> None:
        added = list(pairs)
        self._added += added
        self._young.update(added)
        if len(self._young) > YOUNG_IDS:
            self._settle(self.log_seconds)

    def _find(self, keys: Sequence[bytes]) -> list[int] | None:
        """Returns when each key passed last, 0 for one that is not known; None if none is."""
        young = self._young
        passed = None if young.keys().isdisjoint(keys) else [young.get(key, 0) for key in keys]
        if not self._tables:
            return passed
        idents, checks = self._idents(keys)
        mixed = _mixed(idents)
        masks = _masks(mixed)
        for table in self._tables:
            places = table.may_have(mixed, masks)
            if len(places):
                passed = passed or [0] * len(keys)
                found = table.find(idents[places], checks[places], mixed[places])
                for place, second in zip(places.tolist(), found, strict=True):
                    passed[place] = passed[place] or second
        return passed

    def _idents(self, keys: Sequence[bytes]) -> tuple[Idents, Checks]:
        """Returns what stands for the keys in the tables. A check of 0 is a packet's."""
        joined, numbers = b"".join(keys), self._numbers
        if len(joined) == PACKET_KEY_BYTES * len(keys) and all(len(key) == PACKET_KEY_BYTES for key in keys):
            try:
                numbered = np.array([numbers[key[:NODE_BYTES]] for key in keys], _U64)
            except KeyError:
                if self._number({key[:NODE_BYTES] for key in keys}):
                    return self._idents(keys)
            else:
                message_ids = np.frombuffer(joined, ">u4")[4::5].astype(_U64)
                return numbered << _SHIFTS[0] | message_ids, np.zeros(len(keys), _U32)
        else:
            self._number({key[:NODE_BYTES] for key in keys if len(key) == PACKET_KEY_BYTES})
        pairs = [self._pair(key) for key in keys]
        return np.array([ident for ident, _ in pairs], _U64), np.array([check for _, check in pairs], _U32)

    def _number(self, nodes: set[bytes]) -> bool:
        """Numbers these nodes; False if there are too many."""
        for node in nodes - self._numbers.keys():
            if len(self._numbers) >= MAX_NODES:
                return False
            self._numbers[node] = len(self._numbers)
        return True

    def _pair(self, key: bytes) -> tuple[int, int]:
        if len(key) == PACKET_KEY_BYTES:
            if (number := self._numbers.get(key[:NODE_BYTES])) is not None:
                return number << 32 | int.from_bytes(key[NODE_BYTES:], "big"), 0
            key = _digest(key)
        return int.from_bytes(key[:8], "big"), int.from_bytes(key[8:], "big") | 1

    # -- rows ----------------------------------------------------------------------------------------------

    def added_row(self) -> bytes:
        """Returns the ids that the record has added, as Spark stores them; empty if there are none.

        u32 packets | u32 digests | packet keys | digests | u32 seconds, in this order          (little-endian)
        """
        if not self._added:
            return b""
        packets = [added for added in self._added if len(added[0]) == PACKET_KEY_BYTES]
        digests = [added for added in self._added if len(added[0]) != PACKET_KEY_BYTES]
        keys, seconds = zip(*packets, *digests, strict=True)
        return _HEAD.pack(len(packets), len(digests)) + b"".join(keys) + np.array(seconds, "<u4").tobytes()

    def restore(self, rows: Iterable[tuple[int, bytes]]) -> None:
        """Takes back rows of the state, each with its log time, in that order. What is known already stays."""
        for log_seconds, row in rows:
            self.advance(log_seconds, log_seconds)
            if row:
                self._young.update(_read_row(row))
                if len(self._young) > _AT_ONCE:
                    self._settle(self.log_seconds)


def _read_row(row: bytes) -> Iterator[tuple[bytes, int]]:
    packets, digests = _HEAD.unpack_from(row)
    digests_at = _HEAD.size + packets * PACKET_KEY_BYTES
    seconds_at = digests_at + digests * DIGEST_BYTES
    seconds = np.frombuffer(row, "<u4", packets + digests, seconds_at)
    if seconds_at + 4 * len(seconds) != len(row):
        raise ValueError("a row of message ids has another length than its head says")
    keys = [*_cut(row, _HEAD.size, packets, PACKET_KEY_BYTES), *_cut(row, digests_at, digests, DIGEST_BYTES)]
    return zip(keys, seconds.tolist(), strict=True)


def _cut(row: bytes, begin: int, count: int, size: int) -> Iterator[bytes]:
    return (row[at : at + size] for at in range(begin, begin + count * size, size))


def _mixed(idents: Idents) -> Idents:
    mixed = (idents ^ idents >> _SHIFTS[0]) * _MIX[0]
    return (mixed ^ mixed >> _SHIFTS[1]) * _MIX[1]


def _masks(mixed: Idents) -> Idents:
    """Returns the bits by which a filter knows an id: up to four of a word."""
    bits = [_ONE << (mixed >> shift & _LOW_BITS) for shift in _BIT_SHIFTS]
    mask: Idents = bits[0] | bits[1] | bits[2] | bits[3]
    return mask


def _place(mixed: Idents, table: NDArray[np.uint64]) -> Idents:
    """Returns where in a table each id belongs, by the upper half of its bits."""
    return (mixed >> _SHIFTS[0]) * _U64(len(table)) >> _SHIFTS[0]


class _Table:
    """A hash table with open addressing: of ids that passed in one stretch of log time. Its filter has a byte a slot.

    A slot is two words side by side, so that it is one place in memory: the ident, and check and second. It is free
    while the second word is 0. Nothing is ever taken out, so a key lies between its home and the next free slot.
    """

    __slots__ = ("_filter", "_slots", "number", "used")

    def __init__(self, number: int, count: int) -> None:
        self.number = number
        self.used = 0
        words = max(_LEAST_SLOTS, count * 10 // _FULL_TENTHS) // 8 + 1
        self._slots = np.zeros((words * 8, 2), _U64)
        self._filter: Idents = np.zeros(words, _U64)

    @property
    def ends_at(self) -> int:
        """The last second of log time at which an id can have come."""
        return (self.number + 1) * GENERATION_SECONDS - 1

    @property
    def memory_bytes(self) -> int:
        return self._slots.nbytes + self._filter.nbytes

    def has_room(self, count: int) -> bool:
        return (self.used + count) * 10 <= len(self._slots) * _FULL_TENTHS

    def may_have(self, mixed: Idents, masks: Idents) -> NDArray[np.intp]:
        """Returns the places of the ids that may be here."""
        return np.flatnonzero(self._filter[_place(mixed, self._filter)] & masks == masks)

    def find(self, idents: Idents, checks: Checks, mixed: Idents) -> list[int]:
        """Returns when each id passed; 0 for one that is not here."""
        homes = _place(mixed, self._slots)
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
            is_same = (found[:, 0] == idents) & (others >> _SHIFTS[0] == checks) & (others != 0)
            seconds[wanted[is_same]] = others[is_same] & _U64(_SECONDS)
            goes_on = (others != 0) & ~is_same
            wanted, idents, checks = wanted[goes_on], idents[goes_on], checks[goes_on]
            slots = (slots[goes_on] + _ONE) % count
        return seconds.tolist()

    def put(self, idents: Idents, checks: Checks, seconds: Seconds) -> None:
        """Puts keys that differ from each other; one that is there gets the new second. There must be room."""
        mixed = _mixed(idents)
        np.bitwise_or.at(self._filter, _place(mixed, self._filter), _masks(mixed))
        count = _U64(len(self._slots))
        slots = _place(mixed, self._slots)
        rows = np.stack((idents, checks.astype(_U64) << _SHIFTS[0] | seconds), axis=1)
        while len(rows):
            found = self._slots[slots]
            is_free = found[:, 1] == 0
            is_known = ~is_free & (found[:, 0] == rows[:, 0]) & (found[:, 1] >> _SHIFTS[0] == rows[:, 1] >> _SHIFTS[0])
            takes = is_free | is_known
            self._slots[slots[takes]] = rows[takes]
            # Where several want one slot the last one gets it; the others go on.
            has_it = takes & (self._slots[slots, 0] == rows[:, 0]) & (self._slots[slots, 1] == rows[:, 1])
            self.used += int((is_free & has_it).sum())
            left = ~has_it
            rows, slots = rows[left], (slots[left] + _ONE) % count
