"""Data in the session: what is logged of what the peer sends, and how an event is delivered to it."""

from __future__ import annotations

from gateway.core.event import Kind
from gateway.protocols.actions import Delivered, FramesReceived, Outcome, Terminated
from tests.unit.protocols.contract.conversation import Conversation, asked_by, delivery, only
from tests.unit.protocols.emp.talk import BYE, PING, PONG, data, emp, request


class TestWhatIsLogged:
    def test_data_and_the_applications_types_of_one_read_are_logged_together(self) -> None:
        stream = data(b"") + data(type_=128) + data(type_=255) + request(7)
        run = only(FramesReceived, emp().receives(stream))
        assert (run.data, run.lengths, run.tag) == (stream, (8, 9, 9, 29), None)

    def test_what_is_not_logged_is_cut_out_of_the_run(self, talk: Conversation) -> None:
        run = only(FramesReceived, talk.receives(PING + data() + PING + PONG + data(b"yz") + PING))
        assert (run.data, run.lengths) == (data() + data(b"yz"), (9, 10))
        assert talk.sends() == PONG * 3

    def test_a_message_that_is_not_whole_waits_for_its_rest(self, talk: Conversation) -> None:
        assert only(FramesReceived, talk.receives(data() + data()[:-1])).lengths == (9,)
        assert only(FramesReceived, talk.receives(b"x")).data == data()

    def test_it_is_logged_as_it_came_with_its_unused_bits(self, talk: Conversation) -> None:
        talk.delivers(delivery(request(), Kind.REQUEST, stamps=(20,), reply=asked_by()))
        untidy = bytes.fromhex("0000001e 05ffffff 00000014 007fffff 7fffffff 0000000000000001 6f6b")
        assert only(FramesReceived, talk.receives(untidy)).data == untidy

    def test_what_came_before_a_broken_message_is_logged_before_the_session_ends(self) -> None:
        actions = emp().receives(data() + bytes.fromhex("00000007") + data())
        assert [type(action) for action in actions] == [FramesReceived, Terminated]

    def test_what_comes_after_bye_is_not_looked_at(self, talk: Conversation) -> None:
        actions = talk.receives(data() + BYE + data() + b"\x00\x00\x00\x00")
        assert [type(action) for action in actions] == [FramesReceived, Terminated]
        assert talk.ended == "bye"
        assert talk.sends() == b""


class TestDeliveries:
    def test_an_event_is_written_for_emp_confirms_nothing(self, talk: Conversation) -> None:
        assert only(Delivered, talk.delivers(delivery(data()))).outcome is Outcome.WRITTEN
        assert talk.sends() == data()

    def test_after_the_end_it_is_undeliverable(self, talk: Conversation) -> None:
        talk.receives(BYE)
        assert only(Delivered, talk.delivers(delivery(data()))).outcome is Outcome.UNDELIVERABLE
