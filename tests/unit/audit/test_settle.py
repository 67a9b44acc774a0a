"""Tests what is late, what is in flight, and what is lost: decided by what arrives, and by how long it may take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from gateway.config import parse
from gateway.core.event import SECOND_US, Kind
from gateway.kafka.records import TopicRecord
from gateway.records import deliveries, egress_codec, rejected_frame
from gateway.records.deliveries import DeliveryOutcome
from gateway.records.egress import Deliver, Group, Position
from gateway.records.rejected_frame import RefusedFrame
from streaming_jobs.audit.account import Counted, FaultKind
from streaming_jobs.audit.equation import Equation
from streaming_jobs.audit.settle import (
    LateDelivery,
    LateFrame,
    Patience,
    Unsent,
    Waiting,
    inexcusable,
)
from tests.unit.audit.recorded import config

AT = 1_760_000_000 * SECOND_US
PATIENCE = Patience(30 * SECOND_US, 35 * SECOND_US, 335 * SECOND_US)
FRAME = LateFrame("0-1-0", "0-1-0", FaultKind.LOST_EVENT, AT)
REFUSED = LateFrame("0-2-0", "0-2-0", FaultKind.LOST_REJECTION, AT)
PUT_IN_AGAIN = LateFrame("0-1-0", "0-9-0", FaultKind.LOST_EVENT, AT)
DELIVERY = LateDelivery("0-1-0", 0, "0.7.3", "event", AT, False)


def told(value: bytes = b"", headers: Iterable[tuple[str, str]] = ()) -> TopicRecord:
    return TopicRecord(0, 5, AT, None, value, tuple((name, said.encode()) for name, said in headers))


def event(event_id: str) -> TopicRecord:
    return told(headers=[("ce_id", event_id)])


def refusal(event_id: str, stage: str = "decode", again: str = "") -> TopicRecord:
    return told(headers=[("event_id", event_id), ("stage", stage), ("reason", "stale"), ("again", again)])


def refused_together(*event_ids: str) -> TopicRecord:
    refusals = [RefusedFrame("stale", "decode", "emm", "devices", "edge-0", event_id) for event_id in event_ids]
    [(value, headers)] = rejected_frame.records(refusals, alone=0)
    return TopicRecord(0, 5, AT, None, value, tuple(headers))


def outcome(event_id: str, part: int = 0, destination: str = "edge-0.7.3") -> TopicRecord:
    return told(deliveries.encode("edge-0", [DeliveryOutcome(event_id, destination, "written", "", AT, part)]))


def concluded(waiting: Waiting, *, now: int = AT + 600 * SECOND_US) -> Equation:
    equation = Equation("demo", counted=Counter({Counted.LOST: len(waiting.frames) + len(waiting.came)}))
    waiting.conclude(equation, {}, now)
    return equation


# -- what comes late -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "name", "record", "counted"),
    [
        (FRAME, "events", event("0-1-0"), Counted.EVENT),
        (REFUSED, "rejected", refusal("0-2-0"), Counted.REJECTED),
        (REFUSED, "rejected", refused_together("0-1-9", "0-2-0"), Counted.REJECTED),
        (PUT_IN_AGAIN, "events", event("0-1-0"), Counted.AGAIN),
        (PUT_IN_AGAIN, "rejected", refusal("0-1-0", again="0-9-0"), Counted.AGAIN),
    ],
)
def test_a_record_that_comes_late_is_counted_where_it_belongs(
    frame: LateFrame, name: str, record: TopicRecord, counted: Counted
) -> None:
    waiting = Waiting(PATIENCE, frames=[frame])
    waiting.saw(name, record)  # type: ignore[arg-type]
    equation = concluded(waiting)
    assert equation.balanced
    assert {name: count for name, count in equation.counted.items() if count} == {counted: 1}


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("events", event("0-1-1")),
        ("rejected", refusal("0-1-0", stage="deliver")),
        ("rejected", refusal("0-1-0", again="0-9-0")),
        ("deliveries", outcome("0-1-0")),
    ],
)
def test_what_is_about_something_else_finds_nothing(name: str, record: TopicRecord) -> None:
    waiting = Waiting(PATIENCE, frames=[FRAME])
    waiting.saw(name, record)  # type: ignore[arg-type]
    assert concluded(waiting).fault_counts == {FaultKind.LOST_EVENT: 1}


def test_an_outcome_that_comes_late_is_counted() -> None:
    waiting = Waiting(PATIENCE, deliveries=[DELIVERY])
    waiting.saw("deliveries", outcome("0-1-0"))
    equation = concluded(waiting)
    assert (equation.outcomes, equation.balanced) == (Counter(written=1), True)


@pytest.mark.parametrize("record", [outcome("0-1-0", part=1), outcome("0-1-0", destination="edge-0.7.4")])
def test_another_delivery_s_outcome_is_not_this_one_s(record: TopicRecord) -> None:
    waiting = Waiting(PATIENCE, deliveries=[DELIVERY])
    waiting.saw("deliveries", record)
    assert concluded(waiting).fault_counts == {FaultKind.LOST_DELIVERY: 1}


def test_an_egress_record_that_comes_late_is_what_was_sent() -> None:
    missing = Unsent("0-1-0", "0.7.3", AT, AT, 1, 0)
    record = Deliver(Position(0, 1, 0), 7, Kind.EVENT, "a", "emm", AT, (Group("yamp", b"", (), (3,)),))
    waiting = Waiting(PATIENCE, unsent=[missing])
    waiting.saw("egress", told(egress_codec.encode(record)))
    assert concluded(waiting).balanced


# -- how long ------------------------------------------------------------------------------------------------------


def test_nothing_missing_needs_no_waiting() -> None:
    assert Waiting(PATIENCE).deadline() == 0


def test_it_waits_for_the_youngest_and_for_outcomes_longer_than_for_the_router() -> None:
    assert Waiting(PATIENCE, frames=[FRAME, FRAME._replace(logged_at=AT + 5)]).deadline() == AT + 5 + PATIENCE.routed
    assert Waiting(PATIENCE, frames=[FRAME], deliveries=[DELIVERY]).deadline() == AT + PATIENCE.confirmed


def test_nobody_waits_for_a_node_that_is_away() -> None:
    owed = DELIVERY._replace(destination="node:cn:plant@hsp")
    assert Waiting(PATIENCE, deliveries=[owed]).deadline() == 0


@pytest.mark.parametrize(
    ("delivery", "age_us", "in_flight"),
    [
        (DELIVERY, PATIENCE.confirmed - 1, True),
        (DELIVERY, PATIENCE.confirmed, False),
        (DELIVERY._replace(destination="node:cn:plant@hsp"), PATIENCE.owed - 1, True),
        (DELIVERY._replace(destination="node:cn:plant@hsp"), PATIENCE.owed, False),
        (DELIVERY._replace(kind="request"), 10 * PATIENCE.owed, True),
        (DELIVERY._replace(kind="request", answered=True), 0, False),
    ],
)
def test_a_delivery_without_an_outcome_is_in_flight_for_as_long_as_it_may_take(
    delivery: LateDelivery, age_us: int, in_flight: bool
) -> None:
    equation = concluded(Waiting(PATIENCE, deliveries=[delivery]), now=AT + age_us)
    assert (equation.outcomes["in_flight"], equation.balanced) == (int(in_flight), in_flight)


def test_patience_is_what_the_configuration_allows_its_peers() -> None:
    assert Patience.of(config()) == Patience(30 * SECOND_US, 35 * SECOND_US, 35 * SECOND_US)
    slower = """
      mesh: test
      listeners: [{name: bus, protocol: wolpertinger, listen: "tcp://127.0.0.1:5051", confirm_seconds: 25}]
      peers: [{name: plant, protocol: hsp, connect: "tcp://127.0.0.1:5041"}]
    """
    allowed = Patience.of(parse(slower, Path("meshgate.yaml"), {}))
    assert allowed == Patience(30 * SECOND_US, (75 + 5) * SECOND_US, (300 + 75 + 5) * SECOND_US)


# -- receivers for whom nothing was sent ---------------------------------------------------------------------------

UNSENT = Unsent("0-1-0", "0.7.3", AT, AT + SECOND_US, 2, 1)


def test_a_receiver_who_stood_there_all_the_time_was_owed_it() -> None:
    assert list(inexcusable([UNSENT], {"0.7.3": [AT - 60 * SECOND_US], "0.7.4": [AT]})) == [UNSENT]


@pytest.mark.parametrize("seconds", [-10, 0, 11])
def test_a_receiver_who_came_or_went_while_it_was_under_way_may_have_missed_it(seconds: int) -> None:
    assert not list(inexcusable([UNSENT], {"0.7.3": [AT + seconds * SECOND_US]}))


@pytest.mark.parametrize("seconds", [-10.001, 11.001])
def test_a_change_before_or_after_that_excuses_nothing(seconds: float) -> None:
    assert list(inexcusable([UNSENT], {"0.7.3": [AT + int(seconds * SECOND_US)]}))


def test_where_another_member_of_a_group_got_it_nobody_is_owed_anything() -> None:
    assert not list(inexcusable([UNSENT._replace(had=2)], {}))
