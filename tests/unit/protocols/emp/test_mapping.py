"""emp messages as events, events as emp messages, and what is lost on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from gateway.auth.keyring import KeyRing
from gateway.core.content import JSON
from gateway.core.envelope import Envelope
from gateway.core.event import Event, Kind
from gateway.core.reasons import Reason
from gateway.core.wire import U64
from gateway.protocols.emp import PROTOCOL
from gateway.protocols.emp.codec import encode
from gateway.protocols.emp.extensions import (
    compression_block,
    deflate,
    envelope_block,
    inflate,
    request_block,
)
from gateway.protocols.emp.frames import BadExtension, Block, Message, MessageType, RequestMark, Scheme
from gateway.protocols.emp.options import EmpOptions
from gateway.protocols.spec import CodecContext, Encoded, Target
from gateway.records.raw_log.frames import NO_FACTS, Fact, Facts, Reply, RequestName
from tests.refusals import reason_of
from tests.unit.protocols.contract.conversation import asked_by, raw

ENV = CodecContext(KeyRing())
ASKS = request_block(RequestMark(7, asks=True))
ANSWERS = request_block(RequestMark(7, asks=False))
ENVELOPE: Facts = {"envelope": True}
GZIP = compression_block(Scheme.GZIP)


def read(message: Message, keys: Mapping[str, Any] | None = None, *replies: Reply) -> Event:
    options = EmpOptions.model_validate(keys or {})
    return PROTOCOL.to_event(raw(encode(message), "emp", *replies), "0-7-1", options, ENV)


def data(body: bytes, *blocks: Block, type_: int = MessageType.DATA) -> Message:
    return Message(type_, body, blocks)


def envelope(kind: Kind, correlation: int = 0, subject: str = "orders.create") -> Block:
    return envelope_block(Envelope(kind, correlation, subject, JSON))


def said(kind: Kind, subject: str = "orders.create", body: bytes = b"{}") -> Event:
    return Event("0-7-1", kind, subject, "yamp", "apps", "edge-1", "edge-1.1.7", "", "n", 0, "m1", "", JSON, body)


def write(
    event: Event, keys: Mapping[str, Any] | None = None, request: str = "", *, facts: Mapping[str, Fact] = NO_FACTS
) -> Encoded:
    return PROTOCOL.from_event(event, Target("emp", "plc", facts, request), EmpOptions.model_validate(keys or {}), ENV)


class TestFromThePeer:
    @pytest.mark.parametrize(
        ("type_", "subject"), [(5, "orders.create"), (128, "temp.high"), (129, "emp.type.129"), (255, "emp.type.255")]
    )
    def test_data_is_an_event_named_by_its_type(self, type_: int, subject: str) -> None:
        event = read(data(b"21", type_=type_), {"subjects": {"data": "orders.create", 128: "temp.high"}})
        assert (event.kind, event.subject, event.body) == (Kind.EVENT, subject, b"21")
        assert (event.id, event.message_id, event.correlation) == ("0-7-1", "", "")

    def test_the_defaults_name_the_protocol(self) -> None:
        event = read(data(b"21"))
        assert (event.subject, event.content_type) == ("emp.data", "application/octet-stream")

    def test_the_event_says_where_it_came_from(self) -> None:
        event = read(data(b"21"), {"content_type": "text/plain"})
        assert (event.protocol, event.listener, event.edge, event.session) == ("emp", "plc", "edge-0", "edge-0.1.3")
        assert (event.peer, event.node, event.received_at) == ("192.0.2.1:40000", "node-3", 1_700_000_000_000_000)
        assert event.content_type == "text/plain"

    def test_the_envelope_names_an_event(self) -> None:
        event = read(data(b"{}", envelope(Kind.EVENT), type_=200))
        assert (event.kind, event.subject, event.content_type, event.body) == (Kind.EVENT, "orders.create", JSON, b"{}")

    @pytest.mark.parametrize("blocks", [(ASKS,), (ASKS, envelope(Kind.REQUEST, 7, "emp.data"))])
    def test_a_request_is_known_by_its_id(self, blocks: tuple[Block, ...]) -> None:
        event = read(data(b"in", *blocks))
        assert (event.kind, event.subject, event.message_id, event.correlation) == (Kind.REQUEST, "emp.data", "7", "")

    def test_a_cancel_names_the_request_that_it_cancels(self) -> None:
        event = read(data(b"", envelope(Kind.CANCEL, 7)))
        assert (event.kind, event.subject, event.correlation) == (Kind.CANCEL, "orders.create", "7")

    def test_a_cancel_has_the_subject_of_its_request_and_no_body(self) -> None:
        frame = data(b"forged", envelope(Kind.CANCEL, 7, "mesh.session.closed"))
        event = read(frame, None, RequestName("7", "orders.create", "emp"))
        assert (event.subject, event.body, event.content_type) == ("orders.create", b"", "")

    @pytest.mark.parametrize(
        ("kind", "blocks"),
        [
            (Kind.RESPONSE, (ANSWERS,)),
            (Kind.RESPONSE, (ANSWERS, envelope(Kind.RESPONSE, 7, ""))),
            (Kind.ERROR, (ANSWERS, envelope(Kind.ERROR, 7, ""))),
            (Kind.CANCELLED, (ANSWERS, envelope(Kind.CANCELLED, 7, "other"))),
            (Kind.PROGRESS, (envelope(Kind.PROGRESS, 7, ""),)),
        ],
    )
    def test_an_answer_has_the_subject_of_the_request(self, kind: Kind, blocks: tuple[Block, ...]) -> None:
        event = read(data(b"out", *blocks), None, asked_by(subject="sum"))
        assert (event.kind, event.subject, event.body, event.correlation) == (kind, "sum", b"out", "7")

    def test_an_answer_to_nothing_is_refused(self) -> None:
        assert reason_of(read, data(b"out", ANSWERS)) is Reason.MALFORMED

    def test_compression_is_undone(self) -> None:
        assert read(data(deflate(b"hi"), GZIP)).body == b"hi"

    def test_a_bomb_is_refused(self) -> None:
        with pytest.raises(BadExtension) as caught:
            read(data(deflate(bytes(1001)), GZIP), {"uncompressed_bytes": 1000})
        assert caught.value.reason is Reason.BOMB

    @pytest.mark.parametrize("type_", [0, 1, 2, 3, 4])
    def test_the_protocols_own_messages_are_no_events(self, type_: int) -> None:
        assert reason_of(read, Message(type_)) is Reason.UNKNOWN_TYPE


class TestTowardsThePeer:
    @pytest.mark.parametrize(
        ("subject", "type_", "losses"),
        [
            ("orders.create", 128, ()),
            ("orders/create", 128, ()),
            ("emp.data", 5, ()),
            ("emp.type.200", 200, ()),
            ("emp.type.5", 5, ("subject",)),
            ("temp.high", 5, ("subject",)),
        ],
    )
    def test_an_event_is_sent_under_the_type_of_its_subject(
        self, subject: str, type_: int, losses: tuple[str, ...]
    ) -> None:
        encoded = write(said(Kind.EVENT, subject), {"subjects": {128: "orders.create"}})
        assert encoded == Encoded(encode(data(b"{}", type_=type_)), (), losses)

    def test_the_envelope_carries_every_subject(self) -> None:
        wanted = Encoded(encode(data(b"{}", envelope(Kind.EVENT, 0, "temp.high"))))
        assert write(said(Kind.EVENT, "temp.high"), facts=ENVELOPE) == wanted
        assert write(said(Kind.EVENT, "temp.high"), {"envelope": "always"}) == wanted
        assert write(said(Kind.EVENT, "temp.high"), {"envelope": "never"}, facts=ENVELOPE) != wanted

    def test_a_request_has_its_id_stamped_wherever_it_stands(self) -> None:
        bare = write(said(Kind.REQUEST))
        named = write(said(Kind.REQUEST), {"compress_over_bytes": 0}, facts={"envelope": True, "compression": True})
        assert (len(bare.stamps), len(named.stamps)) == (1, 2)
        for encoded in (bare, named):
            assert [U64.unpack_from(encoded.frame, at)[0] for at in encoded.stamps] == [1] * len(encoded.stamps)
            assert read_back(encoded.frame).kind is Kind.REQUEST

    def test_a_request_may_lose_its_subject_too(self) -> None:
        assert write(said(Kind.REQUEST)).losses == ("subject",)

    def test_a_cancel_needs_the_envelope(self) -> None:
        assert write(said(Kind.CANCEL)) == Encoded(b"", losses=("cancel",))
        assert write(said(Kind.CANCEL), facts=ENVELOPE) == Encoded(
            encode(data(b"{}", envelope(Kind.CANCEL, 1))), (8 + 8 + 4,)
        )

    def test_a_response_has_the_requesters_own_id(self) -> None:
        assert write(said(Kind.RESPONSE), None, "7") == Encoded(encode(data(b"{}", ANSWERS)))

    @pytest.mark.parametrize("kind", [Kind.ERROR, Kind.CANCELLED])
    def test_a_bare_response_cannot_say_that_it_is_none(self, kind: Kind) -> None:
        assert write(said(kind), None, "7") == Encoded(encode(data(b"{}", ANSWERS)), losses=(str(kind),))

    @pytest.mark.parametrize("kind", [Kind.RESPONSE, Kind.ERROR, Kind.CANCELLED])
    def test_in_the_envelope_a_final_answer_is_a_response_too(self, kind: Kind) -> None:
        assert write(said(kind), None, "7", facts=ENVELOPE) == Encoded(encode(data(b"{}", ANSWERS, envelope(kind, 7))))

    def test_progress_needs_the_envelope_and_is_no_response(self) -> None:
        assert write(said(Kind.PROGRESS), None, "7") == Encoded(b"", losses=("progress",))
        assert write(said(Kind.PROGRESS), None, "7", facts=ENVELOPE) == Encoded(
            encode(data(b"{}", envelope(Kind.PROGRESS, 7)))
        )

    @pytest.mark.parametrize(
        ("keys", "facts", "size", "compressed"),
        [
            ({}, {}, 5000, False),
            ({}, {"compression": True}, 4097, True),
            ({}, {"compression": True}, 4096, False),
            ({"compress": "always"}, {}, 4097, True),
            ({"compress": "always", "compress_over_bytes": 10}, {}, 11, True),
            ({"compress": "never"}, {"compression": True}, 5000, False),
        ],
    )
    def test_a_long_body_is_compressed_where_the_peer_can_read_it(
        self, keys: dict[str, Any], facts: dict[str, Fact], size: int, compressed: bool
    ) -> None:
        frame = write(said(Kind.EVENT, "emp.data", b"x" * size), keys, facts=facts).frame
        if compressed:
            assert frame[:16] == len(frame).to_bytes(4, "big") + bytes.fromhex("05800000 0000000c 01000000")
            assert inflate(frame[20:], size) == b"x" * size
        else:
            assert frame == encode(data(b"x" * size))


def read_back(frame: bytes) -> Event:
    return PROTOCOL.to_event(raw(frame, "emp"), "0-7-1", EmpOptions(), ENV)


class TestDedupKey:
    def test_a_request_is_known_by_its_session_and_id(self) -> None:
        assert PROTOCOL.dedup_key(read(data(b"in", ASKS)), EmpOptions()) == "emp\0edge-0.1.3\0" + "7"

    @pytest.mark.parametrize("block", [envelope(Kind.EVENT), envelope(Kind.CANCEL, 7)])
    def test_nothing_else_has_an_identity(self, block: Block) -> None:
        assert PROTOCOL.dedup_key(read(data(b"in", block)), EmpOptions()) is None


@pytest.mark.parametrize(
    "keys",
    [
        {"subjects": {127: "a"}},
        {"subjects": {256: "a"}},
        {"subjects": {"dat": "a"}},
        {"subjects": {"data": ""}},
        {"subjects": {"data": "a.>"}},
        {"envelope": "sometimes"},
        {"compress": True},
        {"uncompressed_bytes": 0},
        {"pong_timeout_seconds": 0},
        {"subject": {}},
    ],
)
def test_what_makes_no_sense_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        EmpOptions.model_validate(keys)
