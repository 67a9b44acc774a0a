"""Frames and events, both ways, for either format."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.auth.keyring import KeyRing
from gateway.core.content import BINARY, JSON, MSGPACK, TEXT
from gateway.core.event import Auth, Event, Kind
from gateway.core.reasons import Reason
from gateway.protocols.spec import CodecContext, Encoded, Target
from gateway.protocols.yamp import PROTOCOL
from gateway.protocols.yamp.codec import decode, encode
from gateway.protocols.yamp.frames import Cancel, Request, Response, ResponseType, UserEvent
from gateway.protocols.yamp.options import YampOptions
from gateway.records.raw_log.frames import FrameSource, RawFrame, ReplyAddress
from tests.refusals import reason_of
from tests.unit.core.subjects import subjects

from .vectors import CANCEL, DONE, EVENT, FRAMES, KILL, PROGRESSIVE_REQUEST, REQUEST, uid

ENV = CodecContext(KeyRing())
OPTIONS = YampOptions()
RECEIVED_AT = 1_759_190_400_000_000
REQUESTER = ReplyAddress("hsp", "plc", "edge-1", 1, 7, "5", "orders.sum")


def source(format_: str = "json") -> FrameSource:
    return FrameSource(
        "yamp", "apps", "edge-0", 1, 3, "192.0.2.1:4", "cn:app", Auth.TLS, "00000001", facts={"format": format_}
    )


def event_of(data: bytes, *replies: ReplyAddress, format_: str = "json") -> Event:
    return PROTOCOL.to_event(RawFrame(data, source(format_), RECEIVED_AT, replies), "0-7-0", OPTIONS, ENV)


def event(kind: Kind = Kind.EVENT, **fields: Any) -> Event:
    plain: dict[str, Any] = {"subject": "sum", "protocol": "hsp", "listener": "plc", "edge": "edge-1", "session": "s"}
    rest: dict[str, Any] = {"id": "0-7-0", "peer": "p", "node": "n", "received_at": RECEIVED_AT}
    return Event(kind=kind, **{**plain, **rest, **fields})


def target(format_: str = "json", **fields: Any) -> Target:
    return Target("yamp", "apps", {"format": format_}, **fields)


def written(said: Event, to: Target) -> Encoded:
    return PROTOCOL.from_event(said, to, OPTIONS, ENV)


class TestToEvent:
    def test_an_event_has_all_that_stood_beside_its_frame(self) -> None:
        assert event_of(EVENT) == Event(
            id="0-7-0",
            kind=Kind.EVENT,
            subject="foo",
            protocol="yamp",
            listener="apps",
            edge="edge-0",
            session="edge-0.1.3",
            peer="192.0.2.1:4",
            node="cn:app",
            received_at=RECEIVED_AT,
            message_id="01" * 16,
            content_type=JSON,
            body=b'{"a":1}',
            auth=Auth.TLS,
            key_id="00000001",
        )

    def test_a_request_is_named_by_its_uid_and_says_when_progress_is_not_wanted(self) -> None:
        plain, progressive = event_of(REQUEST), event_of(PROGRESSIVE_REQUEST)
        assert (plain.kind, plain.subject, plain.message_id, plain.correlation) == (Kind.REQUEST, "sum", "02" * 16, "")
        assert (plain.headers, progressive.headers) == ({"progressive": "false"}, {})

    def test_a_cancel_is_correlated_by_its_request_uid_and_says_when_it_kills(self) -> None:
        graceful, kill = event_of(CANCEL), event_of(KILL)
        assert (graceful.kind, graceful.subject, graceful.correlation) == (Kind.CANCEL, "sum", "02" * 16)
        assert (graceful.headers, kill.headers) == ({}, {"kill": "true"})

    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("done", Kind.RESPONSE),
            ("error", Kind.ERROR),
            ("progress", Kind.PROGRESS),
            ("cancelled", Kind.CANCELLED),
        ],
    )
    def test_a_response_is_one_of_four_kinds(self, name: str, kind: Kind) -> None:
        data, said = FRAMES[name]
        assert isinstance(said, Response)
        made = event_of(data, REQUESTER)
        assert (made.kind, made.correlation, made.body) == (kind, said.request_uid.hex(), said.body)

    def test_an_answer_is_about_what_was_asked_whatever_its_uri_says(self) -> None:
        for uri in ("", "other"):
            assert event_of(encode(Response(uid(9), uri, uid(2))), REQUESTER).subject == "orders.sum"
        assert event_of(DONE, replace(REQUESTER, subject="")).subject == "sum"
        assert event_of(DONE).subject == "sum"

    def test_a_cancel_is_about_what_was_asked_whatever_its_uri_says(self) -> None:
        assert event_of(encode(Cancel(uid(8), "other", uid(2))), REQUESTER).subject == "orders.sum"

    def test_the_body_is_of_the_format_that_was_agreed(self) -> None:
        packed = encode(UserEvent(uid(1), "foo", b"\x01"))
        assert event_of(packed, format_="msgpack").content_type == MSGPACK

    def test_no_body_is_no_value_and_has_no_type(self) -> None:
        made = event_of(encode(UserEvent(uid(1), "foo")))
        assert (made.body, made.content_type) == (b"", "")

    @pytest.mark.parametrize("name", ["handshake json", "ping", "pong", "close", "close-redirect"])
    def test_a_system_frame_is_no_message(self, name: str) -> None:
        assert reason_of(event_of, FRAMES[name][0]) is Reason.UNKNOWN_TYPE

    def test_a_repeat_is_known_by_node_and_uid(self) -> None:
        first = event_of(EVENT)
        assert PROTOCOL.dedup_key(first, OPTIONS) == f"yamp\0cn:app\0{'01' * 16}"
        assert PROTOCOL.dedup_key(replace(first, id="1-9-0", session="other"), OPTIONS) == f"yamp\0cn:app\0{'01' * 16}"


class TestFromEvent:
    def test_an_event_keeps_its_subject_and_body(self) -> None:
        said = decode(written(event(body=b'{"a":1}', content_type=JSON), target()).frame)
        assert isinstance(said, UserEvent)
        assert (said.uri, said.body) == ("sum", b'{"a":1}')

    @pytest.mark.parametrize(
        ("kind", "outcome"),
        [
            (Kind.RESPONSE, ResponseType.DONE),
            (Kind.ERROR, ResponseType.ERROR),
            (Kind.PROGRESS, ResponseType.PROGRESS),
            (Kind.CANCELLED, ResponseType.CANCELLED),
        ],
    )
    def test_an_answer_names_the_request_by_the_requesters_own_uid(self, kind: Kind, outcome: ResponseType) -> None:
        encoded = written(event(kind, body=b"6", content_type=JSON), target(request="02" * 16))
        said = decode(encoded.frame)
        assert isinstance(said, Response)
        assert (said.uri, said.request_uid, said.outcome, said.body) == ("sum", uid(2), outcome, b"6")
        assert (encoded.stamps, encoded.losses) == ((), ())

    def test_progress_is_lost_on_who_did_not_ask_for_it(self) -> None:
        encoded = written(event(Kind.PROGRESS), target(request="02" * 16, progressive=False))
        assert (encoded.frame, encoded.losses) == (b"", ("progress",))

    @pytest.mark.parametrize(
        ("headers", "progressive", "wanted"),
        [({}, True, True), ({"progressive": "false"}, True, False), ({}, False, False)],
    )
    def test_a_request_asks_for_progress_unless_the_requester_does_not_want_it(
        self, headers: dict[str, str], progressive: bool, wanted: bool
    ) -> None:
        said = decode(written(event(Kind.REQUEST, headers=headers), target(progressive=progressive)).frame)
        assert isinstance(said, Request)
        assert said.progressive is wanted

    @pytest.mark.parametrize("kill", [True, False])
    @pytest.mark.parametrize("subject", ["sum", "größe"])
    def test_a_cancel_leaves_room_for_the_uid_that_only_the_session_knows(self, subject: str, kill: bool) -> None:
        headers = {"kill": "true"} if kill else {}
        encoded = written(event(Kind.CANCEL, subject=subject, headers=headers), target())
        (at,) = encoded.stamps
        said = decode(encoded.frame[:at] + uid(7) + encoded.frame[at + 16 :])
        assert isinstance(said, Cancel)
        assert (said.uri, said.request_uid, said.kill) == (subject, uid(7), kill)

    def test_the_uid_is_the_same_for_a_repeat_and_fresh_for_all_else(self) -> None:
        def made(**fields: Any) -> bytes:
            return decode_uid(written(event(**fields), target(request="02" * 16)))

        others = [made(id="0-8-0"), made(received_at=RECEIVED_AT + 1), made(kind=Kind.REQUEST)]
        assert made() == made(node="someone else")
        assert len({made(), *others}) == 4

    @pytest.mark.parametrize(
        ("body", "content_type", "as_json", "as_msgpack"),
        [
            (b'{"a":1}', JSON, b'{"a":1}', b"\x81\xa1a\x01"),
            (b"\x81\xa1a\x01", MSGPACK, b'{"a":1}', b"\x81\xa1a\x01"),
            (b"hi", TEXT, b'"hi"', b"\xa2hi"),
            (b"hi", BINARY, b'{"$base64":"aGk="}', b"\xc4\x02hi"),
            (b"", "", b"null", b"\xc0"),
        ],
    )
    def test_a_body_is_converted_by_value(
        self, body: bytes, content_type: str, as_json: bytes, as_msgpack: bytes
    ) -> None:
        for format_, expected in (("json", as_json), ("msgpack", as_msgpack)):
            said = decode(written(event(body=body, content_type=content_type), target(format_)).frame)
            assert isinstance(said, UserEvent)
            assert said.body == expected

    @pytest.mark.parametrize(
        ("body", "content_type"),
        [(b"{", JSON), (b"\xcb\x7f\xf0" + bytes(6), MSGPACK), (b"\xff", TEXT), (b"\x81\x01\x01", MSGPACK)],
    )
    def test_a_body_that_has_no_form_is_untranslatable(self, body: bytes, content_type: str) -> None:
        assert reason_of(written, event(body=body, content_type=content_type), target()) is Reason.UNTRANSLATABLE

    def test_a_subject_that_does_not_fit_a_uri_is_too_large(self) -> None:
        assert decode_uid(written(event(subject="a" * 255), target()))
        assert reason_of(written, event(subject="a" * 256), target()) is Reason.TOO_LARGE

    def test_an_error_of_the_mesh_is_in_the_format_of_the_session(self) -> None:
        body = b'{"code":"no_responder","message":"nobody serves sum"}'
        error = event(Kind.ERROR, body=body, content_type=JSON, headers={"mesh-error": "no_responder"})
        packed = decode(written(error, target("msgpack", request="02" * 16)).frame)
        assert isinstance(packed, Response)
        assert packed.body == b"\x82\xa4code\xacno_responder\xa7message\xb1nobody serves sum"


def decode_uid(encoded: Encoded) -> bytes:
    said = decode(encoded.frame)
    assert isinstance(said, UserEvent | Request | Response | Cancel)
    return said.uid


@given(
    st.sampled_from([REQUEST, PROGRESSIVE_REQUEST, EVENT, KILL, CANCEL, DONE]),
    subjects(),
    st.sampled_from(["json", "msgpack"]),
)
@settings(max_examples=100, deadline=None)
def test_what_yamp_says_arrives_unchanged_at_a_yamp_peer(data: bytes, uri: str, format_: str) -> None:
    sent = decode(data)
    assert isinstance(sent, UserEvent | Request | Cancel | Response)
    sent = replace(sent, uri=uri)
    there = event_of(encode(sent), format_="json")
    encoded = written(there, target(format_, request="02" * 16))
    again = event_of(encoded.frame, format_=format_)
    assert (again.kind, again.subject, again.headers) == (there.kind, there.subject, there.headers)
    if format_ == "json":
        assert again.body == there.body


def test_a_broken_frame_is_refused() -> None:
    assert reason_of(event_of, EVENT[:-1]) is Reason.TRUNCATED


def test_the_protocol_says_where_it_is_spoken() -> None:
    assert (PROTOCOL.name, PROTOCOL.default_port) == ("yamp", 5042)
    assert PROTOCOL.transports == {"tcp", "tls", "ws", "wss"}
