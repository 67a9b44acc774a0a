"""Frames of one read that go to the log together, so that a busy stream costs one object a read and not one a frame."""

from __future__ import annotations


class FrameRun:
    """Collects the bytes of a buffer that are logged, without those in between that are not.

    The session appends to `lengths` (frame by frame, in its hot loop), calls `leave_out` for what is not to be logged,
    and `cut` at the end.
    """

    __slots__ = ("_pieces", "_start", "lengths")

    def __init__(self) -> None:
        self.lengths: list[int] = []
        self._pieces: list[bytes] = []
        self._start = 0

    def begin(self) -> None:
        """Begins a new read: the buffer starts with a frame."""
        self._start = 0

    def leave_out(self, buffer: bytearray, pos: int, size: int) -> None:
        """Leaves the `size` bytes at `pos` out of the run."""
        if pos > self._start:
            self._pieces.append(bytes(memoryview(buffer)[self._start : pos]))
        self._start = pos + size

    def cut(self, buffer: bytearray, pos: int) -> tuple[bytes, tuple[int, ...]]:
        """Returns the frames up to `pos`, side by side, and how long each is. The run goes on, empty, from there."""
        self.leave_out(buffer, pos, 0)
        frames, lengths = b"".join(self._pieces), tuple(self.lengths)
        self._pieces.clear()
        self.lengths.clear()
        return frames, lengths
