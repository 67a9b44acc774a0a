"""The frames that were refused, and what could not be delivered, as the topic `rejected` tells of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from gateway.core.ids import FramePosition
from gateway.core.reasons import Stage
from gateway.inspect.history.logged_frame import NotFoundError, find_frame
from gateway.inspect.history.topics import History
from gateway.kafka.records import TopicRecord
from gateway.records import rejected_frame


@dataclass(frozen=True, slots=True)
class Rejection:
    """A refused frame, as `rejected` tells of it.

    `at` is when it was written, in microseconds. `again` is where the frame stood, if it had been put in again.
    `truncated_bytes` is how many of the frame's bytes are missing from `frame`.
    """

    event_id: str
    reason: str
    stage: str
    detail: str
    protocol: str
    peer: str
    node: str
    listener: str
    edge: str
    at: int
    again: str = ""
    truncated_bytes: int = 0
    frame: bytes = field(default=b"", repr=False)

    @property
    def place(self) -> str:
        """Where the frame stood in the raw log then."""
        return self.again or self.event_id


@dataclass(frozen=True, slots=True)
class RejectionFilter:
    """Selects rejections. An empty field matches any."""

    event_ids: frozenset[str] = frozenset()
    reasons: frozenset[str] = frozenset()
    stages: frozenset[str] = frozenset()
    protocol: str = ""
    node: str = ""

    def takes(self, rejection: Rejection) -> bool:
        return (
            (not self.event_ids or rejection.event_id in self.event_ids)
            and (not self.reasons or rejection.reason in self.reasons)
            and (not self.stages or rejection.stage in self.stages)
            and self.protocol in ("", rejection.protocol)
            and self.node in ("", rejection.node)
        )


def rejections(history: History, chosen: RejectionFilter, start: int | None, end: int | None) -> Iterator[Rejection]:
    """Yields the rejections, the newest first. Times are in microseconds; None is no bound."""
    spans = history.between("rejected", start, end)
    for record in history.newest_first("rejected", spans):
        yield from (rejection for rejection in reversed(list(rejections_of(record))) if chosen.takes(rejection))


def rejections_of(record: TopicRecord) -> Iterator[Rejection]:
    """Yields the rejections of one record, in the order of their frames."""
    for refusal in rejected_frame.read(record.headers, record.value or b""):
        fields = refusal._asdict()
        yield Rejection(at=record.logged_at, frame=fields.pop("kept"), **fields)


def with_whole_frame(history: History, rejection: Rejection) -> Rejection:
    """Returns the rejection with all bytes of its frame, where the raw log still has them."""
    if not rejection.truncated_bytes or rejection.stage in (Stage.LOG, Stage.DELIVER):
        return rejection
    try:
        raw = find_frame(history, FramePosition.parse(rejection.again or rejection.event_id)).raw
    except NotFoundError:
        return rejection
    return replace(rejection, frame=raw.data, truncated_bytes=0)
