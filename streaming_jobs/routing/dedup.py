"""How the first of each key is told from its repeats by Spark's `dropDuplicates` on (time bucket, key).

State leaves by a watermark, in real-time mode only what has the time among its keys, so time is cut into buckets; by
Spark's own eviction, or a whole bucket at once (see `sweep`). A frame marks the bucket it was received in and, when it
lies within the window of that bucket's end, the next one too (a second row that carries nothing). A repeat within the
window therefore always meets a mark: either it falls into the first's own bucket, or the first lay within the window of
that bucket's end.

Nothing may ever be dropped as late. The watermark is the greatest bucket start seen, less `delay_seconds`. The greatest
is at most `now + window` (a next bucket's mark), the least a frame may bring is `now - LATEST - bucket`, so

    delay > LATEST + bucket + window

keeps every frame that is read at most LATEST after its receipt. What is read later than that (a backlog in real-time
mode; a micro-batch takes a whole backlog under the watermark from before it) is *lifted*: it counts as received LATEST
ago. Lifting can only separate a repeat from its first when the two are read in different batches; it never loses one.
`now` is a clock that never goes back (see `steady_clock`).
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.config import Config

LATEST_SECONDS = 300
"""A backlog older than this, met in real-time mode, is lifted. The `auto` mode leaves real time long before."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """`window_seconds`: within which a repeat must meet a mark."""

    window_seconds: int

    @classmethod
    def of(cls, config: Config) -> Buckets:
        """A packet that claims a time as far ahead as the skew allows stays fresh that much longer than the window: so
        long its repeat must be known."""
        return cls(config.replay_window_seconds + config.clock_skew_seconds)

    @property
    def bucket_seconds(self) -> int:
        """Two windows: half of all frames need the second row. Longer buckets cost state, shorter ones rows."""
        return 2 * self.window_seconds

    @property
    def reach_seconds(self) -> int:
        """No mark lasts longer: a frame marks its bucket, and the next one too if it came late in its own."""
        return self.bucket_seconds + self.window_seconds

    @property
    def delay_seconds(self) -> int:
        """Of the watermark."""
        return LATEST_SECONDS + self.bucket_seconds + self.window_seconds + 60

    def counted_seconds(self, received_seconds: int, now_seconds: int) -> int:
        """The receive time as dedup counts it: never older than LATEST, never in the future."""
        return min(max(received_seconds, now_seconds - LATEST_SECONDS), now_seconds)

    def least_now(self, watermark_seconds: int) -> int:
        """From this time on nothing that is counted is late."""
        return watermark_seconds + LATEST_SECONDS + self.bucket_seconds

    def marks(self, at_seconds: int) -> tuple[int, ...]:
        """Starts of the buckets to mark, the frame's own first.

        >>> Buckets(300).marks(1_200), Buckets(300).marks(1_500)
        ((1200,), (1200, 1800))
        """
        start = at_seconds - at_seconds % self.bucket_seconds
        end = start + self.bucket_seconds
        return (start, end) if at_seconds + self.window_seconds >= end else (start,)
