"""The ACKs that leave once the frames that they are for stand in the log."""

from __future__ import annotations


class LoggedAcks:
    """Keeps ACKs by the tag of the frames they wait for. `run` gathers those of the frames that are logged next."""

    def __init__(self) -> None:
        self.run = bytearray()
        self._tag = 0
        self._owed: dict[int, bytes] = {}

    @property
    def are_owed(self) -> bool:
        return bool(self._owed)

    def owe(self, acks: bytes) -> int | None:
        """Returns the tag under which these ACKs wait, or None if there are none."""
        if not acks:
            return None
        self._tag += 1
        self._owed[self._tag] = acks
        return self._tag

    def close_run(self) -> int | None:
        """Returns the tag under which the ACKs of the run wait, and begins a new run."""
        tag = self.owe(bytes(self.run))
        self.run.clear()
        return tag

    def take(self, tag: int) -> bytes:
        """Returns the ACKs that may leave, because the frames of this tag are logged."""
        return self._owed.pop(tag, b"")
