"""The first line of the equation: an edge's own counts beside what stands in the raw log."""

from __future__ import annotations

import pytest

from streaming_jobs.audit.edges import Counters, edge_count, read

EXPOSITION = """\
# TYPE meshgate_received_frames_total counter
meshgate_received_frames_total{edge="edge-0",listener="devices",mesh="m",protocol="emm"} 10.0
meshgate_received_frames_total{edge="edge-0",listener="apps",mesh="m",protocol="yamp"} 5.0
# TYPE meshgate_rejected_frames_total counter
meshgate_rejected_frames_total{edge="edge-0",listener="apps",mesh="m",protocol="yamp",reason="malformed"} 1.0
meshgate_rejected_frames_total{edge="edge-0",listener="devices",mesh="m",protocol="emm",reason="overload"} 2.0
# TYPE meshgate_udp_kernel_dropped_total counter
meshgate_udp_kernel_dropped_total{edge="edge-0",listener="devices",mesh="m",protocol="emm"} 3.0
# TYPE meshgate_in_flight_bytes gauge
meshgate_in_flight_bytes{edge="edge-0",mesh="m"} 0.0
"""


def test_an_edge_s_counters_are_summed_over_its_listeners() -> None:
    found = read(EXPOSITION)
    assert (found.edge, found.received, found.kernel_dropped) == ("edge-0", 15, 3)
    assert found.refused == {"malformed": 1, "overload": 2}
    assert found.taken == 12


@pytest.mark.parametrize(("logged", "balanced"), [(9, False), (10, True), (11, True), (12, True), (13, False)])
def test_the_log_lies_between_what_was_counted_before_the_cut_and_after_it(logged: int, balanced: bool) -> None:
    assert edge_count(Counters("edge-0", 10), Counters("edge-0", 12), logged).balanced is balanced


def test_what_was_in_flight_may_have_been_logged_after_the_cut() -> None:
    before = Counters("edge-0", 10, in_flight_bytes=500)
    assert edge_count(before, Counters("edge-0", 12), 7).balanced
