"""Records of the topics, and the formats that stand in frames: every reader, with what our writers make as seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gateway.core import content, envelope, subjects, trace_context
from gateway.core.event import Kind
from gateway.core.ids import FramePosition
from gateway.core.reasons import Rejected
from gateway.core.wire import decode_utf8
from gateway.edge.carriers import proxy
from gateway.interests import changes
from gateway.interests.changes import EndSession, Put, Renew
from gateway.interests.interest import Interest, Verb
from gateway.records import deliveries, egress_codec, event_records
from gateway.records.deliveries import DeliveryOutcome
from gateway.records.egress import Confirm, Deliver, EdgeRestarted, Group, InterestApplied, Position, SourceRefused
from gateway.records.event_records import EventWriter
from gateway.records.raw_log import control_frames
from gateway.records.raw_log.container import ContainerBuilder, decode_record
from gateway.records.raw_log.control_frames import EdgeStarted, InterestChanged, SessionOpened
from gateway.records.raw_log.frames import FrameSource, RawFrame, Replayed, ReplyAddress
from tests.events import full_event
from tests.fuzz.target import Target

SOURCE = FrameSource("yamp", "apps", "edge-0", 7, 3, "192.0.2.1:40000", "n", facts={"format": "json"})
AT = FramePosition(0, 1, 2)
REPLY = ReplyAddress("yamp", "apps", "edge-1", 1, 7, "r1", "orders.create")
EVENT = full_event(kind=Kind.EVENT, session="", body=b'{"celsius": 31}', headers={"a": "b"})
TYPES = ("application/json", "application/msgpack", "text/plain", "application/octet-stream")
NESTED = b'{"":' * 5_000
"""Deeper than a parser that calls itself can go."""


def record_targets() -> Iterator[Target]:
    missing = (Rejected, KeyError, ValueError)
    yield Target("raw-record", _raw_record, _raw_seeds)
    yield Target("mesh-frame", lambda data: _ignore(control_frames.decode(data)), _mesh_frame_seeds)
    yield Target("interest-change", lambda data: _ignore(changes.from_bytes(data)), _change_seeds, (ValueError,))
    yield Target("egress", _egress, _egress_seeds)
    yield Target("deliveries", _deliveries, _deliveries_seeds)
    yield Target("events", _events, _event_seeds, missing)
    yield Target("envelope", lambda data: _ignore(envelope.decode(data)), _envelope_seeds)
    yield Target("content", _content, lambda: [bytes([number]) + body for number, body in enumerate(BODIES)])
    yield Target("subject", _subject, lambda: [b"a.b.c", b"a/*/>", b"mesh.session.opened", b"a" * 255])
    yield Target("trace-context", _trace, lambda: [b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"])
    yield Target("proxy", _proxy, _proxy_seeds)


def _ignore(_: object) -> None:
    """Only the way there matters."""


def _raw_record(data: bytes) -> None:
    record = decode_record(data)
    for raw in record.frames:
        assert isinstance(raw.data, bytes)
        assert isinstance(raw.source.node, str)


def _raw_seeds() -> Sequence[bytes]:
    one, again = ContainerBuilder("edge-0", 7), ContainerBuilder("edge-0", 7)
    one.add(SOURCE, 5, b"frame")
    one.add_run(SOURCE, 6, b"abcd", (1, 3), (REPLY.pack(),))
    again.add_again(RawFrame(b"frame", SOURCE, 5, (REPLY,)), Replayed("0-1-2", 9, frozenset({"n"})))
    return [one.build(), again.build()]


def _mesh_frame_seeds() -> Sequence[bytes]:
    opened = SessionOpened("yamp", subscribe=("a.>",), serve=("b",))
    frames = (opened, EdgeStarted(), InterestChanged("{}", "edge-0", "t"))
    return [*(control_frames.encode(frame) for frame in frames), NESTED]


def _change_seeds() -> Sequence[bytes]:
    interest = Interest(
        subscriber="s", verb=Verb.SUBSCRIBE, pattern="a.>", edge="edge-0", epoch=1, protocol="emm", listener="d",
        position=AT,
    )  # fmt: skip
    made = (Put(interest), EndSession("s", AT), Renew("s", 9, AT, 18))
    return [*(changes.to_bytes(change) for change in made), NESTED]


def _egress(data: bytes) -> None:
    for entry in egress_codec.decode(data):
        _ignore(entry.position)


def _egress_seeds() -> Sequence[bytes]:
    position = Position(0, 1, 2)
    group = Group("yamp", b"frame", (3,), (7,), (("devices", "192.0.2.7:4"),), request="r", owed=("n",))
    delivery = Deliver(position, 7, Kind.EVENT, "a.b", "emm", 5, (group,), confirm=Confirm("edge-0", "0-1-2"))
    plain = Deliver(position, 7, Kind.EVENT, "a.b", "emm", 5, (Group("yamp", b"frame", (), (7,)),))
    entries = (
        delivery,
        plain,
        InterestApplied(position, "t", 1),
        EdgeRestarted(position, "edge-1", 9),
        SourceRefused(position, "l", "p"),
    )
    return [egress_codec.encode(entry) for entry in entries]


def _deliveries(data: bytes) -> None:
    for outcome in deliveries.decode(data):
        _ignore(outcome.event_id)


def _deliveries_seeds() -> Sequence[bytes]:
    rows = [DeliveryOutcome("0-1-2", f"edge-0.1.{number}", "confirmed", "", 5) for number in range(3)]
    return [deliveries.encode("edge-0", rows), deliveries.encode("edge-0", rows[:1])]


def _events(data: bytes) -> None:
    """The first byte says in which of the three forms the record is."""
    form, value = data[:1], data[1:]
    if form == b"\0":
        _ignore(event_records.read([("content-type", event_records.BATCH.encode())], value))
    elif form == b"\1":
        _ignore(event_records.read([("content-type", event_records.STRUCTURED.encode())], value))
    else:
        lines = [line.partition(b"=") for line in value.split(b"\n")]
        _ignore(event_records.read([(name.decode(errors="replace"), given) for name, _, given in lines], b"body"))


def _event_seeds() -> Sequence[bytes]:
    batch, binary = EventWriter("m", 1 << 20, batches=True), EventWriter("m", 1 << 20, batches=False)
    (_, value, _), = batch.records([batch.row(EVENT)], 0)  # fmt: skip
    (_, _, headers), = binary.records([binary.row(EVENT)], 0)  # fmt: skip
    lines = b"\n".join(name.encode() + b"=" + given for name, given in headers)
    return [b"\0" + value, b"\1" + value[1:-1], b"\2" + lines, b"\2ce_meshheaders=" + NESTED]


def _envelope_seeds() -> Sequence[bytes]:
    made = envelope.Envelope(Kind.REQUEST, 9, "orders.create", "application/json")
    return [made.encode() + b"{}", envelope.Envelope(Kind.EVENT, 0, "a", "").encode()]


BODIES = (b'{"a": [1, 2.5, null, "\\u00e9"]}', b"\x82\xa1a\x93\x01\x02\xc0\xa1b\xc4\x02ab", "é".encode(), b"\0\1")


def _content(data: bytes) -> None:
    """What can be read can be said in every other type, or is refused."""
    given = TYPES[data[0] % len(TYPES)] if data else TYPES[0]
    content.check(data[1:], given)
    for wanted in TYPES:
        try:
            content.convert(data[1:], given, wanted)
        except Rejected:
            continue


def _subject(data: bytes) -> None:
    text = decode_utf8(data)
    try:
        subjects.check_subject(text)
    except Rejected:
        subjects.check_pattern(text)
    assert len(data) <= 255
    assert len(subjects.tokens(text)) <= 32


def _trace(data: bytes) -> None:
    found = trace_context.parse(data.decode(errors="replace"))
    assert found is None or trace_context.parse(str(found)) == found


def _proxy(data: bytes) -> None:
    head = data[: proxy.HEAD_BYTES]
    length = proxy.rest_length(head)
    assert length <= proxy.MAX_REST_BYTES
    _ignore(proxy.source(head, data[proxy.HEAD_BYTES : proxy.HEAD_BYTES + length]))


def _proxy_seeds() -> Sequence[bytes]:
    four = bytes.fromhex("21110000") + bytes.fromhex("c0000201 c0000202 9c40 13b0")
    six = bytes.fromhex("21210024") + bytes(32) + bytes.fromhex("9c40 13b0")
    return [proxy.SIGNATURE + four[:2] + b"\0\x0c" + four[4:], proxy.SIGNATURE + six]
