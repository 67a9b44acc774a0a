"""Answers that wait until an interest stands in every raw partition."""

from __future__ import annotations

from gateway.edge.delivery.partition_barrier import TICKETS_REMEMBERED, PartitionBarrier


def test_what_is_held_is_let_go_with_the_last_partition_whatever_their_order() -> None:
    tickets: PartitionBarrier[str] = PartitionBarrier(3)
    assert tickets.applied("t", 2) is None
    assert tickets.hold("t", "answer") == []
    assert tickets.applied("t", 0) is None
    assert tickets.applied("t", 0) is None
    assert tickets.applied("t", 1) == "answer"
    assert len(tickets) == 0


def test_what_comes_after_all_partitions_have_said_so_need_not_wait() -> None:
    tickets: PartitionBarrier[str] = PartitionBarrier(2)
    for partition in (0, 1):
        tickets.applied("t", partition)
    assert tickets.hold("t", "answer") == ["answer"]


def test_too_many_that_wait_let_the_oldest_go() -> None:
    tickets: PartitionBarrier[int] = PartitionBarrier(1)
    for number in range(TICKETS_REMEMBERED):
        assert tickets.hold(str(number), number) == []
    assert tickets.hold("one more", -1) == [0]
    assert len(tickets) == TICKETS_REMEMBERED


def test_partitions_of_too_many_tickets_are_forgotten_oldest_first() -> None:
    tickets: PartitionBarrier[str] = PartitionBarrier(2)
    for number in range(TICKETS_REMEMBERED + 1):
        tickets.applied(str(number), 0)
    tickets.hold("0", "late")
    assert tickets.applied("0", 1) is None
    tickets.hold("2", "in time")
    assert tickets.applied("2", 1) == "in time"
