"""A publisher of the raw log with a Kafka that acknowledges only when told."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from gateway.config.settings import RecordSettings
from gateway.edge.producer import NotTaken
from gateway.edge.publisher import EdgeLife, RawPublisher, RawTopic
from gateway.records.raw_log.container import decode_record
from gateway.records.raw_log.frames import FrameSource, RawFrame, ReplyAddress
from tests.unit.edge.fake_kafka import FakeProducer
from tests.unit.edge.running import until

SOURCE = FrameSource("hsp", "plc", "edge-0", 1, 3)
LONG = RecordSettings(linger_milliseconds=60_000)


@dataclass
class Log:
    """A publisher into a Kafka that acknowledges only when told."""

    limits: RecordSettings = field(default_factory=RecordSettings)
    bound: int = 1_000_000
    partitions: int = 2
    largest_bytes: int = 4_000_000
    settled: list[tuple[str, bool]] = field(default_factory=list)
    took: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.kafka = FakeProducer(held=True)
        self.publisher = RawPublisher(
            self.kafka,
            EdgeLife("edge-0", 1),
            RawTopic("test.raw", self.partitions, self.largest_bytes),
            self.limits,
            bound_bytes=self.bound,
            observe=self.took.append,
        )

    def adds(
        self, name: str, data: bytes = b"frame", *, partition: int = 0, frames: int = 1,
        replies: tuple[ReplyAddress, ...] = (),
    ) -> None:  # fmt: skip
        def settled(accepted: bool) -> None:
            self.settled.append((name, accepted))

        lengths = (len(data),) * frames
        self.publisher.add_run(partition, SOURCE, data * frames, lengths, replies=replies, settled=settled)

    def adds_datagram(self, data: bytes = b"datagram") -> None:
        self.publisher.add_datagrams(0, [SOURCE], 1, [len(data)], data, Counted())

    def records(self) -> list[list[RawFrame]]:
        return [list(decode_record(one.value).frames) for one in self.kafka.written]

    async def has_written(self, count: int) -> None:
        await until(lambda: len(self.records()) == count)

    async def acknowledges(self, error: NotTaken | None = None) -> None:
        self.kafka.acknowledge(error)
        await turn()


async def turn() -> None:
    """Lets the loop call what was called soon."""
    for _ in range(3):
        await asyncio.sleep(0)


class Counted:
    def __init__(self) -> None:
        self.settles: list[tuple[int, bool]] = []

    def settled(self, frames: int, seconds: float, accepted: bool) -> None:
        assert seconds >= 0
        self.settles.append((frames, accepted))
