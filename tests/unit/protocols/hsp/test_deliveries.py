"""Events for the peer: written as DATA, or as DATA_ACK until the peer's ACK or ERROR."""

from __future__ import annotations

import pytest

from gateway.core.event import Kind
from gateway.core.reasons import MeshError, Reason
from gateway.protocols.actions import AbandonRequests, Delivered, FrameRefused, Opened, Outcome, Terminated
from gateway.protocols.hsp import unconfirmed
from gateway.protocols.hsp.codec import encode
from gateway.protocols.hsp.frames import Command, Frame
from tests.unit.protocols.contract.conversation import Conversation, asked_by, delivery, only
from tests.unit.protocols.hsp.talk import ack, data, data_ack, hsp


class TestDeliveries:
    def test_an_event_gets_an_id_of_its_own_and_is_confirmed_by_the_peers_ack(self, talk: Conversation) -> None:
        assert talk.delivers(delivery(data_ack(0), stamps=(1,))) == [Opened()]
        talk.delivers(delivery(data_ack(0), stamps=(1,)))
        assert talk.sends() == data_ack(1) + data_ack(2)
        assert only(Delivered, talk.receives(ack(2))).outcome is Outcome.CONFIRMED
        assert only(Delivered, talk.receives(ack(1))).outcome is Outcome.CONFIRMED

    def test_an_event_without_acknowledgement_is_written(self, talk: Conversation) -> None:
        assert only(Delivered, talk.delivers(delivery(data()))).outcome is Outcome.WRITTEN
        assert talk.sends() == data()

    @pytest.mark.parametrize(
        ("refusal", "detail"),
        [
            (encode(Frame(Command.ERROR, 1, 0x1234, b"secret")), "ERROR of type 4660"),
            (encode(Frame(Command.ERROR, 1, 0x1234, b'{"code":"secret"}')), "ERROR of type 4660"),
            (encode(Frame(Command.ERROR, 1, 0xFF00, b'{"code":"forbidden","message":"no"}')), "forbidden"),
            (encode(Frame(Command.ERROR_UNDEF, 1)), "ERROR_UNDEF"),
        ],
    )
    def test_an_event_that_the_peer_refuses_is_undeliverable(self, refusal: bytes, detail: str) -> None:
        talk = hsp()
        given = delivery(data_ack(0), stamps=(1,))
        talk.delivers(given)
        assert talk.receives(refusal)[-1:] == [Delivered(given, Outcome.UNDELIVERABLE, detail, refused=True)]
        assert talk.ended is None

    def test_an_event_that_is_not_acknowledged_in_time_is_given_up_and_its_late_ack_dropped(self) -> None:
        talk = hsp(request_timeout_seconds=5)
        talk.delivers(delivery(data_ack(0), stamps=(1,)))
        talk.waits(3)
        talk.delivers(delivery(data_ack(0), stamps=(1,)))
        assert only(Delivered, talk.waits(2)).outcome is Outcome.UNDELIVERABLE
        assert only(FrameRefused, talk.receives(ack(1))).reason is Reason.TIMEOUT
        assert only(Delivered, talk.receives(ack(2))).outcome is Outcome.CONFIRMED
        talk.receives(ack(1))
        assert talk.ended == Reason.MALFORMED

    def test_time_given_to_one_event_is_not_taken_from_the_next(self) -> None:
        talk = hsp(request_timeout_seconds=5)
        talk.delivers(delivery(data_ack(0), stamps=(1,)))
        talk.waits(3)
        talk.receives(ack(1))
        talk.delivers(delivery(data_ack(0), stamps=(1,)))
        assert not any(isinstance(action, Delivered) for action in talk.waits(4))
        assert only(Delivered, talk.waits(1)).outcome is Outcome.UNDELIVERABLE

    def test_a_delivery_after_the_end_is_undeliverable(self, talk: Conversation) -> None:
        talk.receives(b"\x07")
        assert only(Delivered, talk.delivers(delivery(data()))).outcome is Outcome.UNDELIVERABLE

    def test_what_waits_when_the_session_ends_is_undeliverable(self, talk: Conversation) -> None:
        event, request = (
            delivery(data_ack(0), stamps=(1,)),
            delivery(data_ack(0), Kind.REQUEST, stamps=(1,), reply=asked_by()),
        )
        talk.delivers(event)
        talk.delivers(request)
        talk.session.receive_eof()
        actions = talk.acts()
        lost = {action.delivery.kind: action.outcome for action in actions if isinstance(action, Delivered)}
        assert lost == {Kind.EVENT: Outcome.UNDELIVERABLE, Kind.REQUEST: Outcome.UNDELIVERABLE}
        assert only(AbandonRequests, actions) == AbandonRequests((asked_by(),), MeshError.UNDELIVERABLE)
        assert actions[-1] == Terminated("eof")

    def test_beyond_so_many_events_the_oldest_is_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(unconfirmed, "MAX_UNCONFIRMED", 2)
        talk = hsp()
        given = [delivery(data_ack(0, payload=bytes((n,))), stamps=(1,)) for n in range(3)]
        for each in given[:2]:
            assert not any(isinstance(action, Delivered) for action in talk.delivers(each))
        assert only(Delivered, talk.delivers(given[2])).delivery is given[0]
        assert only(FrameRefused, talk.receives(ack(1))).reason is Reason.TIMEOUT

    @pytest.mark.parametrize(("kind", "over"), [(Kind.EVENT, 0), (Kind.EVENT, 1), (Kind.REQUEST, 0), (Kind.REQUEST, 1)])
    def test_beyond_so_many_bytes_the_oldest_is_given_up(
        self, monkeypatch: pytest.MonkeyPatch, kind: Kind, over: int
    ) -> None:
        given = [
            delivery(data_ack(0, payload=bytes(100)), kind, stamps=(1,), reply=asked_by(f"r{n}")) for n in range(2)
        ]
        room = sum(unconfirmed.ENTRY_BYTES + len(each.frame) for each in given)
        monkeypatch.setattr(unconfirmed, "MAX_UNCONFIRMED_BYTES", room - over)
        talk = hsp()
        done = [action for each in given for action in talk.delivers(each)]
        assert [action.delivery for action in done if isinstance(action, Delivered)] == given[:over]
        assert talk.session.held_bytes == room // (1 + over)

    def test_ids_go_on_from_1_past_those_that_are_open(self) -> None:
        table = unconfirmed.UnconfirmedData(5)
        assert table.add(delivery(b""), 0) == 1
        assert table.add(delivery(b"", Kind.REQUEST), 0) == 2
        table._last = unconfirmed.LAST_ID - 1
        assert [table.add(delivery(b""), 0) for _ in range(3)] == [unconfirmed.LAST_ID, 3, 4]
