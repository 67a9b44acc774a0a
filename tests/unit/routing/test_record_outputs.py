"""Tests what leaves the router as one row for each raw record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.core.event import SECOND_US, Event, Kind
from gateway.core.reasons import Reason, Stage
from gateway.records import egress_codec, event_records
from gateway.records.egress import Confirm, Deliver, Group, Position
from gateway.records.raw_log.container import ContainerBuilder
from gateway.records.raw_log.frames import RawFrame, Replayed
from streaming_jobs.routing import plain_routes
from streaming_jobs.routing.frame_counters import DUPLICATES, FRAMES, REJECTED
from streaming_jobs.routing.known_ids import KnownIds
from streaming_jobs.routing.mesh_state import MeshState
from streaming_jobs.routing.output_records import OutputRecord
from streaming_jobs.routing.record_outputs import RecordOutputs, RoutedRecord
from streaming_jobs.routing.routed_frame import RoutedFrame
from tests.unit.routing.asking import client, event, put_again, subscribe
from tests.unit.routing.mesh_in_a_log import EDGE, EPOCH, NOW, MeshInALog, Peer

NOW_US = NOW * SECOND_US
HORIZON = 420
BATCHES = {"events": {"format": "batch"}}


@pytest.fixture
def mesh() -> MeshInALog:
    return MeshInALog(knows_ids=True)


def log(mesh: MeshInALog, peer: Peer, *numbers: int, received: int = NOW_US) -> RoutedRecord:
    """Logs events in one record."""
    builder = ContainerBuilder(EDGE, EPOCH)
    for number in numbers:
        builder.add(peer.source, received, event("a.x", number))
    mesh.append(builder.build())
    return mesh.rows[-1]


def numbers(mesh: MeshInALog) -> list[int]:
    return [int(one.message_id.replace("-", ""), 16) for one in mesh.events() if one.subject == "a.x"]


def frames_sent(mesh: MeshInALog) -> list[int]:
    """Returns the places in their record of the frames that some edge is told to deliver."""
    return [one.position.index for one in mesh.egress()]


# -- repeats -----------------------------------------------------------------------------------------------------------


def test_nothing_is_left_of_a_repeat_but_its_count(mesh: MeshInALog) -> None:
    publisher, peer = client(mesh), client(mesh)
    subscribe(mesh, peer, "a.>")
    mesh.forget_outputs()
    mesh.state.tally.take()
    first = log(mesh, publisher, 1, 2, 1)
    assert (numbers(mesh), frames_sent(mesh)) == ([1, 2], [0, 1])
    assert first.ids
    mesh.forget_outputs()
    assert log(mesh, publisher, 2, 1) == RoutedRecord(NOW, b"", [])
    assert mesh.state.tally.take()[DUPLICATES, "yamp"] == 3


def test_the_new_frames_of_a_record_pass_between_its_repeats(mesh: MeshInALog) -> None:
    publisher, _ = client(mesh), client(mesh, subscribe=("a.>",))
    log(mesh, publisher, 1, 3)
    mesh.forget_outputs()
    log(mesh, publisher, 1, 2, 3, 4)
    assert (numbers(mesh), frames_sent(mesh)) == ([2, 4], [1, 3])


def test_the_refusal_of_a_frame_is_recorded_as_often_as_it_comes(mesh: MeshInALog) -> None:
    publisher = client(mesh)
    for _ in range(2):
        mesh.log(publisher.source, b"no yamp")
    assert len(mesh.rejections()) == 2


@pytest.mark.parametrize("at", [0, -1, -SECOND_US, (1 << 32) * SECOND_US, (1 << 63) - 1, -(1 << 63)])
def test_no_time_of_receipt_ends_the_query_or_hides_a_repeat(mesh: MeshInALog, at: int) -> None:
    publisher = client(mesh)
    log(mesh, publisher, 1, received=at)
    log(mesh, publisher, 2, 1, received=at)
    assert numbers(mesh) == [1, 2]


# -- frames that are replayed ------------------------------------------------------------------------------------------


def test_a_replayed_frame_passes_although_it_is_known(mesh: MeshInALog) -> None:
    publisher = client(mesh)
    log(mesh, publisher, 1)
    mesh.forget_outputs()
    put_again(mesh, publisher, event("a.x", 1), "0-1-0")
    assert numbers(mesh) == [1]


def test_a_replayed_frame_makes_what_comes_after_it_a_repeat_in_its_own_record_too(mesh: MeshInALog) -> None:
    publisher = client(mesh)
    builder = ContainerBuilder(EDGE, EPOCH)
    builder.add(publisher.source, NOW_US, event("a.x", 2))
    builder.add_again(RawFrame(event("a.x", 1), publisher.source, NOW_US), Replayed("9-1-0", NOW_US))
    for number in (1, 2, 3):
        builder.add(publisher.source, NOW_US, event("a.x", number))
    mesh.append(builder.build())
    assert numbers(mesh) == [2, 1, 3]
    log(mesh, publisher, 1, 2, 3, 4)
    assert numbers(mesh) == [2, 1, 3, 4]


# -- records of egress -------------------------------------------------------------------------------------------------


def test_all_that_a_record_means_to_an_edge_stands_in_one_record(mesh: MeshInALog) -> None:
    publisher = client(mesh)
    for edge in ("edge-0", "edge-2", "edge-2"):
        client(mesh, edge=edge, subscribe=("a.>",))
    mesh.forget_outputs()
    routed = log(mesh, publisher, *range(20))
    egress = [out for out in routed.outs if out.topic == "t.egress"]
    assert sorted(out.partition or 0 for out in egress) == [0, 2]
    for out in egress:
        entries = egress_codec.decode(out.value or b"")
        assert [entry.position.index for entry in entries] == list(range(20))


def test_a_record_that_means_nothing_to_an_edge_gives_it_none(mesh: MeshInALog) -> None:
    publisher = client(mesh)
    mesh.forget_outputs()
    assert {out.topic for out in log(mesh, publisher, 1).outs} == {"t.events"}


def test_what_edges_wait_for_leaves_before_the_events(mesh: MeshInALog) -> None:
    publisher, _ = client(mesh), client(mesh, subscribe=("a.>",))
    mesh.forget_outputs()
    assert [out.topic for out in log(mesh, publisher, 1, 2).outs] == ["t.egress", "t.events", "t.events"]


def test_events_for_the_same_receivers_share_a_route_from_record_to_record(mesh: MeshInALog) -> None:
    publisher, first, second = client(mesh), client(mesh), client(mesh)
    subscribe(mesh, first, "a.>")
    mesh.forget_outputs()
    before = [log(mesh, publisher, 1, 2), log(mesh, publisher, 3)]
    subscribe(mesh, second, "a.>")
    after = log(mesh, publisher, 4)
    records = [egress_codec.decode(row.outs[0].value or b"") for row in (*before, after)]
    assert [(record.route.tolist(), record.own) for record in records] == [([0, 0], {}), ([0], {}), ([0], {})]
    receivers = [[group.sessions for group in record.routes[0].groups] for record in records]
    assert receivers == [[(first.number,)], [(first.number,)], [(first.number, second.number)]]


def test_routes_are_forgotten_before_their_receivers_fill_the_memory(
    mesh: MeshInALog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_routes, "RECEIVERS_REMEMBERED", 3)
    publisher, _ = client(mesh), client(mesh, subscribe=(">",))
    for number in range(1, 9):
        mesh.log(publisher.source, event(f"a.{number}", number))
    assert [entry.subject for entry in mesh.egress()] == [f"a.{number}" for number in range(1, 9)]


@pytest.mark.parametrize(
    "more",
    [
        {"ticket": "t"}, {"first_id": "0-1-1"}, {"required_confirmations": 1}, {"confirm": Confirm("edge-0", "t")},
        {"is_migrated": True}, {"trace": "00-1-1-01"}, {"kind": Kind.RESPONSE}, {"groups": ()},
        {"groups": (Group("yamp", b"1", request="r"),)}, {"groups": (Group("yamp", b"1", owed=("n",)),)},
        {"groups": (Group("yamp", b"1", reply=b"r"),)}, {"groups": (Group("yamp", b"1"), Group("emm", b"2"))},
        {"groups_on_failure": (Group("yamp", b"1"),)},
    ],
)  # fmt: skip
def test_a_delivery_of_which_a_route_cannot_say_all_travels_whole(more: dict[str, Any]) -> None:
    record = Record()
    ((edge, entry),) = record.frames[1].entries
    assert isinstance(entry, Deliver)
    whole = replace(entry, **more)
    record.frames[1].entries[0] = edge, whole
    [egress] = [egress_codec.decode(out.value or b"") for out in record.finish() if out.topic == "t.egress"]
    assert egress.own == {1: whole}
    assert egress.route.tolist()[::2] == [0, 0]


# -- records of events -------------------------------------------------------------------------------------------------


def test_events_stand_in_one_batch_without_the_repeats() -> None:
    mesh = MeshInALog(knows_ids=True, settings=BATCHES)
    publisher = client(mesh)
    mesh.forget_outputs()
    log(mesh, publisher, 1, 2, 1, 3)
    assert len(mesh.of("events")) == 1
    assert numbers(mesh) == [1, 2, 3]


def test_a_record_of_repeats_alone_gives_no_empty_batch() -> None:
    mesh = MeshInALog(knows_ids=True, settings=BATCHES)
    publisher = client(mesh)
    log(mesh, publisher, 1)
    mesh.forget_outputs()
    assert log(mesh, publisher, 1).outs == []


# -- what cannot be packed ---------------------------------------------------------------------------------------------


class Record:
    """A record whose frames each tell one edge something and are recorded as an event."""

    def __init__(self, **settings: Any) -> None:
        self.mesh = MeshInALog(settings=settings)
        self._peer = client(self.mesh)
        self.state: MeshState = self.mesh.state
        self.frames = [self._frame(index) for index in range(3)]

    def _frame(self, index: int) -> RoutedFrame:
        source = self._peer.source
        raw = RawFrame(event("a.x", index), source, NOW_US)
        group = Group("yamp", b"frame %d" % index, sessions=(1,))
        entry = Deliver(Position(0, 9, index), EPOCH, Kind.EVENT, "a.x", "yamp", NOW_US, (group,))
        id_, session = f"0-9-{index}", str(source.session)
        told = Event(id_, Kind.EVENT, "a.x", "yamp", "yamp", EDGE, session, source.peer, "n", NOW_US, body=b"1")
        row = self.state.topics.events.row(told)
        return RoutedFrame(index, raw, f"yamp\0n\0{index}", [], [(0, entry)], told, row)

    def finish(self) -> list[OutputRecord]:
        known = KnownIds(HORIZON)
        known.advance(NOW, NOW)
        record = RecordOutputs(self.state, known, 0, 9)
        self.state.tally.take()
        record.add_frames(self.frames)
        return record.finish(NOW).outs


def ids_refused(outs: list[OutputRecord]) -> list[str]:
    headers = [dict(out.headers) for out in outs if out.topic == "t.rejected"]
    assert all((one["reason"], one["stage"]) == (b"internal", b"match") for one in headers)
    return [one["event_id"].decode() for one in headers]


def indexes_sent(outs: list[OutputRecord]) -> list[int]:
    entries = [entry for out in outs if out.topic == "t.egress" for entry in egress_codec.decode(out.value or b"")]
    return [entry.position.index for entry in entries]


def ids_recorded(outs: list[OutputRecord]) -> list[str]:
    records = [out for out in outs if out.topic == "t.events"]
    return [told.id for out in records for told in event_records.read(out.headers, out.value or b"")]


@pytest.mark.parametrize("fault", [{"subject": "a.\ud800"}, {"received_at": 1 << 63}, {"epoch": 1 << 64}])
def test_an_entry_that_cannot_be_packed_is_refused_and_harms_no_other(fault: dict[str, Any]) -> None:
    record = Record()
    ((edge, entry),) = record.frames[1].entries
    assert isinstance(entry, Deliver)
    record.frames[1].entries[0] = edge, replace(entry, **fault)
    outs = record.finish()
    assert ids_refused(outs) == ["0-9-1"]
    assert indexes_sent(outs) == [0, 2]
    assert record.state.tally.take()[FRAMES, Stage.MATCH, REJECTED, Reason.INTERNAL.value, "yamp"] == 1


@pytest.mark.parametrize("form", ["cloudevents", "batch"])
@pytest.mark.parametrize("fault", [{"sent_at": "yesterday"}, {"template": None}])
def test_an_event_that_cannot_be_written_is_refused_and_harms_no_other(form: str, fault: dict[str, Any]) -> None:
    record = Record(events={"format": form})
    row = record.frames[1].event_row
    assert row is not None
    record.frames[1].event_row = row._replace(**fault)
    outs = record.finish()
    assert ids_refused(outs) == ["0-9-1"]
    assert ids_recorded(outs) == ["0-9-0", "0-9-2"]
    assert indexes_sent(outs) == [0, 1, 2]


def test_a_replayed_frame_that_cannot_be_packed_is_refused_under_its_first_id() -> None:
    record = Record()
    ((edge, entry),) = record.frames[1].entries
    assert isinstance(entry, Deliver)
    record.frames[1].entries[0] = edge, replace(entry, subject="\ud800")
    record.frames[1].raw.again = Replayed("0-3-7", NOW_US)
    (refused,) = [out for out in record.finish() if out.topic == "t.rejected"]
    headers = dict(refused.headers)
    assert (headers["event_id"], headers["again"]) == (b"0-3-7", b"0-9-1")


def test_every_output_of_a_frame_that_is_no_repeat_leaves() -> None:
    record = Record()
    told = OutputRecord("t.interests", None, b"key", None)
    record.frames[2].outs.append(told)
    outs = record.finish()
    assert told in outs
    assert (ids_recorded(outs), indexes_sent(outs)) == (["0-9-0", "0-9-1", "0-9-2"], [0, 1, 2])
