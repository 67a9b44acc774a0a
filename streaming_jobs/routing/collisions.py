"""The price of short message ids: how many honest frames a window may have lost to equal ids, by the birthday bound.

Of `n` random ids of `bits` bits about n² / 2^(bits + 1) pairs are equal. Ids only meet within a node, and counts are
never kept by node: the number told is the bound for a single node that sent everything. Divide by the number of nodes
that send alike.

>>> round(expected(300_000, 32), 1)
10.5
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field


def expected(count: int, bits: int) -> float:
    return count * count / float(1 << (bits + 1))


@dataclass(slots=True)
class Window:
    """Measures by how much a counter has grown within the last `seconds`."""

    seconds: float
    _counts: deque[tuple[float, int]] = field(default_factory=deque)

    def growth(self, now: float, total: int) -> int:
        self._counts.append((now, total))
        while self._counts[0][0] < now - self.seconds:
            self._counts.popleft()
        return total - self._counts[0][1]
