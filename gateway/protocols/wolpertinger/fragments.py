"""Messages that came in pieces, until they are whole."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gateway.core.reasons import Reason
from gateway.protocols.wolpertinger.frames import BadTransmission, Piece, Result

EXPIRY_SECONDS = 60.0
"""Three of the sender's tries at 20 s: a piece that is still missing then will not come."""

MAX_OPEN_SETS = 64
"""Messages one peer may be sending at once in pieces. The original sends one at a time."""

OPEN_WHOLES = 4
"""All open sets together hold at most this many times what one whole message may have."""

PIECE_COST_BYTES = 128
"""The charge for a piece beside its text, so that a million empty pieces are not free."""


@dataclass(slots=True)
class _Set:
    first: Piece
    deadline: float
    texts: dict[int, bytes] = field(default_factory=dict)
    size: int = 0
    cost: int = 0


class Fragments:
    """Joins fragments. `whole_bytes` bounds one joined message.

    What breaks a bound loses its own set and no other's.
    """

    def __init__(self, whole_bytes: int) -> None:
        self._whole_bytes = whole_bytes
        self._sets: dict[int, _Set] = {}
        self.cost = 0

    @property
    def due(self) -> float | None:
        """The time at which the oldest set expires. Sets are kept in the order they were opened."""
        return next((opened.deadline for opened in self._sets.values()), None)

    def expire(self, now: float) -> int:
        """Forgets the sets that waited too long; how many."""
        expired = [message_id for message_id, opened in self._sets.items() if opened.deadline <= now]
        for message_id in expired:
            self._forget(message_id)
        return len(expired)

    def add(self, piece: Piece, now: float) -> Piece | None:
        """Returns the whole message if this piece completes it. Raises BadTransmission."""
        if piece.count == 1:
            self._check_size(piece, len(piece.text))
            return piece
        opened = self._sets.get(piece.message_id) or self._open(piece, now)
        if not _belongs(piece, opened):
            self._forget(piece.message_id)
            raise BadTransmission(
                Result.SPLITTING, Reason.MALFORMED, "a fragment unlike those before it", piece.message_id
            )
        if piece.index not in opened.texts:
            self._keep(piece, opened)
        return self._joined(piece.message_id, opened)

    def _open(self, piece: Piece, now: float) -> _Set:
        if len(self._sets) >= MAX_OPEN_SETS:
            raise BadTransmission(Result.SPLITTING, Reason.OVERLOAD, "too many open sets", piece.message_id)
        opened = self._sets[piece.message_id] = _Set(piece, now + EXPIRY_SECONDS)
        return opened

    def _keep(self, piece: Piece, opened: _Set) -> None:
        cost = len(piece.text) + PIECE_COST_BYTES
        self._check_size(piece, opened.size + len(piece.text))
        if self.cost + cost > OPEN_WHOLES * self._whole_bytes:
            self._forget(piece.message_id)
            raise BadTransmission(Result.SPLITTING, Reason.OVERLOAD, "too much in open sets", piece.message_id)
        opened.texts[piece.index] = piece.text
        opened.size += len(piece.text)
        opened.cost += cost
        self.cost += cost

    def _check_size(self, piece: Piece, size: int) -> None:
        if size > self._whole_bytes:
            self._forget(piece.message_id)
            detail = f"a message of more than {self._whole_bytes} bytes"
            raise BadTransmission(Result.SPLITTING, Reason.TOO_LARGE, detail, piece.message_id)

    def _joined(self, message_id: int, opened: _Set) -> Piece | None:
        if len(opened.texts) < opened.first.count:
            return None
        self._forget(message_id)
        text = b"".join(opened.texts[index] for index in range(opened.first.count))
        return replace(opened.first, text=text, index=0, count=1)

    def _forget(self, message_id: int) -> None:
        opened = self._sets.pop(message_id, None)
        if opened is not None:
            self.cost -= opened.cost


def _belongs(piece: Piece, opened: _Set) -> bool:
    """The same metadata as the first, and where it repeats an index, the same text."""
    first = opened.first
    same = (piece.count, piece.gzip, piece.encrypted) == (first.count, first.gzip, first.encrypted)
    return same and opened.texts.get(piece.index, piece.text) == piece.text
