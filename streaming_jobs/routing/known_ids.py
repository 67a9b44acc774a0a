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
4. A table never grows. Where one is full the next begins, so that no record waits for a table to be moved. It has room
   for a sixth of what is known, so that no record waits for its memory either, and little of that stays empty.
5. An index is one worker's, and is used from record to record in the order of the log.

Memory: 18 bytes a slot, and seven of ten slots are taken in all tables but the youngest: 26 to 30 bytes an id. Up to a
few million ids the youngest is larger beside the others, and it is up to twice that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import compress

import numpy as np

from gateway.config import Config
from streaming_jobs.routing.id_rows import DIGEST_BYTES, NODE_BYTES, PACKET_KEY_BYTES, IdColumns, pack_row, read_rows
from streaming_jobs.routing.id_table import (
    GENERATION_SECONDS,
    UPPER,
    Checks,
    Idents,
    IdTable,
    Seconds,
    Slots,
    filter_masks,
    mixed_bits,
    slots_of,
)

LATENESS_SECONDS = 300
"""The most by which the clocks of two edges, or of an edge and the router, may be apart."""
MAX_NODES = 1 << 20
"""Nodes that have a number. The keys of any further one are known by digests."""

LONG_AGO = 1
"""The second of an id that is as good as unknown: nothing that is received lies within the horizon of it."""
YOUNG_IDS = 16_384
"""So many wait in the dictionary for a table: numpy takes as long for one id as for a hundred."""

_SHARE, _FEW_IDS = 6, 500_000
"""A new table has room for a sixth of what is known, or for as much again where that is little: the smaller it is, the
more tables each id is looked up in."""
_BYTES_AT_ONCE = 1 << 20
"""Rows of so many bytes are read back together."""
_READ_ROOM = 2 << 20
"""Ids that are read back wait for a table here. Of its memory only what they need is ever used."""
_U32, _U64 = np.uint32, np.uint64
_NODE_SHIFT = _U64(32)
FIRST_SECOND, LAST_SECOND = 1, 0xFFFFFFFF
"""Whoever asks puts a receive time outside of these to the nearer one, so that no edge's clock ends a query."""


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
        self._tables: list[IdTable] = []  # the youngest first
        self._numbers: dict[bytes, int] = {}
        self._added: list[tuple[bytes, int]] = []
        self._expected = 0

    def __len__(self) -> int:
        return len(self._young) + sum(table.used for table in self._tables)

    @property
    def memory_bytes(self) -> int:
        """The memory that the tables take, without the few nodes' numbers."""
        return sum(table.memory_bytes for table in self._tables)

    @property
    def keep_seconds(self) -> int:
        """How long an id must be known, in log time."""
        return self.horizon_seconds + LATENESS_SECONDS

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
            self._put(slots_of(idents, checks, np.array(list(self._young.values()), _U32)), log_seconds)
            self._young = {}
        oldest = self.log_seconds - self.keep_seconds
        self._tables = [table for table in self._tables if table.ends_at >= oldest]

    def _put(self, slots: Slots, log_seconds: int) -> None:
        """Puts ids that passed by this time of the log into tables that have room for them."""
        tables = self._tables
        while len(slots):
            room = tables[0].room(log_seconds) if tables else 0
            if not room:
                tables.insert(0, IdTable(log_seconds, self._share()))
                continue
            tables[0].put(slots[:room], log_seconds)
            slots = slots[room:]

    def _share(self) -> int:
        """Returns how many ids a new table has room for."""
        known = max(len(self), self._expected)
        return max(known // _SHARE, min(known, _FEW_IDS))

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

    def has(self, key: bytes, received_second: int) -> bool:
        """Returns True if the key of a frame that was received at this second has passed before."""
        passed = self._find([key])
        return passed is not None and passed[0] > 0 and abs(received_second - passed[0]) <= self.horizon_seconds

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
        mixed = mixed_bits(idents)
        masks, upper = filter_masks(mixed), mixed >> UPPER
        for table in self._tables:
            places = table.may_have(upper, masks)
            if len(places):
                passed = passed or [0] * len(keys)
                seconds_found = table.find(idents[places], checks[places], upper[places])
                for place, second in zip(places.tolist(), seconds_found, strict=True):
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
                return numbered << _NODE_SHIFT | _message_ids(joined), np.zeros(len(keys), _U32)
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
        """Returns the ids that the record has added, as Spark stores them; empty if there are none."""
        return pack_row(self._added)

    def restore(self, rows: Iterable[tuple[int, bytes]], size_bytes: int = 0) -> None:
        """Takes back rows of the state, each with its log time, in that order. What is known already stays.

        Nothing is forgotten meanwhile, because rows may come from lanes that are far ahead of this one.

        Raises ValueError or struct.error for a row that is damaged.

        Args:
            size_bytes: how much the rows have together, so that the first tables are not too small.
        """
        read = _ReadIds()
        waiting: list[bytes] = []
        begins_at = size = 0
        for log_seconds, row in rows:
            is_over = log_seconds // GENERATION_SECONDS != self.log_seconds // GENERATION_SECONDS
            if waiting and (is_over or size >= _BYTES_AT_ONCE):
                self._read(waiting, read)
                self._expected = self._expected or read.count * size_bytes // size
                waiting, size = [], 0
                if is_over or read.count >= self._share():
                    self._fill(read, begins_at)
            self.log_seconds = max(self.log_seconds, log_seconds)
            if row:
                begins_at = begins_at if read.count or waiting else log_seconds
                waiting.append(row)
                size += len(row)
        if waiting:
            self._read(waiting, read)
        if read.count:
            self._fill(read, begins_at)
        self._expected = 0

    def _read(self, rows: list[bytes], read: _ReadIds) -> None:
        columns = read_rows(rows)
        read.add(*self._packet_idents(columns), columns.packet_seconds)
        if columns.digests:
            cut = np.frombuffer(columns.digests, [("ident", ">u8"), ("check", ">u4")])
            read.add(cut["ident"].astype(_U64), cut["check"].astype(_U32) | _U32(1), columns.digest_seconds)

    def _fill(self, read: _ReadIds, begins_at: int) -> None:
        """Makes a table of ids, with the room that the next one would have. Of an id that stands there twice the last
        one is found first."""
        table = IdTable(begins_at, max(read.count, self._share()))
        table.fill(read.take(), self.log_seconds)
        self._tables.insert(0, table)

    def _packet_idents(self, columns: IdColumns) -> tuple[Idents, Checks]:
        """Returns what `_idents` does of packets' keys, and looks up each node of a row once."""
        numbers = self._numbers
        if not self._number(set(columns.nodes)):
            message_ids = columns.message_ids.astype(">u4").tobytes()
            nodes = map(columns.nodes.__getitem__, columns.places.tolist())
            return self._idents([node + message_ids[4 * at : 4 * at + 4] for at, node in enumerate(nodes)])
        numbered = np.array([numbers[node] for node in columns.nodes], _U64)[columns.places]
        return numbered << _NODE_SHIFT | columns.message_ids, np.zeros(len(numbered), _U32)


class _ReadIds:
    """Ids that were read back and wait for a table, in memory that serves one table after another."""

    def __init__(self) -> None:
        self.count = 0
        self._slots: Slots = np.empty((_READ_ROOM, 2), _U64)

    def add(self, idents: Idents, checks: Checks, seconds: Seconds) -> None:
        end = self.count + len(idents)
        if end > len(self._slots):
            self._slots = np.concatenate((self._slots[: self.count], np.empty((2 * end, 2), _U64)))
        self._slots[self.count : end] = slots_of(idents, checks, seconds)
        self.count = end

    def take(self) -> Slots:
        """Returns the ids, which stay until more are added."""
        count, self.count = self.count, 0
        return self._slots[:count]


def _message_ids(joined: bytes) -> Idents:
    """Returns the Message IDs of packets' keys that stand side by side."""
    return np.frombuffer(joined, ">u4")[4::5].astype(_U64)
