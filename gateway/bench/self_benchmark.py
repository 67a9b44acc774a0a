"""The tool without a mesh: how fast its generator is, and what it measures where there is nothing in between."""

from __future__ import annotations

import os
import socket
from dataclasses import replace

from gateway.bench.datagram_generator import DatagramGenerator
from gateway.bench.measure import LATE_SECONDS, READY_SECONDS, Measured, Say, Setup, measure
from gateway.bench.messages import Go, PeerPlace, Ready, SendReport
from gateway.bench.report import Document
from gateway.bench.signing_keys import for_signing
from gateway.bench.worker_process import Orders, settle_memory
from gateway.bench.worker_processes import Child, Children
from gateway.bench.workload import Workload
from gateway.client import PacketKey
from gateway.protocols.emm.signing import Signer

FLAT_OUT_SECONDS = 1.0
FLAT_OUT_FRAMES = 10_000
"""Sent again and again."""


def send_flat_out(orders: Orders, work: Workload, place: PeerPlace) -> None:
    generator = DatagramGenerator(work, place)
    generator.prepare()
    settle_memory()
    orders.report(Ready())
    orders.wait(Go)
    sent, cpu_seconds = generator.flat_out(FLAT_OUT_SECONDS)
    orders.report(SendReport(sent, 0, b"", cpu_seconds, {}))


def flat_out(work: Workload, say: Say) -> Document:
    """Measures the sending alone, onto a socket that nobody reads. Raises BenchError.

    `per_second` is by the wall's clock, which others' work slows down; `per_core_second` by the processor's.
    """
    few = replace(work, rate=float(FLAT_OUT_FRAMES), seconds=1.0, warm_up=0.0)
    with _bound() as sink, Children(Child("generator", send_flat_out, few, _place(work, _url(sink))), ()) as children:
        children.each(Ready, READY_SECONDS, "the generator is not ready", children.all)
        say(f"sending as fast as one process can, for {FLAT_OUT_SECONDS:g} s")
        children.tell(Go(0))
        sent = children.each(SendReport, FLAT_OUT_SECONDS + LATE_SECONDS, "the generator does not end", children.all)[0]
    return {
        "per_second": round(sent.frames / FLAT_OUT_SECONDS),
        "per_core_second": round(sent.frames / sent.cpu_seconds),
        "cpu_us_per_packet": round(sent.cpu_seconds * 1e6 / sent.frames, 2),
    }


def measure_alone(work: Workload, wait_seconds: float, say: Say) -> Measured:
    """The run, with the generator's packets going straight to the receiver. Raises BenchError, WorkError."""
    with _bound() as free:
        url = _url(free)
    origin, target = _place(work, url), replace(_place(work, url), is_bare=True)
    return measure(work, Setup(origin=origin, target=target, wait_seconds=wait_seconds), say)


def _place(work: Workload, url: str) -> PeerPlace:
    key = PacketKey(Signer(os.urandom(16), bytes(4), os.urandom(32), os.urandom(32)))
    return PeerPlace("emm", url, (for_signing(key, work.sign),))


def _bound() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    return sock


def _url(sock: socket.socket) -> str:
    return f"udp://127.0.0.1:{sock.getsockname()[1]}"
