"""After known traffic the counters say exactly that; and they say it while the data path is stuck."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.client import Answer, IncomingRequest, connect
from gateway.core.event import Kind
from tests.integration.emm_peer import Device
from tests.integration.mesh import TestMesh, wait_until
from tests.integration.processes import stopped

SECONDS = 30.0
STUCK_ANSWER_SECONDS = 5.0
"""An exporter that waits for what is stuck would take as long as that is."""
REST_SECONDS = 1.0
"""Long enough for a frame on its way to be counted by the next part."""
JSON = "application/json"
GARBAGE = b"\x09 no packet at all, whoever sent it"


class Count(NamedTuple):
    """Samples to be summed: of a part, by name, with these labels."""

    part: str
    name: str
    labels: Mapping[str, str]


def edge(name: str, listener: str, **labels: str) -> Count:
    return Count("edge", f"meshgate_{name}", {"listener": listener, **labels})


def router(stage: str, outcome: str, protocol: str, **labels: str) -> Count:
    labels |= {"stage": stage, "outcome": outcome, "protocol": protocol}
    return Count("router", "meshgate_frames_total", labels)


def read(mesh: TestMesh, counts: Mapping[str, Count]) -> dict[str, float]:
    said = {part: _samples(mesh, part) for part in ("edge", "router")}
    return {
        title: sum(
            value for name, labels, value in said[one.part] if name == one.name and one.labels.items() <= labels.items()
        )
        for title, one in counts.items()
    }


def _samples(mesh: TestMesh, part: str) -> list[tuple[str, dict[str, str], float]]:
    url = f"http://127.0.0.1:{mesh.ports[part]}/metrics"
    with urllib.request.urlopen(url, timeout=STUCK_ANSWER_SECONDS) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return [(sample.name, sample.labels, sample.value) for family in families for sample in family.samples]


def at_rest(mesh: TestMesh, counts: Mapping[str, Count]) -> dict[str, float]:
    """Returns what they say once nothing that other tests have sent is under way any more."""
    deadline = time.monotonic() + SECONDS
    before: dict[str, float] = {}
    now = read(mesh, counts)
    while now != before and time.monotonic() < deadline:
        time.sleep(REST_SECONDS)
        before, now = now, read(mesh, counts)
    return now


@contextmanager
def counting(mesh: TestMesh, counts: Mapping[str, Count], expected: Mapping[str, float]) -> Iterator[None]:
    """What happens while this is entered counts for exactly as much as is expected."""
    before = at_rest(mesh, counts)
    yield
    grown: dict[str, float] = {}

    def are_there() -> bool:
        grown.update({title: value - before[title] for title, value in read(mesh, counts).items()})
        return all(grown[title] >= expected[title] for title in expected)

    deadline = time.monotonic() + SECONDS
    while not are_there() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert grown == expected


@pytest.fixture
def device(mesh: TestMesh) -> Iterator[Device]:
    """It alone subscribes to what it sends, and has been heard: nothing of its hellos is under way any more."""
    one = Device(mesh.ports["devices"]).trusted_by(mesh)
    one.subscribe(subject(one, ">"))
    heard = one.packet(subject(one, "heard"))
    one.send(heard)
    assert one.receive() == heard
    yield one
    one.close()


def subject(device: Device, name: str) -> str:
    """Returns a subject of its own: devices of other tests are still subscribed to what they were."""
    return f"count.{device.node[:8]}.{name}"


def test_datagrams_count_for_what_became_of_each(mesh: TestMesh, device: Device) -> None:
    good = [device.packet(subject(device, "good"), str(number)) for number in range(30)]
    strange = [Device(device.port, socket=device.socket).packet(subject(device, "strange")) for _ in range(5)]
    sent = [*good, *strange, *[GARBAGE] * 10]
    counts = {
        "received": edge("received_frames_total", "devices"),
        "bytes": edge("received_bytes_total", "devices"),
        "accepted": edge("accepted_frames_total", "devices"),
        "refused at the edge": edge("rejected_frames_total", "devices"),
        "believed": router("decode", "accepted", "emm"),
        "unknown": router("decode", "rejected", "emm", reason="unknown_key"),
        "garbage": router("decode", "rejected", "emm", reason="unsupported_version"),
        "refused": router("decode", "rejected", "emm"),
        "events": router("match", "event", "emm"),
        "routed": router("deliver", "routed", "emm"),
        "proven": Count("router", "meshgate_verdicts_total", {"protocol": "emm", "auth": "hmac+ed25519"}),
        "written": edge("egress_delivered_total", "devices", outcome="written"),
        "timed": Count("edge", "meshgate_end_to_end_duration_seconds_count", {"from": "emm", "to": "emm"}),
    }
    expected = {
        "received": 45, "bytes": sum(map(len, sent)), "accepted": 45, "refused at the edge": 0, "believed": 30,
        "unknown": 5, "garbage": 10, "refused": 15, "events": 30, "routed": 30, "proven": 30, "written": 30,
        "timed": 30,
    }  # fmt: skip
    with counting(mesh, counts, expected):
        for packet in sent:
            device.send(packet)
        assert [device.receive(SECONDS) for _ in good] == good


def test_a_repeat_is_decoded_and_not_delivered(mesh: TestMesh, device: Device) -> None:
    packet, last = device.packet(subject(device, "twice")), device.packet(subject(device, "last"))
    counts = {
        "accepted": edge("accepted_frames_total", "devices"),
        "believed": router("decode", "accepted", "emm"),
        "written": edge("egress_delivered_total", "devices", outcome="written"),
    }
    with counting(mesh, counts, {"accepted": 4, "believed": 4, "written": 2}):
        for one in (packet, packet, packet, last):
            device.send(one)
        assert [device.receive(SECONDS), device.receive(SECONDS)] == [packet, last]


def test_requests_and_connections_count_for_how_they_end(mesh: TestMesh) -> None:
    async def answer(_: IncomingRequest) -> Answer:
        return Answer(Kind.RESPONSE, b"42", JSON)

    async def ask() -> list[Kind]:
        async with (
            connect("yamp", "127.0.0.1", mesh.ports["yamp"]) as server,
            connect("emp", "127.0.0.1", mesh.ports["emp"]) as client,
        ):
            await server.serve("Count.sum", answer)
            subjects = ["Count.sum"] * 7 + ["Count.nobody"] * 3
            return [(await client.request(subject, b"[1]", JSON)).kind for subject in subjects]

    counts = {
        "answered": edge("requests_total", "emp", outcome="response"),
        "refused": edge("requests_total", "emp", outcome="error"),
        "all": edge("requests_total", "emp"),
        "open": edge("requests_in_flight", "emp"),
        "opened": edge("connections_opened_total", "emp"),
        "closed": edge("connections_closed_total", "emp"),
        "connected": edge("connections", "emp"),
        "unserved": router("match", "rejected", "emp", reason="no_responder"),
    }
    expected = {
        "answered": 7, "refused": 3, "all": 10, "open": 0, "opened": 1, "closed": 1, "connected": 0, "unserved": 3,
    }  # fmt: skip
    with counting(mesh, counts, expected):
        assert asyncio.run(ask()) == [Kind.RESPONSE] * 7 + [Kind.ERROR] * 3


def java_below(pid: int) -> int:
    """The JVM that a process has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for child in map(int, children):
        name = Path(f"/proc/{child}/comm").read_text().strip()
        if name == "java" or (child := java_below(child)):
            return child
    return 0


def test_exporters_answer_while_kafka_stands_still(mesh: TestMesh, device: Device) -> None:
    waiting = Count("edge", "meshgate_in_flight_bytes", {})
    packet = device.packet(subject(device, "stuck"))
    with stopped(mesh.pid_of("kafka")):
        device.send(packet)
        wait_until(lambda: read(mesh, {"waiting": waiting})["waiting"] > 0, "the edge says what Kafka keeps waiting")
        url = f"http://127.0.0.1:{mesh.ports['edge']}/healthz/live"
        with urllib.request.urlopen(url, timeout=STUCK_ANSWER_SECONDS) as answer:
            assert answer.status == 200
    assert device.receive(SECONDS) == packet
    wait_until(lambda: read(mesh, {"waiting": waiting})["waiting"] == 0, "nothing waits any more")


def test_exporters_answer_while_spark_stands_still(mesh: TestMesh, device: Device) -> None:
    unread = Count("router", "meshgate_source_lag_records", {})
    packet = device.packet(subject(device, "stuck"))
    with stopped(java_below(mesh.pid_of("router"))):
        device.send(packet)
        wait_until(lambda: read(mesh, {"unread": unread})["unread"] > 0, "the router says that something is unread")
    assert device.receive(SECONDS) == packet
    wait_until(lambda: read(mesh, {"unread": unread})["unread"] == 0, "all is read")
