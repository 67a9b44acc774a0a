"""Deliveries records: outcomes one by one and in runs, written and read; what nobody wrote is refused."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.reasons import Reason, Rejected
from gateway.records.deliveries import DeliveriesRecord, DeliveryOutcome, RunOutcome, decode, encode, pack_receivers
from tests.refusals import reason_of

INDICES = st.lists(st.integers(0, 65_534), max_size=30).map(lambda numbers: np.array(numbers, "<u2").tobytes())
SINGLES = st.builds(
    DeliveryOutcome, st.just("0-1-2"), st.text(), st.sampled_from(["written", "expired"]), st.text(),
    st.integers(0, 2**62), st.integers(0, 9), st.text(),
)  # fmt: skip
RUNS = st.builds(
    RunOutcome, st.integers(0, 99), st.integers(0, 2**40), INDICES, st.text(), st.just("written"), st.text(),
    st.integers(0, 2**62), st.integers(0, 9), st.text(),
    st.lists(st.tuples(st.text(), st.text())).map(pack_receivers) | st.just(b""),
)  # fmt: skip


@given(st.text(), st.lists(SINGLES, max_size=5), st.lists(RUNS, max_size=5))
def test_what_is_written_is_read_back(edge: str, singles: list[DeliveryOutcome], runs: list[RunOutcome]) -> None:
    assert decode(encode(edge, singles, runs)) == DeliveriesRecord(edge, tuple(singles), tuple(runs))


def test_a_run_stands_for_an_outcome_of_each_of_its_frames() -> None:
    single = DeliveryOutcome("0-4-0", "edge-0.7.3", "confirmed", "", 9)
    run = RunOutcome(3, 70, np.array([1, 2, 600], "<u2").tobytes(), "emm 192.0.2.7:4000", "written", "", 8, 2, "n")
    assert list(decode(encode("edge-0", [single], [run]))) == [
        single,
        *(DeliveryOutcome(f"3-70-{index}", "emm 192.0.2.7:4000", "written", "", 8, 2, "n") for index in (1, 2, 600)),
    ]


def test_a_run_with_many_receivers_stands_for_each_of_its_frames_to_each_of_them() -> None:
    receivers = pack_receivers([("edge-0.7.3", "n"), ("edge-0.7.4", "m")])
    run = RunOutcome(3, 70, np.array([1, 2], "<u2").tobytes(), "", "written", "", 8, 2, receivers=receivers)
    assert list(decode(encode("edge-0", [], [run]))) == [
        DeliveryOutcome(f"3-70-{index}", destination, "written", "", 8, 2, node)
        for destination, node in (("edge-0.7.3", "n"), ("edge-0.7.4", "m"))
        for index in (1, 2)
    ]


def test_a_run_takes_two_bytes_a_frame() -> None:
    run = RunOutcome(3, 2**40, np.arange(1_000, dtype="<u2").tobytes(), "emm 192.0.2.7:4000", "written", "", 2**60)
    assert len(encode("edge-0", [], [run])) < 2_000 + 80


@pytest.mark.parametrize("count", range(5, 8))
def test_a_record_of_version_1_is_still_read(count: int) -> None:
    row = ["0-1-2", "edge-0.7.3", "written", "why", 9, 4, "node"][:count]
    outcome = DeliveryOutcome("0-1-2", "edge-0.7.3", "written", "why", 9, *[4, "node"][: count - 5])  # type: ignore[arg-type]
    assert decode(msgpack.packb([1, "edge-0", [row, row]])) == DeliveriesRecord("edge-0", (outcome, outcome))


def test_another_version_is_told() -> None:
    record = msgpack.packb([3, "edge-0", [], []])
    assert reason_of(decode, record) is Reason.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    "fields",
    [
        [2, "edge-0", []],
        [2, "edge-0", [], [], []],
        [2, "edge-0", [["0-1-2"]], []],
        [2, "edge-0", [], [[0, 1, b"odd", "d", "written", "", 9]]],
        [2, "edge-0", [], [[0, 1, "text", "d", "written", "", 9]]],
        [2, "edge-0", [], [[0, 1, b"", "", "written", "", 9, 0, "", b"\xc1"]]],
        [2, "edge-0", [], [[0, 1, b"", "", "written", "", 9, 0, "", b"\x93\xa1a\xa1b\xa1c"]]],
        [2, "edge-0", [], [[0, 1]]],
        [2, "edge-0", None, []],
        7,
    ],
)
def test_what_nobody_wrote_is_refused(fields: object) -> None:
    record = msgpack.packb(fields)
    assert reason_of(decode, record) is Reason.MALFORMED


@given(st.lists(SINGLES, max_size=3), st.lists(RUNS, max_size=3), st.integers(0, 2**64))
def test_a_damaged_record_is_read_or_refused(singles: list[DeliveryOutcome], runs: list[RunOutcome], seed: int) -> None:
    random, whole = Random(seed), encode("edge-0", singles, runs)
    damaged = bytearray(whole)
    for _ in range(random.randint(1, 4)):
        damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
    for data in (bytes(damaged), whole[: random.randrange(len(whole))], random.randbytes(20)):
        with suppress(Rejected):
            list(decode(data))
