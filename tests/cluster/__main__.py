"""All of it by one command:

    tests/cluster/run                                 or python -m tests.cluster
    tests/cluster/run --until helm_test --stay        and then wait, for a look around; says how to get in

Ends with 1 when something does not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.images import ROOT
from tests.cluster.node import GROUP, GROUPS, SYSCTLS
from tests.cluster.programs import built, definitions
from tests.cluster.steps import STEPS
from tests.integration.prometheus import prometheus_program

OURS = (
    "unshare",
    "--net",
    "--mount",
    "--pid",
    "--ipc",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "--propagation",
    "private",
)
"""What the node runs in: when its first process ends, all of it ends."""
END_SECONDS, LOOK_SECONDS = 60, 0.5
FIRST = '"$@"; exit $?'
"""A shell as that first process: it takes in what containers leave behind."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/cluster/run", description=__doc__.splitlines()[0])
    parser.add_argument("--until", choices=[step.__name__ for step in STEPS], default=STEPS[-1].__name__)
    parser.add_argument("--helm", choices=["3", "4"], default="3")
    parser.add_argument(
        "--game-day", action="store_true", help="disasters under an operator's alerts, and nothing else"
    )
    parser.add_argument("--stay", action="store_true", help="leave the node running until interrupted")
    asked = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("a node of its own needs root")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that what it began is ended too
    programs = built()
    definitions()  # there is no network where they are needed
    if asked.game_day:
        prometheus_program("prometheus")
    mount = ("unshare", "--mount", "--propagation", "private")
    _python(*mount, module="tests.cluster.images", arguments=[str(programs / "pause")])
    options = [f"--until={asked.until}", f"--helm={asked.helm}", *["--stay"] * asked.stay]
    options += ["--game-day"] * asked.game_day
    with _as_it_was():
        return _python(
            *OURS,
            "bash",
            "-c",
            FIRST,
            "bash",
            module="tests.cluster.inside",
            arguments=[str(programs), *options],
            check=False,
        )


def _python(*command: str, module: str, arguments: list[str], check: bool = True) -> int:
    line = [*command, sys.executable, "-m", module, *arguments]
    return subprocess.run(line, check=check, cwd=ROOT).returncode


@contextlib.contextmanager
def _as_it_was() -> Iterator[None]:
    """What no namespace of ours keeps apart: three settings of the kernel, and control groups."""
    before = {name: Path("/proc/sys", name).read_text() for name in SYSCTLS}
    try:
        yield
    finally:
        for name, value in before.items():
            Path("/proc/sys", name).write_text(value)
        deadline = time.monotonic() + END_SECONDS
        while not _without_groups() and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)


def _without_groups() -> bool:
    """False while one has a process yet, which is ending."""
    groups = [GROUPS / GROUP, *GROUPS.glob(f"*/{GROUP}")]
    for group in groups:
        for folder in sorted(group.glob("**"), reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()
    return not any(group.exists() for group in groups)


if __name__ == "__main__":
    sys.exit(main())
