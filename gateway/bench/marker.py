"""Marks frames so that they are recognised: a word of the run in the body, and the frame's index behind it.

A body is JSON, and the marker letters and digits in a string of it: so it stands unchanged in the frame of every
protocol, whatever that puts around or escapes in a body, and is found without decoding the frame.
"""

from __future__ import annotations

from collections.abc import Iterator

INDEX_DIGITS = 10
RUN_DIGITS = 4
_HEAD, _MIDDLE, _END = b'{"i":"', b'","pad":"', b'"}'
_WORD_BYTES = 3 + RUN_DIGITS
MIN_BODY_BYTES = len(_HEAD) + _WORD_BYTES + INDEX_DIGITS + len(_MIDDLE) + len(_END)

PROBE = (1 << 36) + (1 << 31)
"""Indices from here on are probes: sent until the path stands, and counted nowhere."""


class Marker:
    """Marks the frames of a run. `run` is four hex digits.

    >>> marker = Marker("c0de")
    >>> marker.body(255, 40)
    b'{"i":"mgbc0de00000000ff","pad":"xxxxxx"}'
    >>> list(marker.indices(marker.body(7, 60) + marker.body(8, 60)))
    [7, 8]
    """

    def __init__(self, run: str) -> None:
        self.word = b"mgb" + run.encode()

    def digits(self, index: int) -> bytes:
        return b"%010x" % index

    def body(self, index: int, size: int) -> bytes:
        """Returns JSON of this many bytes, at least `MIN_BODY_BYTES`."""
        padding = b"x" * (size - MIN_BODY_BYTES)
        return b"".join((_HEAD, self.word, self.digits(index), _MIDDLE, padding, _END))

    def indices(self, data: bytes) -> Iterator[int]:
        """Yields the indices in all the bodies in these bytes, in their order."""
        word, skip = self.word, len(self.word)
        at = data.find(word)
        while at >= 0:
            start = at + skip
            yield int(data[start : start + INDEX_DIGITS], 16)
            at = data.find(word, start)


def probe_of(session: int, attempt: int, sessions: int) -> int:
    return PROBE + attempt * sessions + session


def probed_session(index: int, sessions: int) -> int:
    """Returns the session that the probe with this index was for.

    >>> probed_session(probe_of(3, 17, 16), 16)
    3
    """
    return (index - PROBE) % sessions
