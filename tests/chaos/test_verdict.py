"""The judge is judged first: each fault that the kills look for is found where there is one, and nowhere else."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from prometheus_client.samples import Sample

from tests.chaos.record import Message, Received, Requests, Sent
from tests.chaos.verdict import (
    NAMED,
    broken_requests,
    disordered,
    doubled,
    invented,
    lost,
    miscounted,
    recovery_seconds,
)


def stream(*numbers: int, session: int = 1) -> Received:
    received = Received("r")
    for number in numbers:
        received.add(Message("p", session, number), float(number))
    return received


def promised(*numbers: int) -> set[Message]:
    return {Message("p", 1, number) for number in numbers}


def test_what_was_promised_and_came_is_not_lost() -> None:
    assert list(lost(stream(1, 2, 3), promised(1, 3))) == []


def test_what_was_promised_and_did_not_come_is_named() -> None:
    assert list(lost(stream(1, 3), promised(1, 2, 3))) == [f"r never got {Message('p', 1, 2)}"]


def test_the_same_number_of_another_session_is_another_message() -> None:
    assert len(list(lost(stream(1, session=2), promised(1)))) == 1


def test_many_faults_are_named_by_some_and_counted() -> None:
    assert list(lost(stream(), promised(*range(NAMED + 3))))[-1] == "r never got 3 more"


def test_what_nobody_sent_is_named() -> None:
    assert len(list(invented(stream(1, 2), Sent({Message("p", 1, 1): 0.0})))) == 1


def test_what_came_twice_is_named_however_far_apart() -> None:
    assert list(doubled(stream(1, 2, 1))) == [f"r got more than once {Message('p', 1, 1)}"]
    assert list(doubled(stream(1, 2, 3))) == []


def test_a_smaller_number_after_a_greater_is_out_of_order_in_one_session_only() -> None:
    assert len(list(disordered(stream(1, 3, 2)))) == 1
    two = Received("r", messages=stream(5, 6).messages + stream(1, 2, session=2).messages)
    assert list(disordered(two)) == []


@pytest.mark.parametrize(
    ("requests", "faults"),
    [
        (Requests({1: "answered", 2: "timeout"}, Counter((1, 2))), 0),
        (Requests({1: "answered"}, Counter((1, 2))), 1),
        (Requests({1: "answered", 2: "no_responder"}, Counter((1,))), 1),
        (Requests({1: "answered", 2: "answered"}, Counter((1, 1, 2))), 1),
    ],
)
def test_requests_end_in_an_answer_or_in_what_kills_excuse_and_are_asked_once(requests: Requests, faults: int) -> None:
    assert len(list(broken_requests(requests, (1, 2)))) == faults


def frames(outcome: str, count: int, *, stage: str = "decode", protocol: str = "hsp", reason: str = "") -> Sample:
    labels = {"stage": stage, "outcome": outcome, "protocol": protocol, "reason": reason}
    return Sample("meshgate_frames_total", labels, count)


def test_counters_that_say_what_the_audit_says_are_exact() -> None:
    told = [frames("accepted", 7), frames("rejected", 2, reason="stale", protocol="emm")]
    told += [frames("control", 9, protocol="mesh"), frames("event", 7, stage="match")]
    audited: dict[str, Any] = {"frames": 18, "mesh_frames": 9, "rejected_by_reason": {"stale": 2}}
    assert list(miscounted(told, audited)) == []
    assert len(list(miscounted(told, audited | {"frames": 17}))) == 1
    assert len(list(miscounted(told, audited | {"rejected_by_reason": {"stale": 1, "future": 1}}))) == 1


def test_a_frame_that_was_refused_for_a_key_which_came_later_counts_as_it_did_first() -> None:
    told = [frames("accepted", 7), frames("rejected", 2, reason="unknown_key", protocol="emm")]
    audited: dict[str, Any] = {"frames": 9, "mesh_frames": 0, "rejected_by_reason": {"unknown_key": 1}}
    assert list(miscounted(told, audited)) == []
    assert len(list(miscounted(told, audited | {"rejected_by_reason": {"unknown_key": 3}}))) == 1


def came(*times: tuple[float, float]) -> tuple[Received, Sent]:
    """Messages by when they were sent and when they came."""
    sent, received = Sent(), Received("r")
    for number, (sent_at, came_at) in enumerate(times):
        sent.at[Message("p", 1, number)] = sent_at
        received.messages.append((Message("p", 1, number), came_at))
    return received, sent


def test_recovery_is_the_first_delivery_of_what_was_sent_after_the_blow() -> None:
    received, sent = came((9.9, 10.1), (10.1, 17.9), (11.0, 18.0), (12.0, 18.1))
    assert recovery_seconds(received, sent, "p", 10.0) == pytest.approx(8.0)


def test_it_is_not_known_while_only_what_was_on_its_way_has_come() -> None:
    received, sent = came((9.0, 9.1), (9.9, 10.1), (10.1, 10.2))
    assert recovery_seconds(received, sent, "p", 10.0) is None


def test_it_is_of_one_publisher() -> None:
    received, sent = came((11.0, 11.1))
    assert recovery_seconds(received, sent, "another", 10.0) is None
