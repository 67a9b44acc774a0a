"""Tests what `tap` makes of the records of each topic."""

from __future__ import annotations

import json
from dataclasses import replace
from uuid import UUID

import pytest

from gateway.cli.console import Exit
from gateway.cli.tap import line_of
from gateway.core.content import JSON
from gateway.core.event import Auth, Event, Kind
from gateway.inspect.live.rows import SHOWN_CHARACTERS, Row, RowFilter, as_hex, as_json, as_text, rows_of
from gateway.kafka.records import TopicRecord
from gateway.records.egress import Deliver, Entry, Group, InterestApplied, Position
from gateway.records.egress_codec import EgressBuilder
from gateway.records.event_records import EventWriter
from gateway.records.raw_log import control_frames
from gateway.records.raw_log.container import ContainerBuilder
from gateway.records.raw_log.frames import FrameSource
from tests.events import bare_event
from tests.unit.cli.running import run
from tests.unit.protocols.emm.vectors import NODE

AT = 1_700_000_000_123_456
TIME = "2023-11-14T22:13:20.123456Z"
EVERYTHING = RowFilter()
EVENT = bare_event(
    id="1-2-0",
    subject="temp.high",
    protocol="hsp",
    listener="plc",
    edge="edge-0",
    session="edge-0.1.3",
    peer="192.0.2.1:4000",
    node="node-3",
    received_at=AT,
    content_type=JSON,
    body=b"81",
    auth=Auth.TLS,
)


def raw_record(*frames: tuple[FrameSource, bytes]) -> TopicRecord:
    builder = ContainerBuilder("edge-0", 1)
    for source, frame in frames:
        builder.add(source, AT, frame)
    return TopicRecord(1, 2, 0, None, builder.build())


def egress_record(*entries: Entry) -> TopicRecord:
    builder = EgressBuilder(1, 2, 1_000_000)
    for entry in entries:
        builder.add(entry)
    (record,) = builder.finish()
    return TopicRecord(0, 9, AT, None, record)


def delivery(index: int, *groups: Group) -> Deliver:
    return Deliver(Position(1, 2, index), 1, Kind.EVENT, "temp.high", "hsp", AT, groups)


def rows(at: str, record: TopicRecord, chosen: RowFilter = EVERYTHING) -> list[Row]:
    return list(rows_of(at, record, chosen))


class TestRaw:
    SESSION = FrameSource("hsp", "plc", "edge-0", 1, 3, "192.0.2.1:4000", "node-3", Auth.TLS)

    def test_each_frame_is_a_row_under_its_event_id(self) -> None:
        record = raw_record((self.SESSION, b"one"), (self.SESSION, b"two"))
        assert [(row.id, row.at, row.data) for row in rows("raw", record)] == [
            ("1-2-0", AT, b"one"),
            ("1-2-1", AT, b"two"),
        ]

    def test_what_stands_beside_a_frame_is_told(self) -> None:
        (row,) = rows("raw", raw_record((self.SESSION, b"one")))
        assert (row.protocol, row.node) == ("hsp", "node-3")
        assert row.more == {
            "listener": "plc",
            "edge": "edge-0",
            "session": "edge-0.1.3",
            "peer": "192.0.2.1:4000",
            "auth": "tls",
        }

    def test_a_datagrams_node_is_the_one_it_claims(self) -> None:
        packet = bytes(17) + b"\x14\x10" + NODE
        (row,) = rows("raw", raw_record((FrameSource("emm", "devices", "edge-0", 1), packet)))
        assert row.node == str(UUID(bytes=NODE))

    def test_the_meshs_own_frames_are_rows_too(self) -> None:
        frame = control_frames.encode(control_frames.EdgeStarted())
        (row,) = rows("raw", raw_record((FrameSource("mesh", "", "edge-0", 1), frame)))
        assert (row.protocol, json.loads(row.data)) == ("mesh", {"type": "edge"})


def event_record(*events: Event, batches: bool = False) -> TopicRecord:
    writer = EventWriter("demo", 1_000_000, batches=batches)
    (written,) = writer.records(map(writer.row, events), 0)
    return TopicRecord(0, 5, 0, *written)


class TestEvents:
    def test_each_event_of_a_batch_is_a_row_and_is_filtered_alone(self) -> None:
        others = [replace(EVENT, id=f"1-2-{index}", subject="a.b") for index in range(3)]
        batch = event_record(EVENT, *others, batches=True)
        assert [row.id for row in rows("events", batch)] == ["1-2-0", *(other.id for other in others)]
        assert [row.id for row in rows_of("events", batch, RowFilter(subject="a.*"))] == [other.id for other in others]

    def test_an_event_is_a_row(self) -> None:
        (row,) = rows("events", event_record(EVENT))
        assert (row.id, row.at, row.protocol, row.node, row.subject) == ("1-2-0", AT, "hsp", "node-3", "temp.high")
        assert (row.data, row.more["kind"], row.more["auth"]) == (b"81", "event", "tls")
        assert "urgent" not in row.more
        assert "correlation" not in row.more


class TestRejected:
    HEADERS = (
        ("reason", b"bad_hmac"),
        ("stage", b"decode"),
        ("detail", b""),
        ("event_id", b"1-2-0"),
        ("protocol", b"emm"),
        ("peer", b"192.0.2.1:4000"),
        ("node", b"node-3"),
    )

    def test_a_refused_frame_is_a_row_with_its_reason(self) -> None:
        (row,) = rows("rejected", TopicRecord(0, 5, AT, None, b"frame", self.HEADERS))
        assert row == Row(
            "1-2-0", AT, "emm", "node-3", "", "bad_hmac", b"frame", {"stage": "decode", "peer": "192.0.2.1:4000"}
        )


class TestEgress:
    def test_each_encoding_is_a_row_with_whom_it_goes_to(self) -> None:
        groups = (
            Group("yamp", b"one", sessions=(1, 2)),
            Group("emm", b"two", addresses=(("devices", "192.0.2.1:5"),), owed=("plant",)),
        )
        first, second = rows("egress", egress_record(delivery(0, *groups)))
        assert (first.protocol, first.data, first.more["sessions"]) == ("yamp", b"one", [1, 2])
        assert (second.more["addresses"], second.more["owed"]) == (["devices 192.0.2.1:5"], ["plant"])
        assert second.more["edge_partition"] == 0

    def test_what_an_edge_is_told_without_a_frame_is_a_row(self) -> None:
        (row,) = rows("egress", egress_record(InterestApplied(Position(1, 2, 0), "1-2-0", 3)))
        assert (row.protocol, row.more["applied"], row.more["raw_partition"]) == ("mesh", "1-2-0", 3)


@pytest.mark.parametrize("at", ["raw", "events", "egress"])
def test_a_record_that_cannot_be_read_is_a_row_that_says_so(at: str) -> None:
    (row,) = rows(at, TopicRecord(1, 2, AT, None, b"nonsense"))
    assert (row.id, row.data) == ("1-2", b"nonsense")
    assert row.reason in ("malformed", "truncated")


ROW = Row("1-2-0", AT, "hsp", "node-3", "temp.high", "", b'{"c":81}', {"kind": "event"})


class TestFilters:
    @pytest.mark.parametrize(
        "chosen",
        [
            EVERYTHING,
            RowFilter(protocol="hsp"),
            RowFilter(node="node-3"),
            RowFilter(subject="temp.*"),
            RowFilter("hsp", "node-3", "temp.>"),
        ],
    )
    def test_what_is_wanted_passes(self, chosen: RowFilter) -> None:
        assert chosen.passes(ROW)

    @pytest.mark.parametrize(
        "chosen",
        [
            RowFilter(protocol="emp"),
            RowFilter(node="node-4"),
            RowFilter(subject="temp"),
            RowFilter(reason="stale"),
            RowFilter("hsp", "x"),
        ],
    )
    def test_all_else_does_not(self, chosen: RowFilter) -> None:
        assert not chosen.passes(ROW)

    def test_what_has_no_subject_matches_no_pattern(self) -> None:
        assert not RowFilter(subject=">").passes(replace(ROW, subject=""))


class TestLines:
    def test_a_line_of_text(self) -> None:
        assert as_text(ROW) == f'{TIME}  1-2-0  hsp  node-3  temp.high  event  8B  {{"c":81}}'

    def test_receivers_are_named(self) -> None:
        row = replace(ROW, more={"sessions": [1, 2], "addresses": ["devices 192.0.2.1:5"]})
        assert "  → #1, #2, devices 192.0.2.1:5  " in as_text(row)

    def test_a_long_body_is_cut(self) -> None:
        exact, longer = (as_text(replace(ROW, data=b"x" * size)) for size in (SHOWN_CHARACTERS, SHOWN_CHARACTERS + 1))
        assert exact.endswith("B  " + "x" * SHOWN_CHARACTERS)
        assert longer.endswith("B  " + "x" * SHOWN_CHARACTERS + "…")

    def test_what_peers_send_cannot_steer_the_terminal(self) -> None:
        row = replace(ROW, data=b"\x1b[31m\xff")
        assert line_of(row, "text").endswith(r"6B  \x1b[31m\xff")

    def test_json_has_the_bytes_and_the_text_where_they_are_text(self) -> None:
        assert json.loads(line_of(ROW, "json")) == {
            "id": "1-2-0", "event_id": "1-2-0", "time": TIME, "protocol": "hsp", "node": "node-3",
            "subject": "temp.high", "kind": "event", "bytes": 8, "base64": "eyJjIjo4MX0=", "text": '{"c":81}',
        }  # fmt: skip
        assert "text" not in as_json(replace(ROW, data=b"\xff"))

    def test_hex_shows_every_byte_below_the_line(self) -> None:
        head, *lines = as_hex(replace(ROW, data=bytes(range(17)))).splitlines()
        assert head == f"{TIME}  1-2-0  hsp  node-3  temp.high  event  17B"
        assert lines == [
            "00000000  00 01 02 03 04 05 06 07  08 09 0a 0b 0c 0d 0e 0f  |................|",
            f"00000010  10{' ' * 48}|.|",
        ]


class TestTap:
    @pytest.mark.parametrize(
        ("arguments", "why"),
        [
            (("--at", "rejected", "--reason", "bogus"), "'bogus' is not one of 'malformed'"),
            (("--protocol", "smtp"), "'smtp' is not one of 'emm'"),
            (("--subject", "a..b"), "a..b: a pattern has no empty token"),
            (("--from", "noon"), "noon is no RFC 3339 time"),
        ],
    )
    def test_a_filter_that_means_nothing_is_a_fault_of_usage(self, arguments: tuple[str, ...], why: str) -> None:
        result = run("tap", *arguments)
        assert result.exit_code == Exit.USAGE
        assert why in result.stderr.splitlines()[0]

    @pytest.mark.parametrize(
        ("arguments", "why"),
        [
            (
                ("--reason", "stale"),
                "--reason fits nothing at events: what is there can be chosen by --message-id,",
            ),
            (("--at", "raw", "--subject", "a"), "--subject fits nothing at raw: "),
            (("--at", "raw", "--reason", "stale"), "--reason fits nothing at raw: "),
            (("--at", "egress", "--node", "node-3"), "--node fits nothing at egress: "),
            (("--at", "rejected", "--subject", "a"), "--subject fits nothing at rejected: "),
        ],
    )
    def test_a_filter_that_could_never_fit_is_told_and_taken(self, arguments: tuple[str, ...], why: str) -> None:
        result = run("tap", *arguments, "-c", "no/such.yaml")
        assert result.exit_code == Exit.CONFIG  # it got so far
        assert result.stderr.startswith(why)

    @pytest.mark.parametrize("wanted", [{"subject": ">"}, {"reason": "stale"}])
    def test_it_fits_no_row(self, wanted: dict[str, str]) -> None:
        assert rows("raw", raw_record((TestRaw.SESSION, b"one")), RowFilter(**wanted)) == []
