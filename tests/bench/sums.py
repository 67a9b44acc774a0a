"""How much a mesh needs at a rate: the table in k8s/OPERATE.md, computed from measured costs a frame.

    python -m tests.bench.sums                       prints it
    python -m tests.bench.sums --write               puts it into the page
    python -m tests.bench.sums --fan-out 3 50000     for rates of your own

What was measured stands in `MEASURED`, with where; all else is multiplied from it. README.md beside this file says how
to measure again: with other numbers here, the table is another.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "k8s" / "OPERATE.md"
BEGIN, END = "<!-- from python -m tests.bench.sums --write -->", "<!-- to here -->"
RATES = (10_000, 100_000, 1_000_000, 10_000_000)


@dataclass(frozen=True)
class Measured:
    """Microseconds of processor time a frame, and bytes; signed emm frames of 195 bytes, one datagram receiver.

    The first five are of one run of a whole mesh in real time: `meshgate bench` at 20,000/s, one raw partition.
    """

    edge_us: float = 13.0
    """In, out to one receiver, and its outcome."""
    broker_us: float = 10.0
    jvm_us: float = 17.0
    python_us: float = 16.0
    record_frames: float = 60.0
    """One linger of 3 ms brings so many into a record at that rate. With fewer in a record a frame costs more."""
    receiver_us: float = 2.5
    """An edge's work for one more receiver (`edge_out`, records of 100 for 16 peers, in runs)."""
    raw_bytes: float = 92.0
    """In `raw`: 100 frames a record, zstd (133 in records of five)."""
    event_bytes: float = 648.0
    """In `events`, with its headers; not compressed."""
    egress_bytes: float = 276.0
    """In `egress`, for one receiver; not compressed."""
    id_bytes: float = 30.0
    """Of the dedup state, at most: an id of 20 bytes, its second, and a share of its row (24 to 30)."""
    known_id_bytes: float = 30.0
    """An id takes at most so much of a worker's memory (26 to 30, `known_ids`)."""


MEASURED = Measured()
BUSY = 0.6
"""How much of a core may be used on average: what is above is for peaks, catching up, and one part being away."""
COPIES = 3
RAW_DAYS, EVENT_DAYS, EGRESS_DAYS = 7, 7, 1
STATE_SECONDS = 300 + 120 + 300
"""An id is kept for the replay window, the clocks' skew, and 300 s by which clocks may differ."""
KNOWN_SECONDS = STATE_SECONDS + 360
"""In memory an id leaves with its table, which holds what came within 360 s."""
SPARE_SLOTS = 1
"""For what a lane reads when it starts again."""
MICROSECONDS = 1_000_000
DAY_SECONDS = 86_400
LEAST_EDGES, LEAST_PARTITIONS = 2, 4
UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


@dataclass(frozen=True)
class Sums:
    """Frames a second of the whole mesh, each to `fan_out` receivers."""

    rate: float
    fan_out: float = 1.0

    @property
    def cores(self) -> float:
        """Returns the cores of all parts together."""
        return self.router_cores + self.edge_cores + self.broker_cores

    @property
    def router_cores(self) -> float:
        return self._cores(MEASURED.python_us + MEASURED.jvm_us)

    @property
    def edge_cores(self) -> float:
        return self._cores(MEASURED.edge_us + (self.fan_out - 1) * MEASURED.receiver_us)

    @property
    def broker_cores(self) -> float:
        """Returns the cores of all brokers, where each topic has one copy."""
        return self._cores(MEASURED.broker_us)

    @property
    def edges(self) -> int:
        """Each is one busy thread."""
        return max(LEAST_EDGES, math.ceil(self.edge_cores))

    @property
    def partitions(self) -> int:
        """Each is one task, which judges its frames in Python and stores and writes them in the JVM beside that."""
        return max(LEAST_PARTITIONS, math.ceil(self._cores(max(MEASURED.python_us, MEASURED.jvm_us))))

    @property
    def task_slots(self) -> int:
        return self.partitions + SPARE_SLOTS

    @property
    def linger_milliseconds(self) -> float:
        """Returns how long an edge collects for one partition, until a record has as many frames as were measured."""
        return MEASURED.record_frames * self.edges * self.partitions / self.rate * 1000

    @property
    def written_bytes(self) -> float:
        """A second, into Kafka, by edges and router; brokers take it in as often as there are copies."""
        return self.rate * (MEASURED.raw_bytes + MEASURED.event_bytes + self.fan_out * MEASURED.egress_bytes)

    @property
    def kept_bytes(self) -> float:
        per_frame = MEASURED.raw_bytes * RAW_DAYS + MEASURED.event_bytes * EVENT_DAYS
        per_frame += self.fan_out * MEASURED.egress_bytes * EGRESS_DAYS
        return self.rate * per_frame * DAY_SECONDS * COPIES

    @property
    def state_bytes(self) -> float:
        return self.rate * MEASURED.id_bytes * STATE_SECONDS

    @property
    def known_bytes(self) -> float:
        """Returns what the workers of all lanes keep of ids."""
        return self.rate * MEASURED.known_id_bytes * KNOWN_SECONDS

    def _cores(self, cost_us: float) -> float:
        return self.rate * cost_us / MICROSECONDS / BUSY


ROWS: tuple[tuple[str, Callable[[Sums], str]], ...] = (
    ("`kafka.partitions`", lambda sums: f"{sums.partitions:,}"),
    ("task slots in real time", lambda sums: f"{sums.task_slots:,}"),
    ("cores of the router", lambda sums: _count(sums.router_cores)),
    ("`edge.replicas`, a core each", lambda sums: f"{sums.edges:,}"),
    ("cores of the brokers", lambda sums: _count(sums.broker_cores)),
    ("cores of the whole mesh", lambda sums: _count(sums.cores)),
    ("`edge.record.linger_milliseconds` for that", lambda sums: f"{sums.linger_milliseconds:,.0f}"),
    ("written to Kafka", lambda sums: f"{_bytes(sums.written_bytes)}/s"),
    ("into the brokers, three copies", lambda sums: f"{_bytes(sums.written_bytes * COPIES)}/s"),
    ("on the brokers' disks, three copies", lambda sums: _bytes(sums.kept_bytes)),
    ("dedup state, all lanes", lambda sums: _bytes(sums.state_bytes)),
    ("message ids in memory, all lanes", lambda sums: _bytes(sums.known_bytes)),
)


def table(rates: Sequence[float], fan_out: float = 1.0) -> str:
    columns = [Sums(rate, fan_out) for rate in rates]
    head = ["| frames a second |" + "".join(f" {rate:,.0f} |" for rate in rates), "|---|" + "---|" * len(rates)]
    return "\n".join([*head, *(f"| {name} |" + "".join(f" {show(one)} |" for one in columns) for name, show in ROWS)])


def written(page: str) -> str:
    """The page with the table in its place."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(RATES)}\n{END}{after}"


def _count(value: float) -> str:
    return f"{math.ceil(value):,}"


def _bytes(value: float) -> str:
    power = min(int(math.log10(max(value, 1)) // 3), len(UNITS) - 1)
    return f"{value / 1000**power:.3g} {UNITS[power]}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sums", description=__doc__.splitlines()[0])
    parser.add_argument("rates", nargs="*", type=float, default=RATES, metavar="RATE")
    parser.add_argument("--fan-out", type=float, default=1.0, help="receivers of a frame, on average")
    parser.add_argument("--write", action="store_true", help="put the table into k8s/OPERATE.md")
    asked = parser.parse_args()
    if asked.write:
        PAGE.write_text(written(PAGE.read_text()))
    else:
        print(table(asked.rates, asked.fan_out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
