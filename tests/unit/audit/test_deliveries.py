"""Tests what the audit reads from `egress` and `deliveries`."""

from __future__ import annotations

from gateway.core.event import Kind
from gateway.records import deliveries, egress_codec
from gateway.records.deliveries import DeliveryOutcome
from gateway.records.egress import Deliver, Group, Position
from gateway.records.raw_log.frames import ReplyAddress
from streaming_jobs.audit.deliveries import Ended, SentBy, SentDelivery, ended_in


def record(
    offset: int, *groups: Group, part: int = 0, kind: Kind = Kind.EVENT, first_id: str = "", partition: int = 0
) -> bytes:
    position = Position(partition, offset, 0, part)
    return egress_codec.encode(Deliver(position, 7, kind, "a.b", "emm", 5, groups, first_id=first_id))


def sent(reader: SentBy, value: bytes, partition: int = 2) -> list[SentDelivery]:
    return list(reader.rows(value, partition))


def test_every_receiver_of_a_record_is_one_delivery() -> None:
    one = Group("yamp", b"f", (), (3, 4))
    two = Group("emm", b"g", addresses=(("devices", "127.0.0.1:9"),), owed=("node:cn:a@hsp",))
    names = [row.destination for row in sent(SentBy(), record(1, one, two))]
    assert names == ["2.7.3", "2.7.4", "devices 127.0.0.1:9", "node:cn:a@hsp"]


def test_what_the_router_repeats_after_a_crash_is_not_fresh() -> None:
    reader, group = SentBy(), Group("yamp", b"f", (), (3,))
    given = [record(1, group), record(2, group), record(2, group, part=1), record(1, group), record(2, group)]
    assert [row.fresh for value in given for row in sent(reader, value)] == [True, True, True, False, False]


def test_the_positions_of_each_raw_partition_are_their_own() -> None:
    reader, group = SentBy(), Group("yamp", b"f", (), (3,))
    given = [record(9, group), record(1, group, partition=1), record(8, group)]
    assert [row.fresh for value in given for row in sent(reader, value)] == [True, True, False]


def test_a_frame_put_in_again_is_named_by_its_first_time() -> None:
    (row,) = sent(SentBy(), record(9, Group("yamp", b"f", (), (3,)), first_id="0-1-0"))
    assert (row.event_id, row.fresh) == ("0-1-0", True)


def test_a_request_and_its_answer_are_known_as_one_by_who_asked() -> None:
    asked = ReplyAddress("hsp", "plc", "edge-2", 7, 3, "17")
    (request,) = sent(SentBy(), record(1, Group("yamp", b"f", (), (9,), reply=asked.pack()), kind=Kind.REQUEST))
    (answer,) = sent(SentBy(), record(2, Group("hsp", b"f", (), (3,), request="17"), kind=Kind.RESPONSE))
    assert request.request == answer.request == "2.7.3 17"


def test_progress_answers_nothing_yet() -> None:
    (row,) = sent(SentBy(), record(2, Group("hsp", b"f", (), (3,), request="17"), kind=Kind.PROGRESS))
    assert row.request == ""


def test_what_no_router_wrote_reaches_nobody() -> None:
    assert sent(SentBy(), b"not of this mesh") == []
    assert ended_in(b"not of this mesh") == []


def test_an_outcome_names_its_delivery_and_whether_an_edge_had_it() -> None:
    row = DeliveryOutcome("0-1-0", "edge-2.7.3", "written", "", 5, 1, "cn:a")
    (by_edge,) = ended_in(deliveries.encode("edge-2", [row]))
    assert by_edge == Ended("0-1-0", 1, "2.7.3", "written", False, "edge-2.7.3", "cn:a")
    (by_router,) = ended_in(deliveries.encode("router", [row]))
    assert by_router.by_router
