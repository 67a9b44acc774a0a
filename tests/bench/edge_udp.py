"""Datagrams into a real broker: how many the edge takes without loss, with the broker and the sender on the same cores.

    python -m tests.bench.edge_udp [SECONDS]

The sender keeps its pace whatever happens. Lost is what the kernel dropped from a full socket buffer or the edge
refused; the rest stands in Kafka, acknowledged.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from dataclasses import dataclass

from gateway.protocols.emm import codec
from gateway.protocols.emm.frames import Field, FieldType
from gateway.protocols.emm.signing import Signer
from tests.bench.edge_rig import Rig, cpu_seconds, rig, wait

RATES = (50_000, 100_000, 200_000)
WANTED_PER_SECOND = 200_000
PACE_SECONDS = 0.001
NODES = 64


def packets() -> list[bytes]:
    """Returns packets of many nodes, so that they spread over the partitions; signed as devices sign."""
    body = Field(FieldType.JSON, b'{"celsius": 21.5, "place": "' + b"x" * 60 + b'"}')
    fields = (Field(FieldType.STRING, b"temp.high"), body)
    signers = [Signer(number.to_bytes(16, "big"), bytes(4), b"k" * 32) for number in range(NODES)]
    return [codec.encode(codec.Draft(bytes(4), 1_759_190_400, fields), signer) for signer in signers]


@dataclass
class Result:
    rate: float
    sent: int
    accepted: int
    dropped: int
    refused: int
    edge_cpu: float
    broker_cpu: float

    @property
    def lost(self) -> int:
        return self.sent - self.accepted

    def __str__(self) -> str:
        share = self.lost / self.sent
        cost = self.edge_cpu / max(self.accepted, 1) * 1e6
        return (
            f"{self.rate:9,.0f}/s  sent {self.sent:9,}  accepted {self.accepted:9,}  lost {share:6.2%} (kernel"
            f" {self.dropped:,}, edge {self.refused:,})  {cost:5.2f} µs of the edge's CPU a datagram"
        )


def send(port: int, rate: int, seconds: float, stock: list[bytes]) -> tuple[int, float]:
    """Returns how many were sent, and at what rate."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("127.0.0.1", port))
        put, count, sent = sock.send, len(stock), 0
        began = time.monotonic()
        while (now := time.monotonic()) < began + seconds:
            for number in range(sent, int((now - began) * rate)):
                put(stock[number % count])
                sent = number + 1
            time.sleep(PACE_SECONDS)
        return sent, sent / (now - began)


def measure(edge: Rig, rate: int, seconds: float, stock: list[bytes]) -> Result:
    names = ("accepted_frames_total", "udp_kernel_dropped_total", "rejected_frames_total")
    before = [edge.count(name) for name in names]
    spent = cpu_seconds(edge.edge), cpu_seconds(edge.broker)
    sent, reached = send(edge.at["devices"], rate, seconds, stock)
    wait(lambda: edge.count("in_flight_bytes") == 0)
    time.sleep(1.2)  # the kernel's own counter is looked at once a second
    accepted, dropped, refused = (int(edge.count(name) - was) for name, was in zip(names, before, strict=True))
    cost = cpu_seconds(edge.edge) - spent[0], cpu_seconds(edge.broker) - spent[1]
    return Result(reached, sent, accepted, dropped, refused, *cost)


def main(seconds: float) -> int:
    stock = packets()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {seconds:.0f} s a rate, {len(stock[0])} bytes each")
    results = []
    with rig({"name": "devices", "protocol": "emm", "scheme": "udp"}) as edge:
        for rate in RATES:
            results.append(measure(edge, rate, seconds, stock))
            print(results[-1])
    return 0 if any(one.rate >= WANTED_PER_SECOND * 0.99 and not one.lost for one in results) else 1


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 5.0))
