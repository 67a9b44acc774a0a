"""Datagrams as they fall due: all made beforehand, one `send` each, on sockets that are connected."""

from __future__ import annotations

import socket
import time

from gateway.bench.capacity import check_memory
from gateway.bench.marker import Marker, probe_of
from gateway.bench.messages import Go, PeerPlace, Ready, SendProbe, SendReport
from gateway.bench.pacing import PROBE_SECONDS, due_now, now_ns, pause
from gateway.bench.packets import PacketTemplate, first_message_id
from gateway.bench.schedule import Schedule
from gateway.bench.sockets import datagram_socket
from gateway.bench.worker_process import Orders, Stopwatch, settle_memory
from gateway.bench.workload import Workload


def generate_datagrams(orders: Orders, work: Workload, place: PeerPlace) -> None:
    generator = DatagramGenerator(work, place)
    generator.prepare()
    settle_memory()
    orders.report(Ready())
    orders.wait(SendProbe)
    attempt = 0
    while not orders.comes_within(PROBE_SECONDS):
        generator.probe(attempt)
        attempt += 1
    go = orders.wait(Go)
    orders.report(generator.send_all(Schedule(go.start, work.rate, work.total)))


class DatagramGenerator:
    def __init__(self, work: Workload, place: PeerPlace) -> None:
        self._work = work
        self._sockets = [datagram_socket(place.address) for _ in range(work.sessions)]
        first_id, marker = first_message_id(time.time_ns()), Marker(work.run)
        self._templates = [
            PacketTemplate(place.keys[session % len(place.keys)].signer, work.subject, work.size, marker, first_id)
            for session in range(work.sessions)
        ]
        self._frames: list[bytes] = []
        self._refused = 0

    def prepare(self) -> None:
        """Makes all frames, session by session, so that one key is in use. Each says when it will be due."""
        work = self._work
        check_memory(work.frames_bytes)
        begins, rate = int(time.time()), work.rate
        frames = [b""] * work.total
        for session, template in enumerate(self._templates):
            packet = template.packet
            for index in range(session, work.total, work.sessions):
                frames[index] = packet(index, begins + int(index / rate))
        self._frames = frames

    def probe(self, attempt: int) -> None:
        now = int(time.time())
        for session, template in enumerate(self._templates):
            packet = template.packet(probe_of(session, attempt, self._work.sessions), now)
            self._send(self._sockets[session], packet)

    def send_all(self, schedule: Schedule) -> SendReport:
        watch, sent, total = Stopwatch(), 0, schedule.total
        while sent < total:
            now = now_ns()
            frames_due = due_now(schedule, sent, now)
            if frames_due <= sent:
                time.sleep(pause(schedule, sent, now))
                continue
            watch.woke(now - schedule.due(sent))
            self._burst(sent, frames_due)
            sent = frames_due
        outcomes = {"refused": self._refused} if self._refused else {}
        return SendReport(sent, now_ns(), watch.late, watch.cpu_seconds, outcomes)

    def flat_out(self, seconds: float) -> tuple[int, float]:
        """Sends all frames again and again, without a schedule. Returns how many, and in how much processor time."""
        watch, sent, until = Stopwatch(), 0, now_ns() + int(seconds * 1e9)
        while now_ns() < until:
            self._burst(0, len(self._frames))
            sent += len(self._frames)
        return sent, watch.cpu_seconds

    def _burst(self, start: int, end: int) -> None:
        frames, sockets = self._frames, self._sockets
        count = len(sockets)
        for index in range(start, end):
            try:
                sockets[index % count].send(frames[index])
            except ConnectionRefusedError:
                self._refused += 1
                self._send(sockets[index % count], frames[index])

    def _send(self, sock: socket.socket, packet: bytes) -> None:
        """A refusal is of an earlier datagram, and this one is then not sent."""
        try:
            sock.send(packet)
        except ConnectionRefusedError:
            self._refused += 1
