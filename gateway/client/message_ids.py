"""Message ids for the packets of one sender: none repeats, and nobody can foretell one (emm.md, 2.2)."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

KEY_BYTES = 16
_HALF_BITS, _HALF_BYTES = 16, 2
_HALF = (1 << _HALF_BITS) - 1
_ROUNDS = 4
"""The rounds of a Feistel network: four make a permutation that cannot be told from a random one (Luby and Rackoff)."""


class MessageIds:
    """A counter under a secret permutation: 4 random bytes each time would meet again within the replay window all too
    soon, and be dropped as repeats.

    >>> ids = MessageIds(lambda size: bytes(size))
    >>> len({ids.next() for _ in range(100_000)})
    100000
    """

    def __init__(self, token: Callable[[int], bytes]) -> None:
        self._key = token(KEY_BYTES)
        self._count = 0

    def next(self) -> bytes:
        left, right = self._count >> _HALF_BITS & _HALF, self._count & _HALF
        self._count += 1
        for turn in range(_ROUNDS):
            left, right = right, left ^ self._mixed(turn, right)
        return (left << _HALF_BITS | right).to_bytes(2 * _HALF_BYTES, "big")

    def _mixed(self, turn: int, half: int) -> int:
        data = half.to_bytes(_HALF_BYTES, "big")
        return int.from_bytes(blake2b(data, digest_size=_HALF_BYTES, key=self._key, salt=bytes([turn])).digest(), "big")
