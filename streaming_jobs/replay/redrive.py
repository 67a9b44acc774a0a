"""Sends refused frames through again: those that would be accepted today, and to whom they have not got yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from gateway.config import Config
from gateway.core.clock import now_us
from gateway.core.event import SECOND_US
from gateway.core.ids import FramePosition
from gateway.core.reasons import Rejected, Stage
from gateway.inspect.history.frame_trace import way_of
from gateway.inspect.history.logged_frame import LoggedFrame, NotFoundError, find_frame
from gateway.inspect.history.rejections import Rejection
from gateway.inspect.history.topics import History
from gateway.kafka.records import TopicRecord
from gateway.protocols.actions import REACHED
from gateway.records import deliveries
from gateway.records.deliveries import DeliveryOutcome
from gateway.records.raw_log.container import decode_record
from gateway.records.raw_log.frames import Replayed
from streaming_jobs.replay.replay_writer import FrameAgain, ReplayWriter
from streaming_jobs.reprocess.reprocessor import Reprocessor
from streaming_jobs.routing.known_ids import repeat_horizon_seconds

Reached = Mapping[str, frozenset[str]]
"""The destinations and nodes that have got an event, by its id."""


class Redriven(NamedTuple):
    """The result for one frame. If `why` is set, the frame is not put in again, for this reason."""

    event_id: str
    why: str = ""
    place: str = ""


@dataclass(frozen=True)
class Redrive:
    """Redrives rejected frames. `now` is in microseconds: the receivers of an event are those of that time."""

    config: Config
    history: History
    judge: Reprocessor
    now: int

    def plan(self, chosen: Iterable[Rejection]) -> tuple[list[FrameAgain], list[Redriven]]:
        """Returns the frames to put in, the oldest first, and those that are not, each with the reason."""
        oldest_first = {
            rejection.event_id: rejection for rejection in sorted(chosen, key=lambda rejection: -rejection.at)
        }.values()
        frames: list[LoggedFrame] = []
        left_out: list[Redriven] = []
        for rejection in sorted(oldest_first, key=lambda rejection_: rejection_.at):
            try:
                frames.append(self._repeatable(rejection))
            except NotFoundError as why:
                left_out.append(Redriven(rejection.event_id, str(why)))
        repeats = self._repeats_among(frames)
        left_out += [Redriven(name, f"it repeats {first}") for name, first in repeats.items()]
        frames = [frame for frame in frames if frame.position.event_id not in repeats]
        others = list(self._others(frames))  # before another scan begins
        reached = self._reached([*frames, *(other for _, other in others)])
        answered = {frame.position.event_id: other for frame, other in others if self._was_heard(other, reached)}
        left_out += [
            Redriven(name, f"its repeat {other.position.event_id} came through") for name, other in answered.items()
        ]
        frames = [frame for frame in frames if frame.position.event_id not in answered]
        return [(frame, self._again(frame.position.event_id, reached)) for frame in frames], left_out

    def _again(self, name: str, reached: Reached) -> Replayed:
        return Replayed(name, self.now, reached.get(name, frozenset()))

    def _repeatable(self, rejection: Rejection) -> LoggedFrame:
        """Raises NotFoundError with why it is not put in again."""
        if rejection.stage == Stage.LOG:
            raise NotFoundError("it is no record of the raw log: there is no frame in it")
        frame = find_frame(self.history, FramePosition.parse(rejection.event_id))
        if why := self.judge.why_not_again(frame.raw):
            raise NotFoundError(why)
        return frame

    def _repeats_among(self, frames: list[LoggedFrame]) -> dict[str, str]:
        """Returns the earlier frame with the same key, by the id of each that has one."""
        first: dict[str, str] = {}
        repeats = {}
        for frame in frames:
            name, key = frame.position.event_id, self.judge.key_of(frame.raw)
            if key is not None and first.setdefault(key, name) != name:
                repeats[name] = first[key]
        return repeats

    # -- what has happened since -----------------------------------------------------------------------------------

    def _reached(self, frames: list[LoggedFrame]) -> Reached:
        """Whoever has got one of these events, by what the edges have told since the first of them was received."""
        event_ids = {frame.position.event_id for frame in frames}
        reached: dict[str, set[str]] = {}
        since = min((frame.logged_at for frame in frames), default=self.now)
        for outcome in self._outcomes(since):
            if outcome.event_id in event_ids and outcome.outcome in REACHED:
                reached.setdefault(outcome.event_id, set()).update({outcome.destination, outcome.node} - {""})
        return {name: frozenset(names) for name, names in reached.items()}

    def _outcomes(self, since: int) -> Iterator[DeliveryOutcome]:
        for record in self.history.read("deliveries", self.history.between("deliveries", since, None)):
            with suppress(Rejected):
                yield from deliveries.decode(record.value or b"")

    def _was_heard(self, frame: LoggedFrame, reached: Reached) -> bool:
        return frame.position.event_id in reached or way_of(self.history, self.config, frame).event is not None

    def _others(self, frames: list[LoggedFrame]) -> Iterator[tuple[LoggedFrame, LoggedFrame]]:
        """Yields each frame with those around it that have its bytes, where that makes them repeats of each other."""
        keyed = [frame for frame in frames if self.judge.key_of(frame.raw) is not None]
        if not keyed:
            return
        by_bytes = {(frame.position.partition, frame.raw.data): frame for frame in keyed}
        reach = repeat_horizon_seconds(self.config) * SECOND_US
        times = [frame.logged_at for frame in keyed]
        spans = self.history.between("raw", min(times) - reach, max(times) + reach)
        for record in self.history.read("raw", {number: spans[number] for number, _ in by_bytes}):
            for other in _frames_of(record):
                frame = by_bytes.get((record.partition, other.raw.data))
                if frame is not None and other.raw.again is None and other.position != frame.position:
                    yield frame, other


def _frames_of(record: TopicRecord) -> Iterator[LoggedFrame]:
    with suppress(Rejected):
        for index, raw in enumerate(decode_record(record.value or b"").frames):
            yield LoggedFrame(FramePosition(record.partition, record.offset, index), raw, record.logged_at)


def redrive(config: Config, history: History, chosen: Iterable[Rejection], *, dry_run: bool) -> list[Redriven]:
    """Puts frames in again, and returns for each what was done with it: put in again, or left alone and why."""
    entries, left_out = Redrive(config, history, Reprocessor.of_today(config), now_us()).plan(chosen)
    if dry_run or not entries:
        return [*(Redriven(again.event_id) for _, again in entries), *left_out]
    with ReplayWriter(config) as writer:
        places = writer.put(entries)
    return [
        *(Redriven(again.event_id, "", place) for (_, again), place in zip(entries, places, strict=True)),
        *left_out,
    ]
