"""hsp frames as events, events as hsp frames, and what is lost on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.auth.keyring import KeyRing
from gateway.core.content import JSON
from gateway.core.envelope import Envelope
from gateway.core.event import NO_HEADERS, Event, Kind
from gateway.core.reasons import Reason
from gateway.protocols.hsp import PROTOCOL
from gateway.protocols.hsp.codec import encode
from gateway.protocols.hsp.frames import ENVELOPE_TYPE, Command, Frame
from gateway.protocols.hsp.options import HspOptions
from gateway.protocols.spec import CodecContext, Encoded, Target
from gateway.records.raw_log.frames import Reply, RequestName
from tests.refusals import reason_of
from tests.unit.protocols.contract.conversation import asked_by, raw

ENV = CodecContext(KeyRing())
ORDERS = {"types": {18: {"subject": "orders.create", "kind": "request", "reply_type": 19}}}


def read(frame: Frame, keys: Mapping[str, Any] | None = None, *replies: Reply) -> Event:
    options = HspOptions.model_validate(keys or {})
    return PROTOCOL.to_event(raw(encode(frame), "hsp", *replies), "0-7-1", options, ENV)


def enveloped(kind: Kind, correlation: int, body: bytes = b"", subject: str = "orders.create") -> bytes:
    return Envelope(kind, correlation, subject, JSON).encode() + body


def said(
    kind: Kind, subject: str = "orders.create", body: bytes = b"{}", headers: Mapping[str, str] = NO_HEADERS
) -> Event:
    return Event(
        "0-7-1", kind, subject, "yamp", "apps", "edge-1", "edge-1.1.7", "", "node-1", 0, "m1", "", JSON, body, headers
    )  # fmt: skip


def write(event: Event, keys: Mapping[str, Any] | None = None, request: str = "", *, envelope: bool = False) -> Encoded:
    target = Target("hsp", "plc", {"envelope": True} if envelope else {}, request)
    return PROTOCOL.from_event(event, target, HspOptions.model_validate(keys or {}), ENV)


class TestFromThePeer:
    def test_data_is_an_event_named_by_its_type(self) -> None:
        event = read(Frame(Command.DATA, 0, 17, b"21"), {"types": {17: "temp.high"}, "content_type": "text/plain"})
        assert (event.id, event.kind, event.subject, event.body) == ("0-7-1", Kind.EVENT, "temp.high", b"21")
        assert (event.content_type, event.message_id, event.correlation) == ("text/plain", "", "")

    def test_the_event_says_where_it_came_from(self) -> None:
        event = read(Frame(Command.DATA, 0, 17, b"21"))
        assert (event.protocol, event.listener, event.edge, event.session) == ("hsp", "plc", "edge-0", "edge-0.1.3")
        assert (event.peer, event.node, event.received_at) == ("192.0.2.1:40000", "node-3", 1_700_000_000_000_000)

    def test_a_data_ack_is_an_event_with_its_message_id(self) -> None:
        event = read(Frame(Command.DATA_ACK, 0xFFFFFFFF, 17))
        assert (event.kind, event.subject, event.message_id) == (Kind.EVENT, "hsp.17", "4294967295")

    def test_a_data_ahead_of_the_ack_is_the_answer_s_body(self) -> None:
        types = {18: {"subject": "orders.create", "kind": "request", "reply_type": 19}}
        types |= {19: {"subject": "orders.created", "content_type": JSON}}
        options = HspOptions.model_validate({"types": types})
        answer = encode(Frame(Command.DATA, 0, 19, b'{"n":1}')) + encode(Frame(Command.ACK, 5))
        event = PROTOCOL.to_event(raw(answer, "hsp", asked_by()), "0-7-1", options, ENV)
        assert (event.kind, event.subject, event.correlation) == (Kind.RESPONSE, "orders.create", "5")
        assert (event.body, event.content_type) == (b'{"n":1}', JSON)

    @pytest.mark.parametrize(
        "frame",
        [
            Frame(Command.DATA_ACK, 5, 18, b"{}"),
            Frame(Command.DATA_ACK, 5, ENVELOPE_TYPE, enveloped(Kind.EVENT, 0)),
            Frame(Command.DATA_ACK, 5, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 77)),
        ],
    )
    def test_what_the_session_has_named_is_called_by_its_name(self, frame: Frame) -> None:
        assert read(frame, ORDERS, RequestName("5.1", "orders.create", "hsp")).message_id == "5.1"

    def test_a_cancel_of_what_the_session_has_named_names_it(self) -> None:
        frame = Frame(Command.DATA, 0, ENVELOPE_TYPE, enveloped(Kind.CANCEL, 77))
        assert read(frame, None, RequestName("e77.1", "orders.create", "hsp")).correlation == "e77.1"

    def test_a_data_ack_of_a_type_of_requests_is_a_request(self) -> None:
        event = read(Frame(Command.DATA_ACK, 5, 18, b"{}"), ORDERS)
        assert (event.kind, event.subject, event.message_id) == (Kind.REQUEST, "orders.create", "5")

    def test_data_of_a_type_of_requests_is_an_event_for_nobody_could_answer_it(self) -> None:
        assert read(Frame(Command.DATA, 0, 18, b"{}"), ORDERS).kind is Kind.EVENT

    @pytest.mark.parametrize("command", [Command.DATA, Command.DATA_ACK])
    def test_the_envelope_names_an_event(self, command: Command) -> None:
        message_id = 9 if command is Command.DATA_ACK else 0
        event = read(Frame(command, message_id, ENVELOPE_TYPE, enveloped(Kind.EVENT, 0, b"x")))
        assert (event.kind, event.subject, event.content_type, event.body) == (Kind.EVENT, "orders.create", JSON, b"x")
        assert event.message_id == ("9" if message_id else "")

    def test_an_enveloped_request_is_known_by_its_correlation(self) -> None:
        event = read(Frame(Command.DATA_ACK, 9, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 77, b"x")))
        assert (event.kind, event.message_id, event.correlation) == (Kind.REQUEST, "e77", "")

    def test_an_enveloped_request_without_acknowledgement_is_refused(self) -> None:
        assert reason_of(read, Frame(Command.DATA, 0, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 77))) is Reason.MALFORMED

    def test_a_cancel_names_the_request_that_it_cancels(self) -> None:
        event = read(Frame(Command.DATA, 0, ENVELOPE_TYPE, enveloped(Kind.CANCEL, 77)))
        assert (event.kind, event.subject, event.correlation) == (Kind.CANCEL, "orders.create", "e77")

    def test_a_cancel_has_the_subject_of_its_request_and_no_body(self) -> None:
        frame = Frame(Command.DATA, 0, ENVELOPE_TYPE, enveloped(Kind.CANCEL, 77, b"forged", "mesh.session.closed"))
        event = read(frame, None, RequestName("e77", "orders.create", "hsp"))
        assert (event.subject, event.body, event.content_type) == ("orders.create", b"", "")

    @pytest.mark.parametrize("kind", [Kind.RESPONSE, Kind.PROGRESS, Kind.ERROR, Kind.CANCELLED])
    def test_an_enveloped_answer_has_the_subject_of_the_request(self, kind: Kind) -> None:
        event = read(Frame(Command.DATA, 0, ENVELOPE_TYPE, enveloped(kind, 5, b"x", "")), None, asked_by())
        assert (event.kind, event.subject, event.body, event.correlation) == (kind, "orders.create", b"x", "e5")

    def test_a_bare_ack_is_an_empty_response(self) -> None:
        event = read(Frame(Command.ACK, 5), None, asked_by())
        assert (event.kind, event.subject, event.body) == (Kind.RESPONSE, "orders.create", b"")
        assert event.headers == {}

    def test_an_error_keeps_its_type_and_payload(self) -> None:
        event = read(Frame(Command.ERROR, 5, 0x1234, b"bad"), None, asked_by())
        assert (event.kind, event.body, event.headers) == (Kind.ERROR, b"bad", {"hsp-type": "4660"})

    def test_an_undefined_error_is_an_error_with_an_empty_body(self) -> None:
        event = read(Frame(Command.ERROR_UNDEF, 5), None, asked_by())
        assert (event.kind, event.body, event.headers) == (Kind.ERROR, b"", {})

    @pytest.mark.parametrize(
        "frame", [Frame(Command.ACK, 5), Frame(Command.DATA, 0, ENVELOPE_TYPE, enveloped(Kind.RESPONSE, 5))]
    )
    def test_an_answer_to_nothing_is_refused(self, frame: Frame) -> None:
        assert reason_of(read, frame) is Reason.MALFORMED

    @pytest.mark.parametrize("command", [Command.PING, Command.PONG])
    def test_keepalive_is_no_event(self, command: Command) -> None:
        assert reason_of(read, Frame(command)) is Reason.UNKNOWN_TYPE


class TestTowardsThePeer:
    @pytest.mark.parametrize(
        ("deliver", "hexdump", "stamps"),
        [("ack", "01 00000000 0012 00000002 7b7d", (1,)), ("plain", "00 0012 00000002 7b7d", ())],
    )
    def test_an_event_is_sent_under_the_type_of_its_subject(
        self, deliver: str, hexdump: str, stamps: tuple[int, ...]
    ) -> None:
        assert write(said(Kind.EVENT), ORDERS | {"deliver": deliver}) == Encoded(bytes.fromhex(hexdump), stamps)

    def test_without_type_and_envelope_the_subject_is_lost(self) -> None:
        encoded = write(said(Kind.EVENT, "temp.high"), {"unmapped_type": 9})
        assert encoded == Encoded(bytes.fromhex("01 00000000 0009 00000002 7b7d"), (1,), ("subject",))

    @pytest.mark.parametrize("keys", [{"envelope": "always"}, {}])
    def test_the_envelope_carries_every_subject(self, keys: dict[str, Any]) -> None:
        encoded = write(said(Kind.EVENT, "temp.high"), keys, envelope=not keys)
        payload = enveloped(Kind.EVENT, 0, b"{}", "temp.high")
        assert encoded == Encoded(encode(Frame(Command.DATA_ACK, 0, ENVELOPE_TYPE, payload)), (1,))

    def test_the_envelope_is_not_sent_where_it_never_may_be(self) -> None:
        assert write(said(Kind.EVENT), {"envelope": "never"} | ORDERS, envelope=True).frame[5:7] == b"\x00\x12"

    def test_a_request_is_a_data_ack_whatever_deliver_says(self) -> None:
        encoded = write(said(Kind.REQUEST), ORDERS | {"deliver": "plain"})
        assert encoded == Encoded(bytes.fromhex("01 00000000 0012 00000002 7b7d"), (1,))

    def test_an_enveloped_request_has_its_two_ids_stamped(self) -> None:
        encoded = write(said(Kind.REQUEST), envelope=True)
        payload = enveloped(Kind.REQUEST, 1, b"{}")
        assert encoded == Encoded(encode(Frame(Command.DATA_ACK, 0, ENVELOPE_TYPE, payload)), (1, 19))

    def test_a_cancel_needs_the_envelope(self) -> None:
        assert write(said(Kind.CANCEL), ORDERS) == Encoded(b"", losses=("cancel",))
        payload = enveloped(Kind.CANCEL, 1, b"{}")
        assert write(said(Kind.CANCEL), envelope=True) == Encoded(
            encode(Frame(Command.DATA, 0, ENVELOPE_TYPE, payload)), (15,)
        )

    def test_a_request_goes_under_the_type_of_requests(self) -> None:
        types = {17: "orders.create", **ORDERS["types"]}
        assert write(said(Kind.EVENT), {"types": types}).frame[5:7].hex() == "0011"
        assert write(said(Kind.REQUEST), {"types": types}).frame[5:7].hex() == "0012"

    def test_a_response_goes_ahead_of_its_ack_as_data_of_the_reply_type(self) -> None:
        encoded = write(said(Kind.RESPONSE), ORDERS, "5")
        assert encoded == Encoded(bytes.fromhex("00 0013 00000002 7b7d  02 00000000"), (10,))

    def test_without_reply_type_the_body_of_a_response_is_lost(self) -> None:
        assert write(said(Kind.RESPONSE), None, "5") == Encoded(bytes.fromhex("02 00000000"), (1,), ("body",))
        assert write(said(Kind.RESPONSE, body=b""), None, "5") == Encoded(bytes.fromhex("02 00000000"), (1,))

    def test_what_a_control_subject_answers_is_all_in_the_ack(self) -> None:
        assert write(said(Kind.RESPONSE, "mesh.subscribe"), None, "5") == Encoded(bytes.fromhex("02 00000000"), (1,))

    def test_an_error_is_told_with_the_listeners_type(self) -> None:
        assert write(said(Kind.ERROR), None, "5") == Encoded(bytes.fromhex("05 00000000 ff00 00000002 7b7d"), (1,))
        assert write(said(Kind.ERROR), {"error_type": 7}, "5").frame[5:7] == b"\x00\x07"

    def test_an_error_of_an_hsp_server_keeps_its_type(self) -> None:
        encoded = write(said(Kind.ERROR, headers={"hsp-type": "4660"}), None, "5")
        assert encoded == Encoded(bytes.fromhex("05 00000000 1234 00000002 7b7d"), (1,))

    def test_so_does_one_without_a_payload(self) -> None:
        encoded = write(said(Kind.ERROR, body=b"", headers={"hsp-type": "0"}), None, "5")
        assert encoded == Encoded(bytes.fromhex("05 00000000 0000 00000000"), (1,))

    @pytest.mark.parametrize("header", ["65536", "-1", "x", "1" * 5000, "٣"])
    def test_a_type_that_is_none_is_not_believed(self, header: str) -> None:
        assert write(said(Kind.ERROR, headers={"hsp-type": header}), None, "5").frame[5:7] == b"\xff\x00"

    def test_an_error_that_says_nothing_is_an_undefined_one(self) -> None:
        assert write(said(Kind.ERROR, body=b""), None, "5") == Encoded(bytes.fromhex("06 00000000"), (1,))

    def test_a_cancelled_request_ends_in_an_error(self) -> None:
        assert write(said(Kind.CANCELLED, body=b""), None, "5") == Encoded(
            bytes.fromhex("05 00000000 ff00 00000000"), (1,)
        )

    def test_progress_needs_the_envelope(self) -> None:
        assert write(said(Kind.PROGRESS), ORDERS, "5", envelope=True) == Encoded(b"", losses=("progress",))

    @pytest.mark.parametrize("kind", [Kind.RESPONSE, Kind.ERROR, Kind.CANCELLED])
    def test_an_enveloped_request_hears_its_answer_in_the_envelope_and_then_an_ack(self, kind: Kind) -> None:
        data = encode(Frame(Command.DATA, 0, ENVELOPE_TYPE, enveloped(kind, 77, b"{}")))
        assert write(said(kind), ORDERS, "e77") == Encoded(data + bytes.fromhex("02 00000000"), (len(data) + 1,))

    def test_progress_in_the_envelope_acknowledges_nothing(self) -> None:
        data = encode(Frame(Command.DATA, 0, ENVELOPE_TYPE, enveloped(Kind.PROGRESS, 77, b"{}")))
        assert write(said(Kind.PROGRESS), None, "e77") == Encoded(data)

    def test_the_envelope_has_no_place_for_an_error_type(self) -> None:
        assert write(said(Kind.ERROR, headers={"hsp-type": "4660"}), None, "e77").losses == ("code",)

    def test_an_enveloped_request_is_answered_without_it_where_it_never_may_be_sent(self) -> None:
        assert write(said(Kind.RESPONSE), ORDERS | {"envelope": "never"}, "e77").frame == bytes.fromhex(
            "00 0013 00000002 7b7d  02 00000000"
        )


class TestDedupKey:
    PAYLOAD = HspOptions(dedup="payload")

    def key(self, frame: Frame, options: HspOptions = PAYLOAD) -> str | None:
        return PROTOCOL.dedup_key(read(frame), options)

    def test_there_is_none_unless_asked_for(self) -> None:
        assert self.key(Frame(Command.DATA_ACK, 1, 17, b"x"), HspOptions()) is None

    def test_a_data_ack_sent_again_under_another_id_has_the_same(self) -> None:
        first = self.key(Frame(Command.DATA_ACK, 1, 17, b"x"))
        assert first is not None
        assert first == self.key(Frame(Command.DATA_ACK, 2, 17, b"x"))

    def test_a_space_in_a_node_or_in_a_subject_does_not_make_two_events_one(self) -> None:
        event = read(Frame(Command.DATA_ACK, 1, 17, b"x"))
        names = [("plant a", "b"), ("plant", "a b")]
        keys = {PROTOCOL.dedup_key(replace(event, node=node, subject=subject), self.PAYLOAD) for node, subject in names}
        assert len(keys) == 2

    def test_another_type_or_payload_has_another(self) -> None:
        frames = [
            Frame(Command.DATA_ACK, 1, 17, b"x"),
            Frame(Command.DATA_ACK, 1, 18, b"x"),
            Frame(Command.DATA_ACK, 1, 17),
        ]
        assert len({self.key(frame) for frame in frames}) == 3

    @pytest.mark.parametrize(
        "frame",
        [
            Frame(Command.DATA, 0, 17, b"x"),
            Frame(Command.DATA_ACK, 1, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 5)),
            Frame(Command.DATA_ACK, 1, ENVELOPE_TYPE, enveloped(Kind.EVENT, 0, b"{}", "mesh.subscribe")),
        ],
        ids=["DATA", "request", "control"],
    )
    def test_what_is_owed_an_answer_each_time_has_none(self, frame: Frame) -> None:
        assert self.key(frame) is None
