"""Measures the ids that a lane knows: memory, time to look one up, time to read them back.

    python -m tests.bench.known_ids [MILLIONS]

Ids come at a steady rate over the time that they are kept, a hundred in a record, as those of sixteen nodes. They are
read back by a process of its own, which has loaded what a worker loads: its memory is a worker's.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import streaming_jobs.router_job.worker  # noqa: F401 - for its memory
from streaming_jobs.router_job.id_log import ids_folder, part_path
from streaming_jobs.router_job.snapshot import SnapshotWriter, read_snapshot
from streaming_jobs.routing.known_ids import LATENESS_SECONDS, KnownIds

HORIZON_SECONDS = 420
BEGIN = 1_800_000_000
IN_A_RECORD = 100
NODES = [os.urandom(16) for _ in range(16)]
ASKED_RECORDS = 2_000


def record(chance: random.Random) -> list[bytes]:
    return [chance.choice(NODES) + chance.randbytes(4) for _ in range(IN_A_RECORD)]


def memory_mib(name: str) -> float:
    """Returns the memory of this process that the kernel tells under this name."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


def main() -> None:
    count = int(float(sys.argv[1] if len(sys.argv) > 1 else 10) * 1_000_000)
    chance, known = random.Random(1), KnownIds(HORIZON_SECONDS)
    rows: list[tuple[int, bytes]] = []
    records = count // IN_A_RECORD
    slowest = 0.0
    for number in range(records):
        second = BEGIN + number * (HORIZON_SECONDS + LATENESS_SECONDS) // records
        keys = record(chance)
        at = time.perf_counter()
        known.advance(second, second)
        known.admit(keys, [second] * IN_A_RECORD)
        slowest = max(slowest, time.perf_counter() - at)
        rows.append((second, known.added_row()))
    print(
        f"{len(known):,} ids, {known.memory_bytes / len(known):.1f} bytes each; slowest record {slowest * 1e3:.0f} ms"
    )
    began = time.process_time()
    for _ in range(ASKED_RECORDS):
        keys = record(chance)
    made = time.process_time() - began
    began = time.process_time()
    for _ in range(ASKED_RECORDS):
        known.admit(record(chance), [second] * IN_A_RECORD)
    asked = time.process_time() - began - made
    print(f"asking: {asked / ASKED_RECORDS / IN_A_RECORD * 1e6:.2f} µs an id, {IN_A_RECORD} in a record")
    with TemporaryDirectory() as folder:
        SnapshotWriter(folder, 0, 7)(rows)
        path = part_path(ids_folder(Path(folder), 0), 7)
        print(f"snapshot: {path.stat().st_size / 2**20:.0f} MiB", flush=True)
        subprocess.run([sys.executable, "-m", "tests.bench.known_ids", "--read-back", folder], check=True)


def read_back(folder: str) -> None:
    before = memory_mib("VmRSS")
    began = time.perf_counter()
    restored, _ = read_snapshot(Path(folder), 0, 7, HORIZON_SECONDS)
    took = time.perf_counter() - began
    tables = restored.memory_bytes / 2**20
    print(
        f"read back: {len(restored):,} in {took:.1f} s; tables {tables:.0f} MiB; the process has"
        f" {memory_mib('VmRSS'):.0f} MiB, had {before:.0f} before and {memory_mib('VmHWM'):.0f} at most"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read-back"]:
        read_back(sys.argv[2])
    else:
        main()
