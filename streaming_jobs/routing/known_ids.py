"""The message ids that a lane has let pass: an index in memory over what Spark's state holds.

A repeat is a frame whose key passed before, and was received at most `horizon_seconds` before or after it. The worker
decides that here, and the ids that a raw record has added leave with it as one row, which Spark stores (see
`router.plan`). So the engine keeps the durable, watermarked truth, and this index is rebuilt from it (`restore`).

Invariants
1. Every id is exact. An authenticated packet's id is its node's number and its Message ID, side by side in 64 bits. Any
   other key is known by 96 bits of its BLAKE2b digest; ten million of those meet by chance once in 10^15 lookups.
2. Time is the log's own: the greatest receive time so far, never more than the router's clock. It never goes back, so
   Spark finds no row late, and a router that was away does not forget what its backlog still repeats.
3. An id is kept for `keep_seconds` at least. It leaves with its whole generation, so nothing is ever searched for what
   is old. An id that passes again after the horizon stands in the younger generation too, and that one counts.
4. An index is one worker's, and is used from record to record in the order of the log.

Memory: 16 bytes a slot, and at most six of ten slots are taken: 27 to 54 bytes an id.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gateway.config import Config

LATENESS_SECONDS = 300
"""How far the clocks of two edges, or of an edge and the router, may be apart."""
GENERATION_SECONDS = 360
PACKET_KEY_BYTES, NODE_BYTES = 20, 16
"""The key of an authenticated packet: NODE ID and Message ID."""
DIGEST_BYTES = 12
MAX_NODES = 1 << 20
"""Nodes that have a number. The keys of any further one are known by digests."""

_HEAD = struct.Struct("<II")
_LEAST_SLOTS = 4_096
_AT_ONCE = 50_000
"""So many ids are taken back together: each call costs as much as a hundred of them."""
_FULL_TENTHS = 6
_U32, _U64 = np.uint32, np.uint64
_MIX = (_U64(secrets.randbits(64) | 1), _U64(secrets.randbits(64) | 1))
"""Secret, so that nobody can choose message ids that meet in one slot."""
_SHIFTS = (_U64(32), _U64(29))

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
    '00000000000000000000000000000001' '0000002a'
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
        self._generations: list[_Generation] = []  # the youngest first
        self._numbers: dict[bytes, int] = {}
        self._added: list[tuple[bytes, int]] = []

    def __len__(self) -> int:
        return sum(generation.used for generation in self._generations)

    @property
    def memory_bytes(self) -> int:
        """What the tables take; the few nodes' numbers are left out."""
        return sum(generation.memory_bytes for generation in self._generations)

    # -- the log goes on -----------------------------------------------------------------------------------

    def advance(self, received_seconds: int, now_seconds: int) -> int:
        """Begins a record that was received at this second, and returns the log's time."""
        self.log_seconds = max(self.log_seconds, min(received_seconds, now_seconds))
        self._open(self.log_seconds // GENERATION_SECONDS)
        self._added = []
        return self.log_seconds

    def _open(self, number: int) -> None:
        generations = self._generations
        if generations and generations[0].number == number:
            return
        slots = generations[0].slots_needed if generations else _LEAST_SLOTS
        oldest = (self.log_seconds - self.horizon_seconds - LATENESS_SECONDS) // GENERATION_SECONDS
        self._generations = [_Generation(number, slots), *[one for one in generations if one.number >= oldest]]

    # -- keys ----------------------------------------------------------------------------------------------

    def admit(self, keys: Sequence[bytes], received_seconds: Sequence[int]) -> list[bool]:
        """Returns for each key whether it is new, and remembers those that are. The keys are in the log's order."""
        if not keys:
            return []
        if len(set(keys)) < len(keys):
            return self._admit_with_repeats(keys, received_seconds)
        idents, checks = self._idents(keys)
        seconds = np.array(received_seconds, _U32)
        known = self._find(idents, checks)
        apart = np.abs(known.astype(np.int64) - seconds)
        is_new = (known == 0) | (apart > self.horizon_seconds)
        if is_new.all():
            self._remember(idents, checks, seconds)
            self._added += zip(keys, received_seconds, strict=True)
            return [True] * len(keys)
        self._remember(idents[is_new], checks[is_new], seconds[is_new])
        verdicts: list[bool] = is_new.tolist()
        self._added += [(key, second) for key, second, new in zip(keys, received_seconds, verdicts, strict=True) if new]
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
        """Remembers a key whatever is known of it."""
        self._remember(*self._idents([key]), np.array([received_second], _U32))
        self._added.append((key, received_second))

    def _find(self, idents: Idents, checks: Checks) -> Seconds:
        """Returns when each key passed last; 0 for one that is not known."""
        youngest, *older = self._generations
        seconds = youngest.find(idents, checks)
        for generation in older:
            left = np.flatnonzero(seconds == 0)
            if not len(left):
                break
            seconds[left] = generation.find(idents[left], checks[left])
        return seconds

    def _remember(self, idents: Idents, checks: Checks, seconds: Seconds) -> None:
        self._generations[0].put(idents, checks, seconds)

    def _idents(self, keys: Sequence[bytes]) -> tuple[Idents, Checks]:
        """Returns what stands for the keys in the tables. A check of 0 is a packet's."""
        nodes = {key[:NODE_BYTES] for key in keys if len(key) == PACKET_KEY_BYTES}
        numbers = self._numbers
        for node in nodes - numbers.keys():
            if len(numbers) < MAX_NODES:
                numbers[node] = len(numbers)
        if all(len(key) == PACKET_KEY_BYTES for key in keys) and nodes <= numbers.keys():
            numbered = np.array([numbers[key[:NODE_BYTES]] for key in keys], _U64)
            message_ids = np.frombuffer(b"".join(keys), ">u4")[4::5].astype(_U64)
            return numbered << _SHIFTS[0] | message_ids, np.zeros(len(keys), _U32)
        pairs = [self._pair(key) for key in keys]
        return np.array([ident for ident, _ in pairs], _U64), np.array([check for _, check in pairs], _U32)

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
        """Takes back the rows of the state, each with its log time, in that order."""
        by_key: dict[bytes, int] = {}  # a key that passed once more counts as of then
        for log_seconds, row in rows:
            if log_seconds // GENERATION_SECONDS != self.log_seconds // GENERATION_SECONDS or len(by_key) > _AT_ONCE:
                self._take_back(by_key)
                by_key = {}
            self.advance(log_seconds, log_seconds)
            if row:
                by_key.update(_read_row(row))
        self._take_back(by_key)

    def _take_back(self, by_key: Mapping[bytes, int]) -> None:
        if by_key:
            self._remember(*self._idents(list(by_key)), np.array(list(by_key.values()), _U32))


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


class _Generation:
    """A hash table with open addressing: of the ids that passed in one stretch of log time.

    A slot is free while its second is 0. Nothing is ever taken out, so a key lies between its home and the next free
    slot.
    """

    __slots__ = ("_check", "_ident", "_second", "_shift", "number", "used")

    def __init__(self, number: int, slots: int) -> None:
        self.number = number
        self._make(slots)

    def _make(self, slots: int) -> None:
        self.used = 0
        self._shift = _U64(64 - (slots.bit_length() - 1))
        self._ident: Idents = np.zeros(slots, _U64)
        self._check: Checks = np.zeros(slots, _U32)
        self._second: Seconds = np.zeros(slots, _U32)

    @property
    def slots_needed(self) -> int:
        """How many slots hold as many ids as this generation has."""
        slots = _LEAST_SLOTS
        while self.used * 10 > slots * _FULL_TENTHS:
            slots *= 2
        return slots

    @property
    def memory_bytes(self) -> int:
        return self._ident.nbytes + self._check.nbytes + self._second.nbytes

    def _homes(self, idents: Idents) -> NDArray[np.uint64]:
        mixed = (idents ^ idents >> _SHIFTS[0]) * _MIX[0]
        return (mixed ^ mixed >> _SHIFTS[1]) * _MIX[1] >> self._shift

    def find(self, idents: Idents, checks: Checks) -> Seconds:
        found = np.zeros(len(idents), _U32)
        wanted, last = np.arange(len(idents)), _U64(len(self._second) - 1)
        slots = self._homes(idents)
        while len(wanted):
            seconds = self._second[slots]
            is_taken = seconds != 0
            is_same = is_taken & (self._ident[slots] == idents) & (self._check[slots] == checks)
            found[wanted[is_same]] = seconds[is_same]
            goes_on = is_taken & ~is_same
            wanted, idents, checks = wanted[goes_on], idents[goes_on], checks[goes_on]
            slots = slots[goes_on] + _U64(1) & last
        return found

    def put(self, idents: Idents, checks: Checks, seconds: Seconds) -> None:
        """Puts keys that differ from each other; one that is there gets the new second."""
        self._make_room(len(idents))
        last = _U64(len(self._second) - 1)
        slots = self._homes(idents)
        while len(idents):
            is_free = self._second[slots] == 0
            free = slots[is_free]
            # Where several want one slot the last one gets it, in each of the columns.
            self._ident[free], self._check[free] = idents[is_free], checks[is_free]
            is_same = (self._ident[slots] == idents) & (self._check[slots] == checks)
            self.used += int((is_free & is_same).sum())
            self._second[slots[is_same]] = seconds[is_same]
            left = ~is_same
            idents, checks, seconds = idents[left], checks[left], seconds[left]
            slots = slots[left] + _U64(1) & last

    def _make_room(self, count: int) -> None:
        slots = len(self._second)
        while (self.used + count) * 10 > slots * _FULL_TENTHS:
            slots *= 2
        if slots == len(self._second):
            return
        taken = np.flatnonzero(self._second)
        idents, checks, seconds = self._ident[taken], self._check[taken], self._second[taken]
        self._make(slots)
        self.put(idents, checks, seconds)
