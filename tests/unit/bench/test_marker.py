"""A frame is known again by its marker, whatever stands around it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.bench.arrivals import Arrivals
from gateway.bench.marker import MIN_BODY_BYTES, PROBE, Marker, probe_of, probed_session

MARKER = Marker("c0de")


@given(st.integers(0, (1 << 40) - 1), st.integers(MIN_BODY_BYTES, 600))
@settings(max_examples=200, deadline=None)
def test_a_body_is_json_of_the_size_that_was_asked_for_and_names_its_frame(index: int, size: int) -> None:
    body = MARKER.body(index, size)
    assert len(body) == size
    assert isinstance(json.loads(body), dict)
    assert list(MARKER.indices(body)) == [index]


def test_it_is_found_in_a_body_that_another_protocol_has_escaped() -> None:
    assert list(MARKER.indices(json.dumps(MARKER.body(99, 60).decode()).encode())) == [99]


def test_many_frames_in_one_piece_are_found_in_their_order() -> None:
    assert list(MARKER.indices(b"".join(MARKER.body(index, 50) + b"\0\1" for index in (3, 1, 2)))) == [3, 1, 2]


def test_the_frames_of_another_run_are_none_of_ours() -> None:
    assert list(MARKER.indices(Marker("beef").body(1, 60))) == []


@given(st.integers(0, 60_000), st.integers(0, 1_000), st.integers(1, 60_000))
@settings(max_examples=200, deadline=None)
def test_a_probe_names_its_session_and_is_no_frame(session: int, attempt: int, sessions: int) -> None:
    session %= sessions
    index = probe_of(session, attempt, sessions)
    assert index >= PROBE
    assert probed_session(index, sessions) == session
    assert list(MARKER.indices(MARKER.body(index, 60))) == [index]


class TestArrivals:
    @pytest.fixture
    def arrivals(self) -> Arrivals:
        return Arrivals(MARKER, sessions=4)

    def test_frames_are_noted_in_the_order_they_came(self, arrivals: Arrivals) -> None:
        for index in (2, 0, 2):
            arrivals.take(MARKER.body(index, 60))
        assert memoryview(arrivals.noted().indices).cast("q").tolist() == [2, 0, 2]

    def test_their_times_never_go_back(self, arrivals: Arrivals) -> None:
        for index in range(50):
            arrivals.take(MARKER.body(index, 60))
        times = memoryview(arrivals.noted().times).cast("q").tolist()
        assert times == sorted(times)
        assert arrivals.last == times[-1]

    def test_probes_are_remembered_by_session_and_counted_nowhere(self, arrivals: Arrivals) -> None:
        arrivals.take(MARKER.body(probe_of(3, 9, 4), 60))
        assert (arrivals.probed, len(arrivals), arrivals.last) == ({3}, 0, 0)

    def test_what_is_no_frame_of_the_run_is_passed_over(self, arrivals: Arrivals) -> None:
        arrivals.take(b'{"lease_seconds":90}')
        assert len(arrivals) == 0
