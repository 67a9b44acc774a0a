"""Layer-1 ids: which are repeats, which wait, and how many are kept."""

from __future__ import annotations

from gateway.protocols.wolpertinger.fragments import EXPIRY_SECONDS
from gateway.protocols.wolpertinger.frames import ID_LIMIT
from gateway.protocols.wolpertinger.options import TRIES
from gateway.protocols.wolpertinger.receipts import (
    MAX_REMEMBERED,
    MAX_UNCONFIRMED_BYTES,
    SENT_BYTES,
    ReceivedIds,
    SentMessage,
    UnconfirmedMessages,
)


def sent(size: int = 1) -> SentMessage:
    return SentMessage([bytes(size)], None)


def test_an_id_is_a_repeat_until_its_sender_has_given_up() -> None:
    received = ReceivedIds()
    received.add(7, 0.0)
    assert received.is_repeat(7, EXPIRY_SECONDS - 0.1)
    assert not received.is_repeat(7, EXPIRY_SECONDS)
    assert not received.is_repeat(8, 0.0)


def test_a_repeat_knows_whether_the_first_was_confirmed() -> None:
    received = ReceivedIds()
    received.add(7, 0.0)
    assert not received.was_confirmed(7)
    received.confirmed(7)
    assert received.was_confirmed(7)


def test_the_oldest_id_is_forgotten_for_one_too_many() -> None:
    received = ReceivedIds()
    for message_id in range(MAX_REMEMBERED):
        received.add(message_id, 0.0)
    assert received.is_repeat(0, 0.0)
    received.add(MAX_REMEMBERED, 0.0)
    assert not received.is_repeat(0, 0.0)
    assert received.is_repeat(1, 0.0)


def test_an_id_that_is_new_again_is_the_youngest() -> None:
    received = ReceivedIds()
    received.add(0, 0.0)
    received.add(1, 1.0)
    received.add(0, EXPIRY_SECONDS)
    for message_id in range(2, MAX_REMEMBERED + 1):
        received.add(message_id, EXPIRY_SECONDS)
    assert received.is_repeat(0, EXPIRY_SECONDS)
    assert not received.is_repeat(1, EXPIRY_SECONDS)


def test_ids_begin_again_at_1_and_pass_those_that_wait() -> None:
    unconfirmed = UnconfirmedMessages()
    assert unconfirmed.next_id() == 1
    unconfirmed.add(1, sent())
    unconfirmed._last = ID_LIMIT - 2
    assert [unconfirmed.next_id(), unconfirmed.next_id()] == [ID_LIMIT - 1, 2]


def test_so_many_messages_wait_that_their_entries_alone_fill_the_bound() -> None:
    unconfirmed = UnconfirmedMessages()
    for _ in range(MAX_UNCONFIRMED_BYTES // SENT_BYTES):
        assert not unconfirmed.full
        unconfirmed.add(unconfirmed.next_id(), sent(0))
    assert unconfirmed.full
    unconfirmed.take(1)
    assert not unconfirmed.full


def test_a_large_message_fills_the_bound_at_its_last_byte() -> None:
    for size, is_full in [(MAX_UNCONFIRMED_BYTES - SENT_BYTES - 1, False), (MAX_UNCONFIRMED_BYTES - SENT_BYTES, True)]:
        unconfirmed = UnconfirmedMessages()
        unconfirmed.add(1, sent(size))
        assert unconfirmed.full is is_full
        unconfirmed.take(1)
        assert not unconfirmed.full


def test_a_message_has_its_tries_and_no_more() -> None:
    unconfirmed = UnconfirmedMessages()
    waiting = sent()
    unconfirmed.add(1, waiting)
    assert [unconfirmed.again(1) for _ in range(TRIES)] == [waiting] * (TRIES - 1) + [None]
    assert unconfirmed.take(1) is waiting
    assert unconfirmed.take(1) is None
