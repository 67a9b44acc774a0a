"""A standalone Spark cluster on loopback, from the jars that pip brings: a master and workers, each with executors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import streaming_jobs
from gateway.local.java import find_java
from gateway.local.processes import ends_with_parent
from gateway.local.spark_files import spark_home
from streaming_jobs.spark.session import jvm
from tests.integration.mesh import free_port, wait_until

TREE = Path(streaming_jobs.__file__).parents[1]
EXECUTOR = "CoarseGrainedExecutorBackend"
START_SECONDS = 60.0


@dataclass
class Standalone:
    """Runs a master, and workers with so many task slots each."""

    folder: Path
    slots: int
    port: int = field(default_factory=free_port)
    page: int = field(default_factory=free_port)
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def start(self, *workers: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._start("master", "master.Master", "--port", str(self.port), "--webui-port", str(self.page))
        wait_until(self._answers, f"Spark's master answers{self.logs()}", START_SECONDS)
        for name in workers:
            self.start_worker(name)
        wait_until(lambda: self._alive() == len(workers), "all workers have registered", START_SECONDS)

    def start_worker(self, name: str) -> None:
        options = ["--cores", str(self.slots), "--memory", "4g", "--work-dir", str(self.folder / name)]
        self._start(name, "worker.Worker", *options, "--webui-port", "0", self.master)

    def _start(self, name: str, main: str, *arguments: str) -> None:
        options = ["-XX:TieredStopAtLevel=1", "-Dspark.master.rest.enabled=false"]  # its port is the same for all
        command = [
            *jvm(find_java(), []),
            *options,
            f"org.apache.spark.deploy.{main}",
            "--host",
            "127.0.0.1",
            *arguments,
        ]
        environment = {
            **os.environ,
            "SPARK_HOME": str(spark_home()),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.folder / "scratch"),
            "PYTHONPATH": str(TREE),
        }
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=ends_with_parent(signal.SIGTERM),
            )

    def _answers(self) -> bool:
        return self._alive() >= 0

    def _alive(self) -> int:
        """Returns the number of workers that the master counts; -1 if it does not answer."""
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.page}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
        return -1

    def executors(self) -> dict[str, int]:
        """Returns the process of each worker's executor, for the workers that have one."""
        found = {}
        for name, worker in self._processes.items():
            for child in _children(worker.pid):
                with suppress(OSError):
                    if EXECUTOR in Path(f"/proc/{child}/cmdline").read_text():
                        found[name] = child
        return found

    def kill_worker(self, name: str) -> None:
        """Kills a worker and its executor at once, as a machine that is lost."""
        executor = self.executors().get(name)
        for process in (self._processes[name].pid, executor):
            if process is not None:
                os.kill(process, signal.SIGKILL)
        self._processes.pop(name).wait()

    def logs(self) -> str:
        files = [*self.folder.glob("*.log"), *self.folder.glob("*/app-*/*/stderr")]
        return "".join(f"\n--- {file}\n{file.read_text(errors='replace')[-2000:]}" for file in sorted(files))

    def stop(self) -> None:
        for process in reversed(self._processes.values()):
            process.terminate()
        for process in self._processes.values():
            process.wait(30)


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        tasks = Path(f"/proc/{pid}/task").glob("*/children")
        return [int(child) for task in tasks for child in task.read_text().split()]
    return []


@contextmanager
def standalone(folder: Path, *workers: str, slots: int) -> Iterator[Standalone]:
    cluster = Standalone(folder, slots)
    try:
        cluster.start(*workers)
        yield cluster
    finally:
        cluster.stop()
