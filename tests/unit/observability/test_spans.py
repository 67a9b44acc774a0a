"""Spans from receipt to delivery: a real edge, the router's row functions, and a collector. Kafka alone is not real."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from gateway.auth.keyring import KeyRing
from gateway.config import Config
from gateway.core.envelope import Envelope
from gateway.core.errors import SetupError
from gateway.core.event import Event, Kind
from gateway.core.trace_context import TRACEPARENT, TraceContext, parse
from gateway.edge.producer import NotTaken
from gateway.observability.spans import SpanStep, check_spans, spans_of
from gateway.protocols.hsp.codec import encode
from gateway.protocols.hsp.frames import ENVELOPE_TYPE, Command, Frame
from gateway.records import cloud_event, event_records
from gateway.records.egress_codec import decode
from gateway.records.raw_log.control_frames import SessionOpened
from streaming_jobs.replay.changes import differing
from streaming_jobs.reprocess.frame_verdict import event_print
from streaming_jobs.routing.frame_router import FrameRouter
from streaming_jobs.routing.mesh_state import MeshState
from streaming_jobs.routing.output_records import OutputRecord
from streaming_jobs.routing.record_outputs import RoutedRecord
from streaming_jobs.routing.traces import RouterTraces
from tests.collector import Collector, Span, collecting
from tests.unit.edge.running import Peer, RunningEdge, configured, listener, running, until

HIGH = encode(Frame(Command.DATA, type=17, payload=b"81"))
BROKEN = encode(Frame(Command.DATA, type=0xFFFF, payload=b"\xff"))
NEVER = 1e-18
"""A share so small that no frame is in it."""
PARENT = TraceContext(0xABC, 0xDEF)


class Router:
    """The row functions over what an edge logs, and back to it."""

    def __init__(self, edge: RunningEdge) -> None:
        self._edge, self._producer = edge, edge.kafka.producer_
        self.state = MeshState(edge.config, KeyRing({}), None)
        self.state.traces = RouterTraces.of(edge.config)
        self._functions = FrameRouter(self.state)
        self._read = 0
        self.outs: list[OutputRecord] = []

    def route(self) -> None:
        """Whatever has been logged, by the edge and by the router itself."""
        while self._read < len(self._producer.written):
            record = self._producer.written[self._read]
            self._read += 1
            if record.topic == "test.raw":
                partition = record.settings["partition"]
                self._take(self._functions.route_record(record.value, partition, record.offset, 1))

    def _take(self, routed: RoutedRecord) -> None:
        for out in routed.outs:
            self.outs.append(out)
            if out.topic == "test.raw":
                self._producer.send(out.topic, out.value or b"", _nothing, partition=out.partition)
            elif out.topic == "test.egress":
                self._edge.kafka.reader_.put(decode(out.value or b""))

    def events(self) -> list[Event]:
        outs = [out for out in self.outs if out.topic == "test.events"]
        found = (event for out in outs for event in event_records.read(out.headers, out.value or b""))
        return [event for event in found if not event.subject.startswith("mesh.")]


@dataclass
class Mesh:
    edge: RunningEdge
    router: Router
    collector: Collector

    async def spans(self, count: int) -> list[Span]:
        """So many at least, as they began: each part tells its own when it comes to it."""
        await until(lambda: len(self.collector.spans) >= count)
        return sorted(self.collector.spans, key=lambda span: span.start)


@asynccontextmanager
async def traced(share: float, *listeners: dict[str, Any]) -> AsyncIterator[Mesh]:
    with collecting() as collector:
        telemetry = {"traces": {"endpoint": collector.endpoint, "share": share}}
        async with running(configured(*listeners, telemetry=telemetry)) as edge:
            yield Mesh(edge, Router(edge), collector)


def _nothing(_error: NotTaken | None, _offset: int, _seconds: float) -> None:
    pass


def plc(**settings: Any) -> dict[str, Any]:
    return listener("plc", "hsp", types={17: "temp.high"}, deliver="plain", **settings)


def frames(edge: RunningEdge) -> int:
    return len(edge.kafka.frames())


async def two(mesh: Mesh) -> list[Peer]:
    """Peers whose subscriptions the router knows: an edge keeps for a moment what it logs."""
    peers = await mesh.edge.opens("plc", 2)
    await until(lambda: sum(isinstance(one, SessionOpened) for one in mesh.edge.kafka.mesh()) == len(peers))
    mesh.router.route()
    return peers


async def test_one_event_is_one_trace_from_its_receipt_to_each_of_its_deliveries() -> None:
    async with traced(1, plc(subscribe=["temp.>"])) as mesh:
        [speaker, hearer] = await two(mesh)
        speaker.sends(HIGH)
        await until(lambda: frames(mesh.edge) == 1)
        mesh.router.route()
        assert await hearer.reads(len(HIGH)) == HIGH
        spans = await mesh.spans(4)
        receive, route = (
            next(span for span in spans if span.name == step) for step in (SpanStep.RECEIVE, SpanStep.ROUTE)
        )
        deliveries = [span for span in spans if span.name == SpanStep.DELIVER]
        assert len(spans) == 4
        assert {span.trace for span in spans} == {receive.trace}
        assert (receive.parent, route.parent) == ("", receive.id)
        assert [one.parent for one in deliveries] == [route.id] * 2
        assert len({span.id for span in spans}) == 4
        assert [receive.service, route.service] == ["meshgate-edge", "meshgate-router"]
        [event] = mesh.router.events()
        assert {span.said["meshgate.event_id"] for span in spans} == {event.id}
        assert {span.said["meshgate.subject"] for span in (route, *deliveries)} == {"temp.high"}
        assert {one.said["meshgate.outcome"] for one in deliveries} == {"written"}
        assert receive.start == event.received_at * 1_000
        assert all(span.start <= span.end for span in spans)
        assert event.headers == {TRACEPARENT: f"00-{route.trace}-{route.id}-01"}


async def test_a_frame_that_is_refused_is_traced_to_its_end() -> None:
    async with traced(1, plc()) as mesh:
        [speaker] = await mesh.edge.opens("plc")
        speaker.sends(BROKEN)
        await until(lambda: frames(mesh.edge) == 1)
        mesh.router.route()
        spans = {span.name: span for span in await mesh.spans(2)}
        assert spans["route"].parent == spans["receive"].id
        assert spans["route"].failed == "truncated"


def enveloped(traceparent: str) -> bytes:
    """An event as a peer sends it that names its content type."""
    head = Envelope(Kind.EVENT, 0, "temp.high", f"text/plain; traceparent={traceparent}")
    return encode(Frame(Command.DATA, type=ENVELOPE_TYPE, payload=head.encode() + b"81"))


async def test_an_event_that_brings_a_context_goes_on_in_its_trace_whatever_the_share() -> None:
    async with traced(NEVER, plc(subscribe=["temp.>"])) as mesh:
        [speaker, hearer] = await two(mesh)
        speaker.sends(enveloped(str(PARENT)))
        await until(lambda: frames(mesh.edge) == 1)
        mesh.router.route()
        assert await hearer.reads(len(HIGH)) == HIGH
        spans = await mesh.spans(3)
        assert [span.name for span in spans] == [SpanStep.ROUTE, SpanStep.DELIVER, SpanStep.DELIVER]
        assert {span.trace for span in spans} == {f"{PARENT.trace_id:032x}"}
        assert [span.parent for span in spans] == [f"{PARENT.span_id:016x}", spans[0].id, spans[0].id]
        [event] = mesh.router.events()
        assert parse(event.headers[TRACEPARENT]) == PARENT.step(SpanStep.ROUTE)


async def test_one_that_says_it_is_not_traced_is_not_and_says_so_further_on() -> None:
    untraced = str(replace(PARENT, sampled=False))
    async with traced(1, plc(subscribe=["temp.>"])) as mesh:
        [speaker, hearer] = await two(mesh)
        speaker.sends(enveloped(untraced))
        await until(lambda: frames(mesh.edge) == 1)
        mesh.router.route()
        assert await hearer.reads(len(HIGH)) == HIGH
        [event] = mesh.router.events()
        assert event.headers == {TRACEPARENT: untraced}
        assert [span.name for span in await mesh.spans(1)] == [SpanStep.RECEIVE]  # an edge reads no frames


async def test_whether_an_event_was_traced_is_no_difference_to_a_replay_or_an_audit() -> None:
    async with traced(1, plc()) as mesh:
        [speaker] = await mesh.edge.opens("plc")
        speaker.sends(HIGH)
        await until(lambda: frames(mesh.edge) == 1)
        mesh.router.route()
        [event] = mesh.router.events()
        untraced = replace(event, headers={})
        assert differing(event, untraced) == ()
        prints = {event_print(cloud_event.attributes(one, "test"), b"v") for one in (event, untraced)}
        assert len(prints) == 1


def test_a_collector_that_is_away_costs_nobody_anything(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))  # and does not listen
        endpoint = f"http://127.0.0.1:{unheard.getsockname()[1]}/v1/traces"
        spans = spans_of(configured(telemetry={"traces": {"endpoint": endpoint}}), "edge", "edge-0")
        assert spans is not None
        spans.add(SpanStep.RECEIVE, PARENT, None, 1, 2, {})
        spans.stop()


def test_nothing_of_it_is_imported_where_nothing_is_traced() -> None:
    said = (
        "import sys, gateway.cli.up, gateway.edge.server;"
        "import streaming_jobs.router_job.job, streaming_jobs.router_job.worker;"
        "from gateway.config import Config; from gateway.observability.spans import check_spans, spans_of;"
        "check_spans(Config(mesh='demo')); assert spans_of(Config(mesh='demo'), 'edge', 'edge-0') is None;"
        "heavy = ('opentelemetry', 'gateway.observability.otlp', 'google');"
        "print(*(name for name in sys.modules if name.startswith(heavy)))"
    )
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("", 0), done.stderr


@pytest.mark.parametrize("begin", [lambda config: spans_of(config, "edge", "edge-0"), check_spans])
def test_what_is_configured_and_not_installed_is_told_at_the_start(
    begin: Callable[[Config], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gateway.observability.otlp", None)
    config = configured(telemetry={"traces": {"endpoint": "http://127.0.0.1:4318/v1/traces"}})
    with pytest.raises(SetupError, match=r"\.\[otel\]"):
        begin(config)
