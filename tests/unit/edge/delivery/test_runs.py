"""Runs of plain deliveries: each receiver gets what it would get one by one, whatever the system takes at a time."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from gateway.core.event import Kind
from gateway.edge.datagrams.outgoing import OnSent
from gateway.edge.datagrams.sending import Datagram, DatagramRun, OfT
from gateway.edge.delivery import dispatch as dispatch_module
from gateway.edge.delivery.dispatch import DeliveryBooks, Dispatch, Peers
from gateway.edge.delivery.egress_delivery import EgressDelivery, OutcomeRecorder, Receiver
from gateway.edge.delivery.offset_tracker import Checkpoint, CommittedState, OffsetTracker
from gateway.edge.delivery.outcomes import KnownOutcomes, OutcomeLog
from gateway.edge.delivery.previous_run import PreviousRun
from gateway.edge.edge_log import EdgeLog
from gateway.edge.metrics import EdgeMetrics
from gateway.edge.publisher import EdgeLife, RawPublisher, RawTopic
from gateway.protocols.actions import Delivery, Outcome
from gateway.records import deliveries
from gateway.records.deliveries import DeliveryOutcome
from gateway.records.egress import Deliver, Group, Position
from gateway.records.egress_codec import EgressBuilder, EgressRecord, Route, decode
from gateway.records.raw_log.frames import FrameSource
from tests.unit.edge.fake_kafka import FakeProducer
from tests.unit.edge.running import configured, listener

EPOCH, RAW = 7, 3
LISTENERS = "devices", "meters"
PEERS = tuple((name, f"192.0.2.{number}:9") for name in LISTENERS for number in (1, 2))
SESSIONS = 1, 2, 3
GONE = 9
RECORD_BYTES = 1_000_000

Receivers = list[str]


def sessions_group(*numbers: int, stamps: tuple[int, ...] = ()) -> Group:
    return Group("yamp", b"", stamps, sessions=numbers)


def peers_group(*numbers: int) -> Group:
    return Group("emm", b"", addresses=tuple(PEERS[number] for number in numbers))


def route(*groups: Group, kind: Kind = Kind.EVENT, origin: str = "emm") -> Route:
    return Route(kind, "temp.high", origin, EPOCH, groups)


ROUTES = (
    route(peers_group(0)),
    route(peers_group(1), origin="hsp"),
    route(peers_group(0, 2, 3)),
    route(sessions_group(1, 2)),
    route(sessions_group(2, 3), peers_group(1), origin=""),
    route(sessions_group(1, GONE)),
    route(sessions_group(3, stamps=(1,))),
    route(peers_group(0), kind=Kind.PROGRESS),
)


def destinations(groups: Sequence[Group]) -> list[str]:
    found = [f"edge-0.{EPOCH:x}.{number}" for group in groups for number in group.sessions]
    return found + [f"{name} {address}" for group in groups for name, address in group.addresses]


@dataclass
class Way:
    """How much a socket takes of the next runs, and whether a session takes them; then everything."""

    of_runs: list[int]

    def next(self, most: int) -> int:
        return min(self.of_runs.pop(0), most) if self.of_runs else most


@dataclass
class Received:
    """What each receiver got, in its order."""

    frames: defaultdict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))


@dataclass
class FakeSocket:
    name: str
    received: Received
    way: Way

    def send(self, datagrams: Sequence[Datagram[OfT]], on_sent: OnSent[OfT]) -> None:
        for frame, address, _ in datagrams:
            self.received.frames[f"{self.name} {address}"].append(frame)
        on_sent(datagrams, "")

    def send_run(self, run: DatagramRun) -> int:
        taken = self.way.next(len(run))
        for number in range(taken):
            start, length = int(run.starts[number]), int(run.lengths[number])
            address = run.addresses[int(run.to[number])]
            self.received.frames[f"{self.name} {address}"].append(run.data[start : start + length])
        return taken


@dataclass(eq=False)
class FakeSession:
    source: FrameSource
    received: Received
    way: Way
    ends: OutcomeRecorder
    unflushed: list[bytes] = field(default_factory=list)

    def deliver(self, delivery: Delivery) -> None:
        assert isinstance(delivery, EgressDelivery)
        self.unflushed.append(delivery.frame)  # behind what it has taken before
        self.flush()
        self.ends.end(delivery, Receiver(self.source.session_id, "apps", self.source.node), Outcome.WRITTEN)

    def write_run(self, frames: Sequence[bytes], size: int) -> bool:
        assert size == sum(map(len, frames))
        if not self.way.next(1):
            return False
        self.unflushed += frames
        return True

    def flush(self) -> None:
        self.received.frames[self.source.session_id] += self.unflushed
        self.unflushed.clear()


class Edge:
    """One life of an edge's way out."""

    def __init__(
        self, way: Way, resumption: CommittedState, past: PreviousRun | None = None, epoch: int = EPOCH
    ) -> None:
        config = configured(listener("devices", "emm", "udp"), listener("meters", "emm", "udp"))
        self.metrics = EdgeMetrics(config, CollectorRegistry())
        self.kafka, self.ledger = FakeProducer(held=True), OffsetTracker(epoch, resumption.checkpoint)
        self.received = Received()
        self.log = OutcomeLog(config, self.kafka, self.ledger, lambda error: pytest.fail(str(error)))
        ends = OutcomeRecorder(self.log, self.metrics)
        sessions = {
            number: FakeSession(
                FrameSource("yamp", "apps", "edge-0", EPOCH, number, node="n"), self.received, way, ends
            )
            for number in SESSIONS
        }
        unused: Any = None
        sockets = {name: FakeSocket(name, self.received, way) for name in LISTENERS}
        topic = RawTopic("test.raw", 1, config.kafka.largest_frame)
        publisher = RawPublisher(
            self.kafka, EdgeLife("edge-0", epoch), topic, config.edge.record, bound_bytes=1, observe=unused
        )
        self.dispatch = Dispatch(
            DeliveryBooks(self.ledger, ends, unused, unused),
            EdgeLog(publisher),
            Peers(sessions.get, sockets, unused, unused),
            past or PreviousRun(),
            confirm_seconds=unused,
            on_batch_handled=lambda: None,
        )

    def takes(self, partition: Sequence[EgressRecord]) -> None:
        begin = self.ledger.handled_to
        self.dispatch.take([(offset, record) for offset, record in enumerate(partition) if offset >= begin])

    async def acknowledges(self) -> None:
        self.log.flush()
        self.kafka.acknowledge()
        await asyncio.sleep(0)

    def outcomes(self) -> list[DeliveryOutcome]:
        """Those that are durable."""
        durable = [one for one in self.kafka.written if one not in self.kafka.open]
        return [row for one in durable if one.topic.endswith(".deliveries") for row in deliveries.decode(one.value)]


def entry(position: Position, kind: Kind, frame: bytes) -> Deliver:
    group = replace(peers_group(0), frame=frame)
    return Deliver(position, EPOCH, kind, "temp.high", "emm", 0, (group,))


@st.composite
def raw_records(draw: st.DrawFn) -> list[bytes]:
    """Returns what the router wrote for one raw record after the other: one egress record for each, or several."""
    written: list[bytes] = []
    for offset in range(draw(st.integers(1, 3))):
        builder = EgressBuilder(RAW, offset, draw(st.sampled_from([700, RECORD_BYTES])))
        for index in range(draw(st.integers(1, 25))):
            for part in range(draw(st.sampled_from([1, 1, 1, 2]))):
                frame = b"%d-%d-%d" % (offset, index, part) + bytes(draw(st.sampled_from([0, 0, 3])))
                number = draw(st.integers(0, len(ROUTES) + 1))
                if number < len(ROUTES):
                    builder.deliver(index, part, ROUTES[number], 0, frame)
                else:
                    builder.add(entry(Position(RAW, offset, index, part), Kind.EVENT, frame))
        written += builder.finish()
    return written


WAYS = st.lists(st.integers(0, 9), max_size=12).map(Way)


def expected(records: Sequence[EgressRecord]) -> tuple[dict[str, list[bytes]], Counter[tuple[str, int, str]]]:
    """Returns what each receiver is to get, and which outcomes there must be."""
    frames: defaultdict[str, list[bytes]] = defaultdict(list)
    ended: Counter[tuple[str, int, str]] = Counter()
    for each in (entry for record in records for entry in record):
        assert isinstance(each, Deliver)
        for group in each.groups:
            for destination in destinations([group]):
                ended[each.event_id, each.position.part, destination] += 1
                if not destination.endswith(f".{GONE}"):
                    frames[destination].append(group.frame)
    return frames, ended


def keys(outcomes: Sequence[DeliveryOutcome]) -> Counter[tuple[str, int, str]]:
    return Counter((row.event_id, row.part, row.destination) for row in outcomes)


@settings(max_examples=80, deadline=None)
@given(raw_records(), WAYS)
def test_a_receiver_gets_its_frames_in_order_and_each_has_one_outcome(written: list[bytes], way: Way) -> None:
    async def check() -> None:
        records = [decode(value) for value in written]
        edge = Edge(way, CommittedState(0, Checkpoint(0)))
        edge.takes(records)
        while edge.ledger.handled_to < len(records):  # noqa: ASYNC110 - slices follow each other
            await asyncio.sleep(0)
        frames, ended = expected(records)
        assert dict(edge.received.frames) == frames
        assert edge.ledger.checkpoint(1).checkpoint.offset < len(records)
        await edge.acknowledges()
        await edge.acknowledges()  # what could not be delivered stands in `rejected`, too
        assert keys(edge.outcomes()) == ended
        assert edge.ledger.checkpoint(2).checkpoint.offset == len(records)

    asyncio.run(check())


@settings(max_examples=80, deadline=None)
@given(raw_records(), WAYS, st.integers(0, 40), st.booleans(), st.data())
def test_after_a_crash_within_a_record_nothing_is_lost_and_nothing_with_an_outcome_goes_out_again(
    written: list[bytes], way: Way, turns: int, is_repeated: bool, data: st.DataObject
) -> None:
    """The router may have repeated its output, after a crash of its own. Sessions do not outlive the edge's."""
    partition = [decode(value) for value in (written * 2 if is_repeated else written)]

    async def check() -> None:
        first = Edge(way, CommittedState(0, Checkpoint(0)))
        committed = first.ledger.checkpoint(0)
        first.takes(partition)
        for _ in range(turns):
            await asyncio.sleep(0)
            if data.draw(st.booleans()):
                await first.acknowledges()
            if data.draw(st.booleans()):
                committed = first.ledger.checkpoint(0)
        first.dispatch.stop()
        known, durable = KnownOutcomes(), first.outcomes()
        for row in durable:
            known.add(row)
        second = Edge(Way([]), committed, PreviousRun(len(partition), committed.sessions_to, known), EPOCH + 1)
        second.takes(partition)
        while second.ledger.handled_to < len(partition):  # noqa: ASYNC110 - slices follow each other
            await asyncio.sleep(0)
        await second.acknowledges()
        await second.acknowledges()
        frames, ended = expected([decode(value) for value in written])
        assert keys(durable + second.outcomes()) == ended
        again = {(row.event_id, row.part, row.destination) for row in durable}
        assert not again & set(keys(second.outcomes()))
        for destination in frames.keys() - {f"edge-0.{EPOCH:x}.{number}" for number in SESSIONS}:
            whole = frames[destination]
            rest = second.received.frames[destination]
            assert set(first.received.frames[destination]) | set(rest) == set(whole)
            assert rest == [frame for frame in whole if frame in rest]  # in order, and none of them twice
        assert second.ledger.checkpoint(1).checkpoint.offset == len(partition)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatch_module, "SLICE_SECONDS", -1.0)  # one piece a turn
        asyncio.run(check())
