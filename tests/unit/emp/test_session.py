"""What an emp session does with what its peer sends, and with what the router gives it."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from gateway.envelope import Envelope
from gateway.event import Kind
from gateway.protocols.emp.codec import decode, decode_error, encode, encode_error, encode_hello, split
from gateway.protocols.emp.extensions import (
    compression_block,
    deflate,
    envelope_block,
    request_block,
    understand,
)
from gateway.protocols.emp.frames import Block, ErrorCode, Failure, Message, MessageType, RequestMark, Scheme
from gateway.protocols.emp.options import EmpOptions
from gateway.protocols.emp.session import MAX_NAMES, EmpSession
from gateway.protocols.session import (
    Action,
    Delivered,
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
from tests.unit.contract.conversation import Conversation, asked_by, delivery, only, settings

HELLO = encode_hello()
BYE, PING, PONG = (encode(Message(type_)) for type_ in (MessageType.BYE, MessageType.PING, MessageType.PONG))
GZIP = compression_block(Scheme.GZIP)


def greeting(options: dict[str, Any] | None = None, **changes: Any) -> Conversation:
    """A session before the peer's hello."""
    return Conversation(EmpSession(settings(**changes), EmpOptions.model_validate(options or {})))


def emp(options: dict[str, Any] | None = None, **changes: Any) -> Conversation:
    """A session after it."""
    talk = greeting(options, **changes)
    talk.receives(HELLO)
    assert talk.sends() == HELLO
    return talk


def data(body: bytes = b"x", *blocks: Block, type_: int = MessageType.DATA) -> bytes:
    return encode(Message(type_, body, blocks))


def request(request_id: int = 1, body: bytes = b"x", *more: Block) -> bytes:
    return data(body, request_block(RequestMark(request_id, asks=True)), *more)


def response(request_id: int = 1, body: bytes = b"x", *more: Block) -> bytes:
    return data(body, request_block(RequestMark(request_id, asks=False)), *more)


def envelope(kind: Kind, correlation: int = 0, subject: str = "orders.create") -> Block:
    return envelope_block(Envelope(kind, correlation, subject, "text/plain"))


def messages(stream: bytes) -> list[Message]:
    found, pos = [], 0
    while pos < len(stream):
        size = split(stream, pos, 1_048_576)
        found.append(decode(stream[pos : pos + size]))
        pos += size
    return found


def failure(talk: Conversation) -> Failure:
    """The error message that is all the session has said."""
    (said,) = messages(talk.sends())
    assert said.type == MessageType.ERROR
    return decode_error(said.body)


def received(actions: list[Action]) -> list[FramesReceived]:
    return [action for action in actions if isinstance(action, FramesReceived)]


def answered(frame: bytes, kind: Kind = Kind.RESPONSE, request_id: str = "1") -> Any:
    return delivery(frame, kind, request=request_id)


class TestHandshake:
    def test_both_say_hello_at_once_and_the_session_opens_with_the_peers(self) -> None:
        talk = greeting()
        assert talk.sends() == HELLO
        assert talk.acts() == []
        assert talk.receives(HELLO) == [Opened()]
        assert talk.sends() == b""

    @pytest.mark.parametrize("version", [2, 255])
    def test_a_higher_version_means_that_both_speak_ours(self, version: int) -> None:
        assert greeting().receives(encode_hello(version)) == [Opened()]

    def test_version_0_is_closed_without_a_word(self) -> None:
        talk = greeting()
        talk.sends()
        assert talk.receives(encode_hello(0) + data()) == [Terminated(Reason.UNSUPPORTED_VERSION, "version 0")]
        assert talk.sends() == b""

    @pytest.mark.parametrize("first", [PING, PONG, data(), data(type_=128), request()])
    def test_anything_else_first_is_an_error_of_the_protocol(self, first: bytes) -> None:
        talk = greeting()
        talk.sends()
        talk.receives(first + HELLO)
        assert failure(talk).code == 3
        assert talk.ended == Reason.MALFORMED

    @pytest.mark.parametrize("block", ["00000008 07000000", "00000007 01000000", "0000000c 01000000 02000000"])
    def test_so_is_one_whose_blocks_are_bad_too(self, block: str) -> None:
        talk = greeting()
        talk.sends()
        content = bytes.fromhex(block)
        talk.receives((8 + len(content)).to_bytes(4, "big") + bytes.fromhex("05800000") + content)
        assert failure(talk) == Failure(3, "data does not belong here")

    @pytest.mark.parametrize(
        ("first", "reason"), [(BYE, "bye"), (encode_error(Failure(0, "no")), "peer_error")], ids=["bye", "error"]
    )
    def test_a_peer_that_will_not_ends_it(self, first: bytes, reason: str) -> None:
        talk = greeting()
        talk.sends()
        talk.receives(first)
        assert (talk.ended, talk.sends()) == (reason, b"")

    @pytest.mark.parametrize("body", [b"", b"\x01\x00\x00", b"\x01\x00\x00\x00\x00"])
    def test_a_hello_of_another_size_is_an_error_of_the_protocol(self, body: bytes) -> None:
        talk = greeting()
        talk.sends()
        talk.receives(encode(Message(MessageType.HELLO, body)))
        assert failure(talk).code == 3

    def test_no_hello_in_time_is_a_timeout(self) -> None:
        talk = greeting(handshake_seconds=5)
        talk.sends()
        talk.waits(4.9)
        assert talk.ended is None
        talk.waits(0.1)
        assert failure(talk).code == 2
        assert talk.ended == Reason.TIMEOUT

    def test_data_may_follow_hello_in_one_read(self) -> None:
        actions = greeting().receives(HELLO + data())
        assert [type(action) for action in actions] == [Opened, FramesReceived]

    def test_nothing_is_delivered_before_it(self) -> None:
        talk = greeting()
        talk.sends()
        assert only(Delivered, talk.delivers(delivery(data()))).outcome is Outcome.UNDELIVERABLE
        assert talk.sends() == b""


class TestWhatIsLogged:
    def test_data_and_the_applications_types_of_one_read_are_logged_together(self) -> None:
        stream = data(b"") + data(type_=128) + data(type_=255) + request(7)
        run = only(FramesReceived, emp().receives(stream))
        assert (run.data, run.lengths, run.tag) == (stream, (8, 9, 9, 29), None)

    def test_what_is_not_logged_is_cut_out_of_the_run(self) -> None:
        talk = emp()
        run = only(FramesReceived, talk.receives(PING + data() + PING + PONG + data(b"yz") + PING))
        assert (run.data, run.lengths) == (data() + data(b"yz"), (9, 10))
        assert talk.sends() == PONG * 3

    def test_a_message_that_is_not_whole_waits_for_its_rest(self) -> None:
        talk = emp()
        assert only(FramesReceived, talk.receives(data() + data()[:-1])).lengths == (9,)
        assert only(FramesReceived, talk.receives(b"x")).data == data()

    def test_it_is_logged_as_it_came_with_its_unused_bits(self) -> None:
        talk = emp()
        talk.delivers(delivery(request(), Kind.REQUEST, stamps=(20,), reply=asked_by()))
        untidy = bytes.fromhex("0000001e 05ffffff 00000014 007fffff 7fffffff 0000000000000001 6f6b")
        assert only(FramesReceived, talk.receives(untidy)).data == untidy

    def test_what_came_before_a_broken_message_is_logged_before_the_session_ends(self) -> None:
        actions = emp().receives(data() + bytes.fromhex("00000007") + data())
        assert [type(action) for action in actions] == [FramesReceived, Terminated]

    def test_what_comes_after_bye_is_not_looked_at(self) -> None:
        talk = emp()
        actions = talk.receives(data() + BYE + data() + b"\x00\x00\x00\x00")
        assert [type(action) for action in actions] == [FramesReceived, Terminated]
        assert talk.ended == "bye"
        assert talk.sends() == b""


class TestFacts:
    def test_what_the_peer_uses_first_is_told_once(self) -> None:
        talk = emp()
        assert only(Opened, talk.receives(data(b"x", envelope(Kind.EVENT)) * 2)).facts == {"envelope": True}
        both = data(deflate(b"x"), envelope(Kind.EVENT), GZIP)
        assert only(Opened, talk.receives(both)).facts == {"envelope": True, "compression": True}
        assert [type(action) for action in talk.receives(both + data())] == [FramesReceived]

    def test_the_envelope_is_a_fact_from_the_start_where_the_listener_says_so(self) -> None:
        assert greeting({"envelope": "always"}).receives(HELLO) == [Opened({"envelope": True})]

    def test_identity_is_no_compression(self) -> None:
        actions = emp().receives(data(b"x", compression_block(Scheme.IDENTITY)))
        assert [type(action) for action in actions] == [FramesReceived]


class TestRequestsOfThePeer:
    def test_a_request_is_logged_and_answered_with_what_the_router_wrote(self) -> None:
        talk = emp()
        talk.receives(request(1))
        actions = talk.delivers(answered(response(1, b"ok")))
        assert only(RequestEnded, actions).outcome == "response"
        assert only(Delivered, actions).outcome is Outcome.WRITTEN
        assert talk.sends() == response(1, b"ok")

    def test_no_answer_in_time_is_a_response_with_the_error_and_a_later_one_is_dropped_and_counted(self) -> None:
        talk = emp(request_timeout_seconds=5)
        talk.receives(request(9))
        assert only(RequestEnded, talk.waits(5)).outcome == "timeout"
        assert talk.sends() == response(9, b'{"code":"timeout","message":"no answer in time"}')
        actions = talk.delivers(answered(response(9), request_id="9"))
        assert only(Delivered, actions).outcome is Outcome.EXPIRED
        assert talk.sends() == b""

    def test_a_peer_that_speaks_the_envelope_is_told_the_error_in_it(self) -> None:
        talk = emp(request_timeout_seconds=5)
        talk.receives(request(9, b"x", envelope(Kind.REQUEST, 9)))
        talk.waits(5)
        (said,) = messages(talk.sends())
        content = understand(said, 1000)
        assert (content.kind, content.request_id, json.loads(content.body)["code"]) == (Kind.ERROR, 9, "timeout")
        assert content.envelope == Envelope(Kind.ERROR, 9, "orders.create", "application/json")

    def test_progress_moves_the_deadline(self) -> None:
        talk = emp(request_timeout_seconds=5)
        talk.receives(request(9, b"x", envelope(Kind.REQUEST, 9)))
        talk.waits(4)
        progress = data(b"half", envelope(Kind.PROGRESS, 9))
        talk.delivers(answered(progress, Kind.PROGRESS, "9"))
        talk.waits(4)
        assert talk.sends() == progress

    def test_a_request_id_used_twice_at_once_is_an_error_of_the_protocol(self) -> None:
        talk = emp()
        talk.receives(request(9) + request(9))
        assert failure(talk).code == 3
        assert talk.ended == Reason.MALFORMED

    def test_one_open_request_too_many_is_answered_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(EmpSession, "max_open_requests", 2)
        talk = emp()
        actions = talk.receives(request(1) + request(2) + request(3))
        assert only(FramesReceived, actions).lengths == (29, 29)
        assert only(FrameRefused, actions).reason is Reason.OVERLOAD
        assert talk.sends() == response(3, b'{"code":"internal","message":"too many open requests"}')

    def test_a_cancel_is_logged(self) -> None:
        talk = emp()
        talk.receives(request(9, b"x", envelope(Kind.REQUEST, 9)))
        cancel = data(b"", envelope(Kind.CANCEL, 9))
        assert only(FramesReceived, talk.receives(cancel)).data == cancel


class TestRequestsToThePeer:
    def ask(self, talk: Conversation, name: str = "r1", *, enveloped: bool = False) -> None:
        frame = request(1, b"in", envelope(Kind.REQUEST, 1)) if enveloped else request(1, b"in")
        stamps = (20, 40) if enveloped else (20,)
        talk.delivers(delivery(frame, Kind.REQUEST, stamps=stamps, reply=asked_by(name)))

    def test_ids_count_up_from_1(self) -> None:
        talk = emp()
        for _ in range(3):
            self.ask(talk)
        assert talk.sends() == request(1, b"in") + request(2, b"in") + request(3, b"in")

    def test_an_enveloped_request_has_its_correlation_stamped_too(self) -> None:
        talk = emp()
        self.ask(talk)
        talk.sends()
        self.ask(talk, enveloped=True)
        assert talk.sends() == request(2, b"in", envelope(Kind.REQUEST, 2))

    def test_the_response_goes_back_to_who_asked(self) -> None:
        talk = emp()
        self.ask(talk, "r1")
        self.ask(talk, "r2")
        actions = talk.receives(data() + response(2) + data() + response(1))
        assert [run.data for run in received(actions)] == [data(), response(2), data(), response(1)]
        assert [run.replies for run in received(actions)] == [(), (asked_by("r2"),), (), (asked_by("r1"),)]

    def test_progress_does_not_end_a_request(self) -> None:
        talk = emp()
        self.ask(talk)
        for answer in (data(b"1", envelope(Kind.PROGRESS, 1)), response(1, b"2", envelope(Kind.ERROR, 1))):
            assert only(FramesReceived, talk.receives(answer)).replies == (asked_by(),)

    @pytest.mark.parametrize("request_id", [1, 2, 1 << 63])
    def test_a_response_to_no_open_request_is_an_error_of_the_protocol(self, request_id: int) -> None:
        talk = emp()
        self.ask(talk)
        talk.receives(response(1))
        talk.sends()
        talk.receives(response(request_id))
        assert failure(talk).code == 3
        assert talk.ended == Reason.MALFORMED

    def test_progress_of_no_open_request_is_dropped_and_counted(self) -> None:
        talk = emp()
        actions = talk.receives(data(b"1", envelope(Kind.PROGRESS, 1)))
        assert only(FrameRefused, actions).reason is Reason.TIMEOUT
        assert received(actions) == []
        assert talk.ended is None

    def test_beyond_so_many_the_oldest_is_given_up_and_its_late_response_dropped(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(EmpSession, "max_open_requests", 1)
        talk = emp()
        self.ask(talk, "r1")
        self.ask(talk, "r2")
        assert only(RequestsAbandoned, talk.said) == RequestsAbandoned((asked_by("r1"),), MeshError.TIMEOUT)
        assert only(FrameRefused, talk.receives(response(1))).reason is Reason.TIMEOUT
        assert only(FramesReceived, talk.receives(response(2))).replies == (asked_by("r2"),)
        talk.receives(response(1))
        assert talk.ended == Reason.MALFORMED

    def test_a_cancel_goes_to_a_peer_that_has_the_request_and_to_no_other(self) -> None:
        talk = emp()
        self.ask(talk, "r1", enveloped=True)
        self.ask(talk, "r2", enveloped=True)
        talk.sends()
        cancel = data(b"", envelope(Kind.CANCEL, 1))
        for name, said in (("r3", b""), ("r2", data(b"", envelope(Kind.CANCEL, 2)))):
            actions = talk.delivers(delivery(cancel, Kind.CANCEL, stamps=(20,), reply=asked_by(name)))
            assert only(Delivered, actions).outcome is Outcome.WRITTEN
            assert talk.sends() == said

    def test_requests_that_are_open_at_the_end_are_abandoned(self) -> None:
        talk = emp()
        self.ask(talk, "r1")
        self.ask(talk, "r2")
        actions = talk.receives(BYE)
        assert only(RequestsAbandoned, actions).replies == (asked_by("r1"), asked_by("r2"))
        assert actions[-1] == Terminated("bye")


class TestDeliveries:
    def test_an_event_is_written_for_emp_confirms_nothing(self) -> None:
        talk = emp()
        assert only(Delivered, talk.delivers(delivery(data()))).outcome is Outcome.WRITTEN
        assert talk.sends() == data()

    def test_after_the_end_it_is_undeliverable(self) -> None:
        talk = emp()
        talk.receives(BYE)
        assert only(Delivered, talk.delivers(delivery(data()))).outcome is Outcome.UNDELIVERABLE


class TestKeepalive:
    def test_a_silent_peer_is_pinged_once_and_ends_with_a_timeout(self) -> None:
        talk = emp({"ping_seconds": 30, "pong_timeout_seconds": 10})
        talk.waits(29)
        assert talk.sends() == b""
        talk.waits(1)
        assert talk.sends() == PING
        talk.receives(data())
        talk.waits(9)
        assert talk.sends() == b""
        talk.waits(1)
        assert failure(talk).code == 2
        assert talk.ended == Reason.TIMEOUT

    def test_a_pong_sets_it_back_and_one_too_many_is_ignored(self) -> None:
        talk = emp({"ping_seconds": 30, "pong_timeout_seconds": 10})
        talk.waits(30)
        assert talk.sends() == PING
        talk.receives(PONG + PONG)
        talk.waits(29)
        assert (talk.sends(), talk.ended) == (b"", None)
        talk.waits(1)
        assert talk.sends() == PING

    def test_bodies_of_ping_pong_and_bye_are_ignored(self) -> None:
        talk = emp()
        talk.receives(encode(Message(MessageType.PING, b"x")) + encode(Message(MessageType.PONG, b"x")))
        assert talk.sends() == PONG
        talk.receives(encode(Message(MessageType.BYE, b"x")))
        assert talk.ended == "bye"


MALFORMED = {
    "size 7": ("00000007", 3, Reason.MALFORMED),
    "size 0": ("00000000", 3, Reason.MALFORMED),
    "type 6": ("00000008 06000000", 3, Reason.UNKNOWN_TYPE),
    "type 127": ("00000008 7f000000", 3, Reason.UNKNOWN_TYPE),
    "a second hello": ("0000000c 00000000 01000000", 3, Reason.MALFORMED),
    "an error that is cut": ("0000000b 04000000 030000", 3, Reason.TRUNCATED),
    "an error whose text is cut": ("00000010 04000000 03000000 0004 7465", 3, Reason.TRUNCATED),
    "an error with more than its text": ("00000010 04000000 03000000 0001 7465", 3, Reason.MALFORMED),
    "an error that is not UTF-8": ("0000000f 04000000 03000000 0001 ff", 3, Reason.BAD_ENCODING),
    "E without a block": ("00000008 05800000", 3, Reason.MALFORMED),
    "request id 0": ("0000001c 05800000 00000014 00000000 80000000 0000000000000000", 3, Reason.MALFORMED),
}


@pytest.mark.parametrize(("hexdump", "code", "reason"), MALFORMED.values(), ids=MALFORMED)
def test_what_breaks_the_protocol_is_told_and_ends_the_session(hexdump: str, code: int, reason: Reason) -> None:
    talk = emp()
    talk.receives(bytes.fromhex(hexdump))
    said = failure(talk)
    assert (said.code, said.extension, said.extension_code) == (code, 0, 0)
    assert talk.ended == reason


MARK = "00000014 00{}0000 80000000 0000000000000001"
BAD_EXTENSIONS = {
    "block of size 7": ("00000010 05800000 00000007 00000000", 0, 2, Reason.MALFORMED),
    "block past the end": ("00000010 05800000 00000009 01000000", 1, 2, Reason.MALFORMED),
    "M on the last block": ("0000001c 05800000" + MARK.format("80"), 0, 2, Reason.MALFORMED),
    "extension 2": ("00000010 05800000 00000008 02000000", 2, 1, Reason.UNKNOWN_TYPE),
    "extension 255": ("00000010 80800000 00000008 ff000000", 255, 1, Reason.UNKNOWN_TYPE),
    "scheme 2": ("00000014 05800000 0000000c 01000000 02000000", 1, 1, Reason.UNKNOWN_TYPE),
    "no gzip": ("00000016 05800000 0000000c 01000000 01000000 6869", 1, 3, Reason.MALFORMED),
    "a block on ping": ("0000001c 02800000" + MARK.format("00"), 0, 2, Reason.MALFORMED),
    "a broken envelope": (
        "00000020 05800000 00000018 80000000 02000000 0000000000000000 00000000",
        128,
        2,
        Reason.UNSUPPORTED_VERSION,
    ),
}


@pytest.mark.parametrize(("hexdump", "extension", "code", "reason"), BAD_EXTENSIONS.values(), ids=BAD_EXTENSIONS)
def test_a_bad_block_is_told_with_its_extension_and_ends_the_session(
    hexdump: str, extension: int, code: int, reason: Reason
) -> None:
    talk = emp()
    talk.receives(bytes.fromhex(hexdump))
    said = failure(talk)
    assert (said.code, said.extension, said.extension_code) == (4, extension, code)
    assert talk.ended == reason


def test_a_bomb_is_told_and_ends_the_session() -> None:
    talk = emp({"uncompressed_bytes": 1000})
    assert received(talk.receives(data(deflate(bytes(1000)), GZIP))) != []
    talk.receives(data(deflate(bytes(1001)), GZIP))
    assert failure(talk).extension == 1
    assert talk.ended == Reason.BOMB


MISMATCHES = {
    "kind request without its block": data(b"", envelope(Kind.REQUEST, 1)),
    "kind response without its block": data(b"", envelope(Kind.RESPONSE, 1)),
    "kind event with a request's block": request(1, b"", envelope(Kind.EVENT)),
    "kind progress with a response's block": response(1, b"", envelope(Kind.PROGRESS, 1)),
    "kind request with a response's block": response(1, b"", envelope(Kind.REQUEST, 1)),
    "another correlation": request(1, b"", envelope(Kind.REQUEST, 2)),
    "two envelopes": data(b"", envelope(Kind.EVENT), envelope(Kind.EVENT)),
    "more than a head": data(b"", Block(128, Envelope(Kind.EVENT, 0, "a").encode() + b"x")),
}


@pytest.mark.parametrize("message", MISMATCHES.values(), ids=MISMATCHES)
def test_an_envelope_that_contradicts_its_message_is_a_bad_block(message: bytes) -> None:
    talk = emp()
    talk.receives(message)
    assert (failure(talk).extension, talk.ended) == (128, Reason.MALFORMED)


@pytest.mark.parametrize("size", [1025, 0xFFFFFFFF])
def test_a_size_over_the_limit_is_told_as_soon_as_it_is_read(size: int) -> None:
    talk = emp(frame_bytes=1024)
    talk.receives(size.to_bytes(4, "big"))
    assert failure(talk).code == 3
    assert talk.ended == Reason.TOO_LARGE


def test_a_message_at_the_limit_is_taken() -> None:
    assert only(FramesReceived, emp(frame_bytes=1024).receives(data(bytes(1016)))).lengths == (1024,)


def test_an_error_of_the_peer_ends_the_session_and_a_part_of_its_words_is_kept() -> None:
    talk = emp()
    (end,) = talk.receives(encode_error(Failure(1, "x" * 60_000)))
    assert isinstance(end, Terminated)
    assert end.reason == "peer_error"
    assert len(end.detail) < 300
    assert talk.sends() == b""


@pytest.mark.parametrize("why", [Farewell.DRAIN, Farewell.KICKED])
def test_a_normal_end_says_bye(why: Farewell) -> None:
    talk = emp()
    talk.session.drain(talk.now, None, why)
    assert (talk.sends(), talk.ended) == (BYE, why)


@pytest.mark.parametrize(
    ("why", "code", "text"),
    [
        (Farewell.IDLE, ErrorCode.TIMEOUT, "nothing has come for too long"),
        (Farewell.OVERLOAD, ErrorCode.UNSPECIFIED, "there are too many connections"),
    ],
)
def test_an_end_that_is_no_normal_one_says_why_in_an_error(why: Farewell, code: ErrorCode, text: str) -> None:
    talk = emp()
    talk.session.drain(talk.now, None, why)
    assert failure(talk) == Failure(code, text)
    assert talk.ended == why


def test_a_stream_that_ends_inside_a_message_is_truncated() -> None:
    talk = emp()
    talk.receives(data()[:-1])
    talk.session.receive_eof(talk.now)
    assert talk.ended == Reason.TRUNCATED


class TestNamesKnownBySight:
    """An envelope that was understood once is taken by sight from then on; nothing else may pass for it."""

    NAMED = data(b"x", envelope(Kind.EVENT))

    def test_they_are_logged_like_the_first(self) -> None:
        talk = emp()
        run = only(FramesReceived, talk.receives(self.NAMED * 3 + data(b"", envelope(Kind.EVENT), type_=200)))
        assert run.lengths == (len(self.NAMED),) * 3 + (len(self.NAMED) - 1,)

    def test_on_a_message_without_data_the_same_block_is_still_an_error(self) -> None:
        talk = emp()
        talk.receives(self.NAMED + data(b"x", envelope(Kind.EVENT), type_=MessageType.PING))
        assert failure(talk).extension == 128

    def test_with_another_block_behind_it_the_message_is_looked_at(self) -> None:
        talk = emp()
        talk.receives(self.NAMED)
        talk.receives(data(b"no gzip", envelope(Kind.EVENT), GZIP))
        assert failure(talk).extension == 1

    def test_what_was_said_beside_it_is_not_known_with_it(self) -> None:
        talk = emp()
        talk.receives(data(b"x", envelope(Kind.EVENT), compression_block(Scheme.IDENTITY)))
        talk.receives(data(b"no gzip", envelope(Kind.EVENT), GZIP))
        assert failure(talk).extension == 1

    @pytest.mark.parametrize("size", [15, 16, 20, 24, 40])
    def test_a_message_cut_short_under_a_known_name_is_broken(self, size: int) -> None:
        talk = emp()
        talk.receives(self.NAMED)
        talk.receives(size.to_bytes(4, "big") + self.NAMED[4:size])
        assert talk.ended == Reason.MALFORMED

    def test_requests_and_cancels_are_never_known_by_sight(self) -> None:
        talk = emp()
        talk.receives(request(1, b"x", envelope(Kind.REQUEST, 1)) + data(b"", envelope(Kind.CANCEL, 1)) + self.NAMED)
        assert len(cast(EmpSession, talk.session)._names) == 1
        talk.receives(request(1, b"x", envelope(Kind.REQUEST, 1)))
        assert talk.ended == Reason.MALFORMED

    def test_only_so_many_and_only_short_ones_are_remembered(self) -> None:
        talk = emp()
        for number in range(MAX_NAMES + 10):
            talk.receives(data(b"x", envelope(Kind.EVENT, subject=f"temp.{number}")))
        assert len(cast(EmpSession, talk.session)._names) <= MAX_NAMES
        long_name = data(b"x", envelope(Kind.EVENT, subject="x" * 600))
        assert only(FramesReceived, talk.receives(long_name * 2)).lengths == (len(long_name),) * 2
        assert max(map(len, cast(EmpSession, talk.session)._names)) < 600
        talk.receives(bytes.fromhex("00000008 05800000"))
        assert talk.ended == Reason.MALFORMED
