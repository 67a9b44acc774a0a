"""What an hsp session does with what its peer sends, and with what the router gives it."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from gateway.envelope import KINDS, Envelope
from gateway.envelope import decode as decode_envelope
from gateway.event import Kind
from gateway.protocols.hsp import unconfirmed
from gateway.protocols.hsp.codec import decode, encode, is_plain_event, split
from gateway.protocols.hsp.frames import ENVELOPE_TYPE, Command, Frame
from gateway.protocols.hsp.options import HspOptions
from gateway.protocols.hsp.session import HspSession
from gateway.protocols.session import (
    Action,
    Delivered,
    Delivery,
    Farewell,
    FrameRefused,
    FramesReceived,
    Opened,
    Outcome,
    RequestEnded,
    RequestsAbandoned,
    Terminated,
)
from gateway.reasons import MeshError, Reason
from gateway.subjects import is_control
from tests.unit.contract.conversation import Conversation, asked_by, delivery, only, settings

ORDERS = {"types": {7: {"subject": "orders.create", "kind": "request"}}}


def hsp(options: dict[str, Any] | None = None, **changes: Any) -> Conversation:
    return Conversation(HspSession(settings(**changes), HspOptions.model_validate(options or {})))


def data(type_: int = 17, payload: bytes = b"x") -> bytes:
    return encode(Frame(Command.DATA, 0, type_, payload))


def data_ack(message_id: int = 1, type_: int = 17, payload: bytes = b"x") -> bytes:
    return encode(Frame(Command.DATA_ACK, message_id, type_, payload))


def enveloped(kind: Kind, correlation: int = 0, body: bytes = b"x", subject: str = "orders.create") -> bytes:
    return Envelope(kind, correlation, subject).encode() + body


def ack(message_id: int = 1) -> bytes:
    return encode(Frame(Command.ACK, message_id))


def error(message_id: int, code: str, message: str, type_: int = 0xFF00) -> bytes:
    body = json.dumps({"code": code, "message": message}, separators=(",", ":")).encode()
    return encode(Frame(Command.ERROR, message_id, type_, body))


def frames(stream: bytes) -> list[Frame]:
    found, pos = [], 0
    while pos < len(stream):
        size = split(stream, pos, 1_048_576)
        found.append(decode(stream[pos : pos + size]))
        pos += size
    return found


def received(actions: list[Action]) -> list[FramesReceived]:
    return [action for action in actions if isinstance(action, FramesReceived)]


class TestWhatIsLogged:
    def test_the_session_is_open_at_once_for_there_is_no_handshake(self) -> None:
        talk = hsp()
        assert talk.acts() == [Opened()]
        assert talk.sends() == b""

    def test_frames_of_one_read_are_logged_together(self) -> None:
        talk = hsp()
        run = only(FramesReceived, talk.receives(data() + data_ack(5) + data(18, b"") + data_ack(6)))
        assert run.data == data() + data_ack(5) + data(18, b"") + data_ack(6)
        assert run.lengths == (8, 12, 7, 12)
        assert run.replies == ()

    def test_what_is_not_logged_is_cut_out_of_the_run(self) -> None:
        talk = hsp()
        run = only(FramesReceived, talk.receives(b"\x03" + data() + b"\x03\x03" + data(18) + b"\x03"))
        assert (run.data, run.lengths) == (data() + data(18), (8, 8))
        assert talk.sends() == b"\x04" * 4

    def test_a_frame_that_is_not_whole_waits_for_its_rest(self) -> None:
        talk = hsp()
        assert only(FramesReceived, talk.receives(data() + data()[:-1])).lengths == (8,)
        assert only(FramesReceived, talk.receives(b"x")).data == data()

    def test_data_owes_no_acknowledgement(self) -> None:
        assert only(FramesReceived, hsp().receives(data())).tag is None

    def test_what_came_before_a_broken_frame_is_logged_before_the_session_ends(self) -> None:
        talk = hsp()
        actions = talk.receives(data() + data_ack() + b"\x07" + data())
        assert [type(action) for action in actions[-2:]] == [FramesReceived, Terminated]
        assert only(FramesReceived, actions).lengths == (8, 12)


class TestAcknowledgement:
    def test_an_ack_leaves_when_the_frame_is_logged_and_not_before(self) -> None:
        talk = hsp()
        tag = only(FramesReceived, talk.receives(data_ack(5) + data() + data_ack(6))).tag
        assert talk.sends() == b""
        talk.logs(tag)
        assert talk.sends() == ack(5) + ack(6)

    def test_each_run_is_acknowledged_on_its_own_in_any_order(self) -> None:
        talk = hsp()
        first = only(FramesReceived, talk.receives(data_ack(5))).tag
        second = only(FramesReceived, talk.receives(data_ack(6))).tag
        talk.logs(second)
        assert talk.sends() == ack(6)
        talk.logs(first)
        assert talk.sends() == ack(5)

    def test_pings_are_answered_while_a_data_ack_waits(self) -> None:
        talk = hsp()
        talk.receives(data_ack() + b"\x03\x03")
        assert talk.sends() == b"\x04\x04"

    def test_nothing_is_acknowledged_after_the_end(self) -> None:
        talk = hsp()
        tag = only(FramesReceived, talk.receives(data_ack())).tag
        talk.receives(b"\x07")
        talk.logs(tag)
        assert talk.sends() == b""

    @pytest.mark.parametrize("types", [{}, {17: "temp.high"}, {17: {"subject": "temp.high", "kind": "event"}}])
    def test_with_ack_delivered_the_router_says_when(self, types: dict[int, Any]) -> None:
        talk = hsp({"ack": "delivered", "types": types})
        assert only(FramesReceived, talk.receives(data_ack(5))).tag is None
        talk.delivers(delivery(ack(0), Kind.RESPONSE, stamps=(1,), request="5"))
        assert talk.sends() == ack(5)

    def test_with_ack_delivered_an_envelope_changes_nothing(self) -> None:
        talk = hsp({"ack": "delivered"})
        for message_id in (5, 6):
            raw = data_ack(message_id, ENVELOPE_TYPE, enveloped(Kind.EVENT))
            assert only(FramesReceived, talk.receives(raw)).tag is None
        talk.delivers(delivery(ack(0), Kind.RESPONSE, stamps=(1,), request="6"))
        assert talk.sends() == ack(6)

    @pytest.mark.parametrize("ack_", ["durable", "answered"])
    def test_an_enveloped_event_is_acknowledged_when_it_is_logged_for_nobody_answers_it(self, ack_: str) -> None:
        talk = hsp({"ack": ack_})
        for message_id in (5, 6):
            raw = data_ack(message_id, ENVELOPE_TYPE, enveloped(Kind.EVENT))
            talk.logs(only(FramesReceived, talk.receives(raw)).tag)
            assert talk.sends() == ack(message_id)

    def test_with_ack_delivered_silence_is_an_error(self) -> None:
        talk = hsp({"ack": "delivered"}, request_timeout_seconds=5)
        talk.receives(data_ack(5))
        talk.waits(5)
        assert talk.sends() == error(5, "timeout", "no answer in time")

    @pytest.mark.parametrize("payload", [enveloped(Kind.EVENT), enveloped(Kind.CANCEL, 9)], ids=["event", "cancel"])
    def test_what_the_envelope_names_is_acknowledged_like_the_rest(self, payload: bytes) -> None:
        talk = hsp()
        for message_id in (5, 6):
            tag = only(FramesReceived, talk.receives(data_ack(message_id, ENVELOPE_TYPE, payload))).tag
            talk.logs(tag)
            assert talk.sends() == ack(message_id)

    @pytest.mark.parametrize("subject", ["mesh.subscribe", "MESH.subscribe", "mesh/subscribe", "mesh"])
    def test_a_control_subject_is_acknowledged_when_it_is_answered(self, subject: str) -> None:
        talk = hsp()
        for message_id in (5, 6):
            payload = enveloped(Kind.EVENT, subject=subject)
            assert only(FramesReceived, talk.receives(data_ack(message_id, ENVELOPE_TYPE, payload))).tag is None
        talk.delivers(delivery(ack(0), Kind.RESPONSE, stamps=(1,), request="6"))
        refused = encode(Frame(Command.ERROR, 0, 0xFF00, b"{}"))
        talk.delivers(delivery(refused, Kind.ERROR, stamps=(1,), request="5"))
        assert talk.sends() == ack(6) + encode(Frame(Command.ERROR, 5, 0xFF00, b"{}"))

    def test_a_mapped_control_subject_is_one_too(self) -> None:
        talk = hsp({"types": {17: "mesh.subscribe"}})
        assert only(FramesReceived, talk.receives(data_ack(5))).tag is None

    @pytest.mark.parametrize("first", [b"", data(ENVELOPE_TYPE, enveloped(Kind.EVENT))], ids=["first", "after another"])
    @pytest.mark.parametrize(
        "payload",
        [
            b"",
            b"\x01",
            b"\x01\x00" + bytes(13),
            b"\x02" + enveloped(Kind.EVENT)[1:],
            b"\x01\x00\x00\x01" + enveloped(Kind.EVENT)[4:],
            enveloped(Kind.EVENT, 9),
            enveloped(Kind.EVENT, subject=""),
            enveloped(Kind.EVENT).replace(b"orders", b"order\xff"),
            enveloped(Kind.EVENT)[:12] + b"\xff\xff" + enveloped(Kind.EVENT)[14:],
            enveloped(Kind.EVENT, body=b"")[:-1] + b"\x01\xff",
        ],
    )
    def test_a_broken_envelope_is_refused_and_logged_all_the_same(self, first: bytes, payload: bytes) -> None:
        talk = hsp()
        talk.receives(first)
        stream = data(ENVELOPE_TYPE, payload) + data_ack(5, ENVELOPE_TYPE, payload)
        run = only(FramesReceived, talk.receives(stream))
        assert (run.data, run.tag) == (stream, None)
        (said,) = frames(talk.sends())
        assert (said.command, said.message_id, json.loads(said.payload)["code"]) == (Command.ERROR, 5, "bad_request")


class TestForbidden:
    """The router refuses what is forbidden after the frame is logged: too late for an ACK that says no more."""

    FORBIDDEN = error(1, "forbidden", "this node may not publish that")

    @pytest.mark.parametrize(
        ("type_", "payload"), [(17, b"x"), (ENVELOPE_TYPE, enveloped(Kind.EVENT, subject="secret.a"))]
    )
    @pytest.mark.parametrize("envelope", ["auto", "always"])
    def test_an_event_is_logged_and_refused_at_once(self, type_: int, payload: bytes, envelope: str) -> None:
        options = {"types": {17: "secret.a"}, "envelope": envelope}
        talk = hsp(options, may_publish=lambda subject: subject != "secret.a")
        (run,) = received(talk.receives(data_ack(1, type_, payload)))
        assert talk.sends() == self.FORBIDDEN
        assert run.tag is None

    def test_what_is_allowed_is_acknowledged_when_it_is_logged(self) -> None:
        talk = hsp(may_publish=lambda subject: subject == "hsp.17")
        (run,) = received(talk.receives(data_ack(1) + data_ack(2, 18) + data(18)))
        assert len(run.lengths) == 3
        assert talk.sends() == error(2, "forbidden", "this node may not publish that")
        talk.logs(run.tag)
        assert talk.sends() == ack(1)

    def test_requests_are_the_routers_to_refuse(self) -> None:
        talk = hsp(ORDERS, may_publish=lambda _: False)
        (run,) = received(talk.receives(data_ack(1, 7)))
        assert run.tag is None
        assert talk.sends() == b""


class TestRequestsOfThePeer:
    def test_a_request_is_acknowledged_by_its_answer(self) -> None:
        talk = hsp(ORDERS)
        assert only(FramesReceived, talk.receives(data_ack(5, 7))).tag is None
        reply = data(19) + ack(0)
        actions = talk.delivers(delivery(reply, Kind.RESPONSE, stamps=(len(data(19)) + 1,), request="5"))
        assert only(RequestEnded, actions).outcome == "response"
        assert only(Delivered, actions).outcome is Outcome.WRITTEN
        assert talk.sends() == data(19) + ack(5)

    def test_an_enveloped_request_hears_progress_answer_and_ack(self) -> None:
        talk = hsp()
        talk.receives(data_ack(5, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 77)))
        progress = data(ENVELOPE_TYPE, enveloped(Kind.PROGRESS, 77))
        talk.delivers(delivery(progress, Kind.PROGRESS, request="e77"))
        final = data(ENVELOPE_TYPE, enveloped(Kind.RESPONSE, 77))
        talk.delivers(delivery(final + ack(0), Kind.RESPONSE, stamps=(len(final) + 1,), request="e77"))
        assert talk.sends() == progress + final + ack(5)

    def test_no_answer_in_time_is_an_error_and_a_later_one_is_dropped_and_counted(self) -> None:
        talk = hsp(ORDERS, request_timeout_seconds=5)
        talk.receives(data_ack(5, 7))
        assert only(RequestEnded, talk.waits(5)).outcome == "timeout"
        assert talk.sends() == error(5, "timeout", "no answer in time")
        actions = talk.delivers(delivery(ack(0), Kind.RESPONSE, stamps=(1,), request="5"))
        assert only(Delivered, actions).outcome is Outcome.EXPIRED
        assert only(RequestEnded, actions).outcome == "late"
        assert talk.sends() == b""

    def test_a_late_answer_is_not_taken_for_that_to_the_next_request_of_its_id(self) -> None:
        talk = hsp(ORDERS, request_timeout_seconds=5)
        talk.receives(data_ack(5, 7))
        talk.waits(5)
        talk.sends()
        for name in ("5.1", "5.2"):
            run = only(FramesReceived, talk.receives(data_ack(5, 7)))
            assert [reply.request for reply in run.replies] == [name]
            late = talk.delivers(delivery(ack(0), Kind.RESPONSE, stamps=(1,), request="5"))
            assert only(Delivered, late).outcome is Outcome.EXPIRED
            talk.delivers(delivery(ack(0), Kind.RESPONSE, stamps=(1,), request=name))
            assert talk.sends() == ack(5)
        assert talk.session.open_requests == 0

    def test_nor_is_one_in_the_envelope_and_a_cancel_means_the_one_that_is_open(self) -> None:
        talk = hsp(request_timeout_seconds=5)
        asked = data_ack(5, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 77))
        talk.receives(asked)
        talk.waits(5)
        talk.sends()
        before, cancel = data(), data_ack(6, ENVELOPE_TYPE, enveloped(Kind.CANCEL, 77))
        runs = received(talk.receives(before + asked + cancel + asked + data()))
        named = [(run.data, [reply.request for reply in run.replies]) for run in runs]
        assert named == [(before, []), (asked, ["e77.1"]), (cancel, ["e77.1"]), (data(), [])]
        assert talk.sends() == error(5, "bad_request", "the correlation is that of an open request")
        talk.logs(runs[2].tag)
        assert talk.sends() == ack(6)
        talk.waits(5)
        said, acknowledged = frames(talk.sends())
        assert said.payload.startswith(Envelope(Kind.ERROR, 77, "orders.create", "application/json").encode())
        assert acknowledged == Frame(Command.ACK, 5)

    def test_an_enveloped_request_hears_of_its_timeout_in_the_envelope(self) -> None:
        talk = hsp(request_timeout_seconds=5)
        talk.receives(data_ack(5, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 77)))
        talk.waits(5)
        said, acknowledged = frames(talk.sends())
        head = Envelope(Kind.ERROR, 77, "orders.create", "application/json").encode()
        assert said == Frame(Command.DATA, 0, ENVELOPE_TYPE, head + b'{"code":"timeout","message":"no answer in time"}')
        assert acknowledged == Frame(Command.ACK, 5)

    def test_progress_that_cannot_be_told_still_moves_the_deadline(self) -> None:
        talk = hsp(ORDERS, request_timeout_seconds=5)
        talk.receives(data_ack(5, 7))
        talk.waits(4)
        talk.delivers(delivery(b"", Kind.PROGRESS, request="5"))
        talk.waits(4)
        assert talk.session.data_to_send() == []
        talk.waits(1)
        assert talk.sends() == error(5, "timeout", "no answer in time")

    def test_an_id_may_be_used_again_after_its_answer(self) -> None:
        talk = hsp(ORDERS)
        for _ in range(3):
            talk.receives(data_ack(5, 7))
            talk.delivers(delivery(ack(0), Kind.RESPONSE, stamps=(1,), request="5"))
        assert talk.sends() == ack(5) * 3

    def test_nothing_is_kept_of_a_request_that_is_over(self) -> None:
        talk = hsp(ORDERS, request_timeout_seconds=5)
        talk.receives(data_ack(5, 7) + data_ack(6, 7))
        talk.delivers(delivery(ack(0), Kind.RESPONSE, stamps=(1,), request="5"))
        talk.waits(5)
        assert cast(HspSession, talk.session)._message_ids == {}
        talk.receives(data_ack(5, 7))
        talk.delivers(delivery(ack(0), Kind.RESPONSE, stamps=(1,), request="5"))
        assert talk.session.get_timer() == talk.now + HspOptions().ping_seconds

    def test_an_id_used_twice_at_once_ends_the_session(self) -> None:
        talk = hsp(ORDERS)
        talk.receives(data_ack(5, 7) + data_ack(5, 7))
        assert talk.ended == Reason.MALFORMED

    def test_a_correlation_used_twice_at_once_is_refused_with_its_message_id(self) -> None:
        talk = hsp()
        talk.receives(data_ack(5, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 77)))
        actions = talk.receives(data_ack(6, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 77)))
        assert only(FrameRefused, actions).reason is Reason.MALFORMED
        assert received(actions) == []
        assert talk.sends() == error(6, "bad_request", "the correlation is that of an open request")

    def test_one_open_request_too_many_is_refused_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(HspSession, "max_open_requests", 2)
        talk = hsp(ORDERS)
        actions = talk.receives(data_ack(1, 7) + data_ack(2, 7) + data_ack(3, 7))
        assert only(FramesReceived, actions).lengths == (12, 12)
        assert only(FrameRefused, actions).reason is Reason.OVERLOAD
        assert talk.sends() == error(3, "internal", "too many open requests")


class TestDeliveries:
    def test_an_event_gets_an_id_of_its_own_and_is_confirmed_by_the_peers_ack(self) -> None:
        talk = hsp()
        assert talk.delivers(delivery(data_ack(0), stamps=(1,))) == [Opened()]
        talk.delivers(delivery(data_ack(0), stamps=(1,)))
        assert talk.sends() == data_ack(1) + data_ack(2)
        assert only(Delivered, talk.receives(ack(2))).outcome is Outcome.CONFIRMED
        assert only(Delivered, talk.receives(ack(1))).outcome is Outcome.CONFIRMED

    def test_an_event_without_acknowledgement_is_written(self) -> None:
        talk = hsp()
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

    def test_a_delivery_after_the_end_is_undeliverable(self) -> None:
        talk = hsp()
        talk.receives(b"\x07")
        assert only(Delivered, talk.delivers(delivery(data()))).outcome is Outcome.UNDELIVERABLE

    def test_what_waits_when_the_session_ends_is_undeliverable(self) -> None:
        talk = hsp()
        event, request = (
            delivery(data_ack(0), stamps=(1,)),
            delivery(data_ack(0), Kind.REQUEST, stamps=(1,), reply=asked_by()),
        )
        talk.delivers(event)
        talk.delivers(request)
        talk.session.receive_eof(talk.now)
        actions = talk.acts()
        lost = {action.delivery.kind: action.outcome for action in actions if isinstance(action, Delivered)}
        assert lost == {Kind.EVENT: Outcome.UNDELIVERABLE, Kind.REQUEST: Outcome.UNDELIVERABLE}
        assert only(RequestsAbandoned, actions) == RequestsAbandoned((asked_by(),), MeshError.UNDELIVERABLE)
        assert actions[-1] == Terminated("eof")

    def test_beyond_so_many_events_the_oldest_is_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(unconfirmed, "MAX_UNCONFIRMED", 2)
        talk = hsp()
        given = [delivery(data_ack(0, payload=bytes((n,))), stamps=(1,)) for n in range(3)]
        for each in given[:2]:
            assert not any(isinstance(action, Delivered) for action in talk.delivers(each))
        assert only(Delivered, talk.delivers(given[2])).delivery is given[0]
        assert only(FrameRefused, talk.receives(ack(1))).reason is Reason.TIMEOUT

    def test_ids_go_on_from_1_past_those_that_are_open(self) -> None:
        table = unconfirmed.Unconfirmed(5)
        assert table.add(delivery(b""), 0) == 1
        assert table.add(delivery(b"", Kind.REQUEST), 0) == 2
        table._last = unconfirmed.LAST_ID - 1
        assert [table.add(delivery(b""), 0) for _ in range(3)] == [unconfirmed.LAST_ID, 3, 4]


class TestRequestsToThePeer:
    def request(self, frame: bytes, stamps: tuple[int, ...] = (1,)) -> Delivery:
        return delivery(frame, Kind.REQUEST, stamps=stamps, reply=asked_by())

    @pytest.mark.parametrize(
        "answer",
        [ack(), encode(Frame(Command.ERROR, 1, 0x1234, b"bad")), encode(Frame(Command.ERROR_UNDEF, 1))],
        ids=["ACK", "ERROR", "ERROR_UNDEF"],
    )
    def test_what_the_peer_says_of_it_is_the_answer(self, answer: bytes) -> None:
        talk = hsp()
        talk.delivers(self.request(data_ack(0, 18)))
        assert talk.sends() == data_ack(1, 18)
        actions = talk.receives(data() + answer + data())
        assert [run.data for run in received(actions)] == [data(), answer, data()]
        assert [run.replies for run in received(actions)] == [(), (asked_by(),), ()]
        assert only(Delivered, actions).outcome is Outcome.CONFIRMED

    def test_an_enveloped_request_is_answered_in_the_envelope_and_its_ack_is_only_an_ack(self) -> None:
        talk = hsp()
        talk.delivers(self.request(data_ack(0, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 1)), (1, 19)))
        talk.delivers(self.request(data_ack(0, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 1)), (1, 19)))
        assert frames(talk.sends())[1] == Frame(Command.DATA_ACK, 2, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 2))
        for kind in (Kind.PROGRESS, Kind.PROGRESS, Kind.RESPONSE):
            said = data(ENVELOPE_TYPE, enveloped(kind, 2))
            answer = only(FramesReceived, talk.receives(said))
            assert (answer.data, answer.replies, answer.tag) == (said, (asked_by(),), None)
        assert [type(action) for action in talk.receives(ack(2))] == [Delivered]

    def test_an_answer_that_asks_for_an_ack_gets_it_when_it_is_logged(self) -> None:
        talk = hsp()
        talk.delivers(self.request(data_ack(0, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 1)), (1, 19)))
        talk.sends()
        answer = only(FramesReceived, talk.receives(data_ack(9, ENVELOPE_TYPE, enveloped(Kind.RESPONSE, 1))))
        talk.logs(answer.tag)
        assert talk.sends() == ack(9)

    @pytest.mark.parametrize("correlation", [1, 2, 1 << 40])
    def test_an_answer_to_no_open_request_is_dropped_and_counted(self, correlation: int) -> None:
        talk = hsp()
        talk.delivers(self.request(data_ack(0, 18)))
        talk.receives(ack(1))
        actions = talk.receives(data(ENVELOPE_TYPE, enveloped(Kind.RESPONSE, correlation)))
        assert only(FrameRefused, actions).reason is Reason.TIMEOUT
        assert received(actions) == []
        assert talk.ended is None

    def test_an_answer_to_no_open_request_that_asks_for_an_ack_is_refused(self) -> None:
        talk = hsp()
        talk.receives(data_ack(9, ENVELOPE_TYPE, enveloped(Kind.RESPONSE, 1)))
        assert talk.sends() == error(9, "bad_request", "an answer to no open request")

    def test_a_request_that_was_answered_is_not_lost_with_the_ack_that_never_came(self) -> None:
        talk = hsp()
        talk.delivers(self.request(data_ack(0, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 1)), (1, 19)))
        talk.receives(data(ENVELOPE_TYPE, enveloped(Kind.RESPONSE, 1)))
        talk.session.receive_eof(talk.now)
        actions = talk.acts()
        assert only(Delivered, actions).outcome is Outcome.CONFIRMED
        assert not any(isinstance(action, RequestsAbandoned) for action in actions)

    def test_a_cancel_goes_to_a_peer_that_has_the_request_and_to_no_other(self) -> None:
        talk = hsp()
        cancel = data(ENVELOPE_TYPE, enveloped(Kind.CANCEL, 1))
        request = data_ack(0, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 1))
        talk.delivers(self.request(data_ack(0)))
        talk.delivers(delivery(request, Kind.REQUEST, stamps=(1, 19), reply=asked_by("r2")))
        talk.sends()
        unknown = talk.delivers(delivery(cancel, Kind.CANCEL, stamps=(15,), reply=asked_by("r3")))
        assert only(Delivered, unknown).outcome is Outcome.WRITTEN
        assert talk.sends() == b""
        talk.delivers(delivery(cancel, Kind.CANCEL, stamps=(15,), reply=asked_by("r2")))
        assert talk.sends() == data(ENVELOPE_TYPE, enveloped(Kind.CANCEL, 2))

    def test_a_cancel_of_what_is_answered_goes_nowhere(self) -> None:
        talk = hsp()
        talk.delivers(self.request(data_ack(0)))
        talk.receives(ack(1))
        talk.sends()
        cancel = data(ENVELOPE_TYPE, enveloped(Kind.CANCEL, 1))
        talk.delivers(delivery(cancel, Kind.CANCEL, stamps=(15,), reply=asked_by()))
        assert talk.sends() == b""

    def test_beyond_so_many_requests_the_oldest_is_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(unconfirmed, "MAX_UNCONFIRMED", 1)
        talk = hsp()
        talk.delivers(delivery(data_ack(0), Kind.REQUEST, stamps=(1,), reply=asked_by("r1")))
        actions = talk.delivers(delivery(data_ack(0), Kind.REQUEST, stamps=(1,), reply=asked_by("r2")))
        assert only(RequestsAbandoned, actions) == RequestsAbandoned((asked_by("r1"),), MeshError.TIMEOUT)
        assert only(Delivered, actions).outcome is Outcome.UNDELIVERABLE
        assert only(FrameRefused, talk.receives(ack(1))).reason is Reason.TIMEOUT
        assert only(FramesReceived, talk.receives(ack(2))).replies == (asked_by("r2"),)


class TestEnvelopeFacts:
    def test_the_first_envelope_of_the_peer_is_told_once(self) -> None:
        talk = hsp()
        talk.receives(data())
        actions = talk.receives(data(ENVELOPE_TYPE, enveloped(Kind.EVENT)) * 2)
        assert only(Opened, actions).facts == {"envelope": True}
        assert not any(
            isinstance(action, Opened) for action in talk.receives(data(ENVELOPE_TYPE, enveloped(Kind.EVENT)))
        )

    def test_a_broken_one_tells_nothing(self) -> None:
        talk = hsp()
        talk.acts()
        assert not any(isinstance(action, Opened) for action in talk.receives(data(ENVELOPE_TYPE, b"\x01")))

    def test_it_is_a_fact_from_the_start_where_the_listener_says_so(self) -> None:
        assert only(Opened, hsp({"envelope": "always"}).acts()).facts == {"envelope": True}


class TestKeepalive:
    def test_a_silent_peer_is_pinged_and_ends_without_an_answer(self) -> None:
        talk = hsp({"ping_seconds": 30, "pong_timeout_seconds": 10})
        talk.waits(29)
        assert talk.sends() == b""
        talk.waits(1)
        assert talk.sends() == b"\x03"
        talk.waits(9)
        assert talk.ended is None
        talk.waits(1)
        assert talk.ended == Reason.TIMEOUT

    def test_one_ping_at_a_time(self) -> None:
        talk = hsp({"ping_seconds": 5, "pong_timeout_seconds": 60})
        talk.waits(5)
        talk.receives(data())
        talk.waits(5)
        talk.waits(5)
        assert talk.sends() == b"\x03"

    def test_a_pong_sets_it_back(self) -> None:
        talk = hsp({"ping_seconds": 30, "pong_timeout_seconds": 10})
        talk.waits(30)
        talk.receives(b"\x04")
        talk.waits(29)
        assert talk.sends() == b"\x03"
        talk.waits(1)
        assert talk.sends() == b"\x03"

    def test_a_peer_that_is_asked_for_a_sign_of_life_is_pinged_once_and_not_again_before_it_is_idle(self) -> None:
        talk = hsp({"ping_seconds": 30, "pong_timeout_seconds": 40})
        talk.session.probe(talk.now)
        talk.session.probe(talk.now)
        talk.waits(35)
        assert talk.sends() == b"\x03"
        talk.receives(b"\x04")
        talk.waits(29)
        assert talk.sends() == b""
        talk.waits(1)
        assert talk.sends() == b"\x03"

    def test_a_peer_that_gives_no_sign_of_life_when_asked_is_left(self) -> None:
        talk = hsp({"ping_seconds": 30, "pong_timeout_seconds": 10})
        talk.session.probe(talk.now)
        talk.waits(10)
        assert talk.ended == Reason.TIMEOUT

    def test_a_peer_that_speaks_is_not_pinged(self) -> None:
        talk = hsp({"ping_seconds": 30})
        for _ in range(5):
            talk.waits(20)
            talk.receives(data())
        assert talk.sends() == b""

    def test_a_pong_without_a_ping_ends_the_session(self) -> None:
        talk = hsp()
        talk.receives(b"\x04")
        assert talk.ended == Reason.MALFORMED

    def test_two_pongs_for_one_ping_end_the_session(self) -> None:
        talk = hsp({"ping_seconds": 30})
        talk.waits(30)
        talk.receives(b"\x04\x04")
        assert talk.ended == Reason.MALFORMED


class TestTheEnd:
    @pytest.mark.parametrize(
        ("stream", "reason"),
        [
            (b"\x07", Reason.UNKNOWN_TYPE),
            (b"\xff", Reason.UNKNOWN_TYPE),
            (ack(), Reason.MALFORMED),
            (encode(Frame(Command.ERROR, 1, 2, b"x")), Reason.MALFORMED),
            (encode(Frame(Command.ERROR_UNDEF, 1)), Reason.MALFORMED),
            (bytes.fromhex("00 0011 00000401"), Reason.TOO_LARGE),
            (bytes.fromhex("01 00000001 0011 00000401"), Reason.TOO_LARGE),
            (bytes.fromhex("05 00000001 0011 ffffffff"), Reason.TOO_LARGE),
        ],
    )
    def test_what_breaks_the_stream_ends_it_without_a_word(self, stream: bytes, reason: Reason) -> None:
        talk = hsp(frame_bytes=1024)
        talk.receives(stream)
        assert talk.ended == reason
        assert talk.sends() == b""

    def test_a_payload_at_the_limit_is_taken(self) -> None:
        talk = hsp(frame_bytes=1024)
        stream = data(17, bytes(1024)) + data_ack(1, 17, bytes(1024))
        assert only(FramesReceived, talk.receives(stream)).lengths == (1031, 1035)

    def test_a_stream_that_ends_inside_a_frame_is_truncated(self) -> None:
        talk = hsp()
        talk.receives(data()[:-1])
        talk.session.receive_eof(talk.now)
        assert talk.ended == Reason.TRUNCATED

    def test_a_drain_ends_at_once_when_nothing_is_owed(self) -> None:
        talk = hsp()
        talk.session.drain(talk.now)
        assert talk.ended == "drain"
        assert talk.sends() == b""

    def test_a_drain_waits_for_the_acks_that_are_owed_and_takes_in_nothing_more(self) -> None:
        talk = hsp(ORDERS)
        talk.delivers(delivery(data_ack(0), stamps=(1,)))
        talk.sends()
        tag = only(FramesReceived, talk.receives(data_ack(5) + data_ack(4, 7))).tag
        talk.session.drain(talk.now, None, Farewell.KICKED)
        assert talk.ended is None
        actions = talk.receives(data_ack(6) + ack(1) + b"\x03")
        assert received(actions) == []
        assert only(Delivered, actions).outcome is Outcome.CONFIRMED
        assert only(Delivered, talk.delivers(delivery(data()))).outcome is Outcome.UNDELIVERABLE
        talk.delivers(delivery(ack(0), Kind.RESPONSE, stamps=(1,), request="4"))
        talk.logs(tag)
        assert talk.sends() == b"\x04" + ack(4) + ack(5)
        assert talk.ended == "kicked"


any_frame = st.builds(
    Frame,
    st.sampled_from([Command.DATA, Command.DATA_ACK, Command.PING]),
    st.just(0),
    st.integers(0, 0xFFFE),
    st.binary(max_size=20),
)


@given(st.lists(any_frame, max_size=12), st.integers(0, 200), st.integers(0, 64))
@profile(max_examples=200, deadline=None)
def test_the_hot_loop_splits_as_the_codec_does(sent: list[Frame], cut: int, limit: int) -> None:
    stream = b"".join(map(encode, sent))[:cut]
    talk = hsp(frame_bytes=limit)
    actions = talk.receives(stream)
    wanted: list[int] = []
    pos, reason = 0, None
    try:
        while size := split(stream, pos, limit):
            wanted += [] if stream[pos] == Command.PING else [size]
            pos += size
    except Exception as refused:
        reason = getattr(refused, "reason", refused)
    assert [length for run in received(actions) for length in run.lengths] == wanted
    assert talk.ended == reason


@given(
    st.builds(Envelope, st.sampled_from(KINDS), st.sampled_from([0, 1]), st.text(max_size=8), st.text(max_size=8)),
    st.dictionaries(st.integers(0, 40), st.integers(0, 255), max_size=2),
    st.integers(0, 40),
)
@profile(max_examples=500, deadline=None)
def test_the_glance_takes_no_envelope_that_the_router_would_refuse(
    head: Envelope, changed: dict[int, int], cut: int
) -> None:
    payload = bytearray(head.encode() + b"body")
    for at, value in changed.items():
        payload[at % len(payload)] = value
    del payload[max(len(payload) - cut, 0) :]
    if is_plain_event(payload + enveloped(Kind.EVENT), 0, len(payload)):
        found, _ = decode_envelope(bytes(payload))
        assert (found.kind, is_control(found.subject)) == (Kind.EVENT, False)
