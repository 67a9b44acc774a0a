"""Frames that are logged together, and what is owed to the peer for them once they are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Receipt:
    """A layer-1 id to be confirmed, and the RemoteError that is said after it, if the message was none. `call_id`: of a
    call that will be answered."""

    message_id: int
    error: bytes = b""
    call_id: str = ""


class ReceiptRun:
    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self._receipts: list[Receipt] = []
        self._waiting: dict[int, list[Receipt]] = {}
        self._calls: dict[str, int] = {}
        self._confirmed: set[int] = set()
        self._tag = 0

    @property
    def waits(self) -> bool:
        """True while the log has yet to say that it has something."""
        return bool(self._waiting)

    def add(self, data: bytes, receipt: Receipt) -> None:
        self.frames.append(data)
        self._receipts.append(receipt)
        if receipt.call_id:
            self._calls[receipt.call_id] = receipt.message_id

    def close(self) -> tuple[bytes, tuple[int, ...], int]:
        """Returns the frames side by side, their lengths, and the tag under which their receipts wait."""
        self._tag += 1
        self._waiting[self._tag] = self._receipts
        frames, self.frames, self._receipts = self.frames, [], []
        return b"".join(frames), tuple(map(len, frames)), self._tag

    def answered(self, call_id: str) -> int | None:
        """Returns the id of a call that was answered. The log must have it, though the log has yet to say so."""
        message_id = self._calls.pop(call_id, None)
        if message_id is not None:
            self._confirmed.add(message_id)
        return message_id

    def logged(self, tag: int) -> list[Receipt]:
        """Returns the receipts that are owed, without those that `answered` has sent."""
        receipts = self._waiting.pop(tag, [])
        for receipt in receipts:
            self._calls.pop(receipt.call_id, None)
        unsent = [receipt for receipt in receipts if receipt.message_id not in self._confirmed]
        self._confirmed.difference_update(receipt.message_id for receipt in receipts)
        return unsent
