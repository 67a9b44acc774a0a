"""The bodies of answers that come apart from their ACK: a DATA of the request's `reply_type`, which goes ahead.

    our DATA_ACK of a type with a `reply_type` ──► the peer's DATA of that type ──► its ACK: both are the answer

A DATA carries no id, so among several open requests of one reply type the first body belongs to the first ACK.

Invariants
1. As many bodies of a type are held as requests with that reply type are open, and no more.
2. A body that no open request can claim any more is an event like any other DATA. None is lost.
3. A DATA that would make the held bytes exceed `MAX_HELD_BYTES` is not held; a single one always is.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable

MAX_HELD_BYTES = 16 * 1024 * 1024
"""Sixteen bodies of the largest default frame. A server sends the ACK right behind its body; one that sends bodies
alone may not fill the edge's memory with them."""


class AnswerBodies:
    def __init__(self) -> None:
        self.open_requests: Counter[int] = Counter()
        """The number of open requests for each reply type. Types without one are absent."""
        self._reply_types: dict[Hashable, int] = {}
        self._held: dict[int, deque[bytes]] = {}
        self.held_bytes = 0

    def expect(self, request: Hashable, reply_type: int) -> None:
        """Notes that the request goes to the peer."""
        self._reply_types[request] = reply_type
        self.open_requests[reply_type] += 1

    def hold(self, reply_type: int, frame: bytes) -> bool:
        """Keeps a DATA until its ACK comes. False if it is none's body: an event."""
        frames = self._held.setdefault(reply_type, deque())
        is_too_much = self.held_bytes and self.held_bytes + len(frame) > MAX_HELD_BYTES
        if len(frames) >= self.open_requests[reply_type] or is_too_much:
            return False
        frames.append(frame)
        self.held_bytes += len(frame)
        return True

    def claim(self, request: Hashable) -> bytes:
        """Returns the DATA that belongs to the ACK of this request; nothing where none came."""
        frames = self._held.get(self._reply_types.get(request, -1))
        frame = frames.popleft() if frames else b""
        self.held_bytes -= len(frame)
        return frame

    def end(self, request: Hashable) -> bytes:
        """Notes that the request is over. Returns the DATA that no open request can claim any more."""
        reply_type = self._reply_types.pop(request, None)
        if reply_type is None:
            return b""
        self.open_requests[reply_type] -= 1
        frames = self._held.get(reply_type, deque())
        unclaimed = frames.pop() if len(frames) > self.open_requests[reply_type] else b""
        self.held_bytes -= len(unclaimed)
        if not self.open_requests[reply_type]:
            del self.open_requests[reply_type]
            self._held.pop(reply_type, None)
        return unclaimed
