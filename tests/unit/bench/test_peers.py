"""The comparison with others: its table, and that the pipelines that were written for it judge packets as we do."""

from __future__ import annotations

import time
from typing import Any

import pytest

from gateway.bench.marker import Marker
from gateway.bench.packets import PacketTemplate
from gateway.protocols.emm import codec
from gateway.protocols.emm.frames import HEADER_BYTES, Field, FieldType
from gateway.protocols.emm.signing import Signer
from tests.bench.peers.pipelines.packet import Seen, Verifier, node_of
from tests.bench.peers.table import Step, markdown

NODE, KEY_ID, SECRET = bytes(15) + b"\1", bytes(3) + b"\1", b"k" * 32
SIGNER = Signer(NODE, KEY_ID, SECRET)
VERIFIER = Verifier({(NODE + KEY_ID).hex(): SECRET.hex()}, 300)


def packet(seconds_ago: int = 0, signer: Signer = SIGNER) -> bytes:
    return PacketTemplate(signer, "bench.c0de", 200, Marker("c0de"), 7).packet(0, int(time.time()) - seconds_ago)


class TestPacket:
    def test_an_honest_one_is_known_by_node_and_message_id(self) -> None:
        assert VERIFIER.identity(packet()) == NODE + (7).to_bytes(4, "big")

    def test_its_node_is_found_without_verifying_it(self) -> None:
        assert node_of(packet()) == NODE

    @pytest.mark.parametrize("at", range(0, 200, 7))
    def test_one_changed_bit_anywhere_is_noticed(self, at: int) -> None:
        changed = bytearray(packet())
        changed[at] ^= 1
        assert VERIFIER.identity(bytes(changed)) is None

    @pytest.mark.parametrize("size", [0, HEADER_BYTES - 1, HEADER_BYTES, 100, 199])
    def test_one_that_was_cut_is_none(self, size: int) -> None:
        assert VERIFIER.identity(packet()[:size]) is None

    def test_one_from_a_stranger_is_none(self) -> None:
        assert VERIFIER.identity(packet(signer=Signer(NODE, KEY_ID, b"other" * 7))) is None

    def test_an_old_one_is_none(self) -> None:
        assert VERIFIER.identity(packet(seconds_ago=400)) is None

    def test_fields_in_another_order_than_they_are_signed_in_are_put_into_it(self) -> None:
        """What is signed is sorted, whatever stood where."""
        fields = (Field(FieldType.STRING, b"name"), Field(FieldType.BINARY, b"1"), Field(FieldType.INTEGER, b"1234"))
        honest = codec.encode(codec.Draft(bytes(4), int(time.time()), fields), SIGNER)
        parts = list(codec.decode(honest).fields)
        parts[0], parts[2] = parts[2], parts[0]
        assert VERIFIER.identity(honest[:HEADER_BYTES] + codec.encode_fields(parts)) == NODE + bytes(4)


def test_what_was_seen_is_no_first_time() -> None:
    seen = Seen(300)
    assert [seen.is_first(identity) for identity in (b"a", b"b", b"a", b"a")] == [True, True, False, False]


def step(name: str, rate: float, lost: int = 0, median: float | None = 5.0) -> Step:
    document: dict[str, Any] = {
        "per_second": {"offered": rate},
        "frames": {"lost": lost, "expected": 8_000},
        "latency_ms": {"p50": median, "p99": 123.4},
        "cpu": {"us_per_frame": {"broker": 6.25, "total": 41.7}},
    }
    return Step(name, rate, document)


class TestTable:
    def test_it_is_by_rate_and_then_by_contender(self) -> None:
        steps = [step("ours", 1_000), step("ours", 5_000), step("theirs", 1_000, lost=16), step("theirs", 5_000)]
        assert markdown(steps).splitlines()[2:] == [
            "| 1,000 | ours | 1,000 | 0 | 5.0 | 123 | 42 | 6.2 |",
            "| 1,000 | theirs | 1,000 | 0.2 % | 5.0 | 123 | 42 | 6.2 |",
            "| 5,000 | ours | 5,000 | 0 | 5.0 | 123 | 42 | 6.2 |",
            "| 5,000 | theirs | 5,000 | 0 | 5.0 | 123 | 42 | 6.2 |",
        ]

    def test_a_step_that_came_to_nothing_has_a_row_all_the_same(self) -> None:
        row = markdown([Step("theirs", 5_000, failure="it ended")]).splitlines()[-1]
        assert row == "| 5,000 | theirs | – | – | – | – | – | – |"

    @pytest.mark.parametrize(
        ("of", "kept_up"),
        [
            (step("ours", 1.0), True), (step("ours", 1.0, lost=8), True), (step("ours", 1.0, lost=9), False),
            (step("ours", 1.0, median=1_000.0), False), (step("ours", 1.0, median=None), False),
            (Step("ours", 1.0), False),
        ],
    )  # fmt: skip
    def test_who_loses_or_lags_does_not_keep_up(self, of: Step, kept_up: bool) -> None:
        assert of.kept_up is kept_up
