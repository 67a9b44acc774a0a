"""Processor time and memory by part, from samples that a run would have taken; and of this very process."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gateway.bench.machine import MIB, Process, Watch, parts_of, processes, roots_of
from gateway.bench.schedule import SECOND_NS
from gateway.local.mesh_record import start_time


def watch_of(*samples: tuple[float, dict[str, dict[int, float]]]) -> Watch:
    """At so many seconds, by part: processor seconds of each process, which holds ten MiB for each of them."""
    watch = Watch({})
    for at, parts in samples:
        found = {
            part: [Process(pid, 1, part, cpu, int(cpu * 10 * MIB)) for pid, cpu in of.items()]
            for part, of in parts.items()
        }
        watch.add(int(at * SECOND_NS), found)
    return watch


class TestUsage:
    def test_it_is_what_was_used_between_two_times(self) -> None:
        watch = watch_of((0, {"edge": {7: 1.0}}), (1, {"edge": {7: 1.5}}), (2, {"edge": {7: 3.0}}))
        assert watch.usage(0, 2 * SECOND_NS)["edge"].cpu_seconds == 2.0

    def test_between_samples_it_is_evenly_spent(self) -> None:
        watch = watch_of((0, {"edge": {7: 0.0}}), (2, {"edge": {7: 4.0}}))
        assert watch.usage(SECOND_NS // 2, SECOND_NS)["edge"].cpu_seconds == pytest.approx(1.0)

    def test_all_processes_of_a_part_count(self) -> None:
        watch = watch_of((0, {"python": {7: 1.0, 8: 1.0}}), (1, {"python": {7: 2.0, 8: 1.5}}))
        assert watch.usage(0, SECOND_NS)["python"].cpu_seconds == 1.5

    def test_a_worker_that_was_replaced_still_counts(self) -> None:
        watch = watch_of(
            (0, {"python": {7: 1.0}}), (1, {"python": {7: 3.0}}), (2, {"python": {8: 0.5}}), (3, {"python": {8: 1.0}})
        )
        assert watch.usage(0, 3 * SECOND_NS)["python"].cpu_seconds == 3.0

    def test_a_part_that_came_later_began_at_nothing(self) -> None:
        watch = watch_of((0, {}), (1, {"edge": {7: 0.5}}))
        assert watch.usage(0, SECOND_NS)["edge"].cpu_seconds == 0.5

    def test_memory_is_first_last_and_most(self) -> None:
        watch = watch_of((0, {"edge": {7: 1.0}}), (1, {"edge": {7: 5.0}}), (2, {"edge": {8: 2.0}}))
        used = watch.usage(0, 2 * SECOND_NS)["edge"]
        assert (used.first_mib, used.most_mib, used.last_mib) == (10.0, 50.0, 20.0)

    def test_without_processes_to_watch_there_is_none(self) -> None:
        watch = Watch({})
        watch.start()
        watch.stop()
        assert watch.usage(0, 1) == {}


class TestParts:
    def test_a_part_is_a_process_and_all_below_it(self) -> None:
        running = {pid: Process(pid, pid - 1, "python", 0.0, 0) for pid in (3, 4, 5)} | {9: Process(9, 1, "sh", 0, 0)}
        assert {part: [one.pid for one in of] for part, of in parts_of({"edge": 3}, running).items()} == {
            "edge": [3, 4, 5]
        }

    def test_one_that_has_ended_is_no_part(self) -> None:
        assert parts_of({"edge": 3}, {}) == {}

    def test_this_process_is_found_with_what_it_has_used(self) -> None:
        me = processes()[os.getpid()]
        assert me.parent == os.getppid()
        assert me.cpu_seconds > 0
        assert me.resident_bytes > MIB


class TestRoots:
    def write(self, folder: Path, started: int | None) -> Path:
        record = folder / "running.json"
        parts = [{"name": name, "pid": os.getpid(), "started": started} for name in ("kafka", "edge")]
        record.write_text(json.dumps({"supervisor": 1, "started": 1, "parts": parts}))
        return record

    def test_they_are_the_processes_that_the_mesh_has_recorded(self, tmp_path: Path) -> None:
        record = self.write(tmp_path, start_time(os.getpid()))
        assert roots_of(record) == {"broker": os.getpid(), "edge": os.getpid()}

    def test_a_number_that_another_process_has_by_now_is_none(self, tmp_path: Path) -> None:
        assert roots_of(self.write(tmp_path, 1)) == {}

    def test_without_a_record_there_are_none(self, tmp_path: Path) -> None:
        assert roots_of(tmp_path / "running.json") == {}
