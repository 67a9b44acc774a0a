"""The part of `python -m tests.cluster` that is in the node's namespaces."""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from tests.cluster import game_day
from tests.cluster.node import Node
from tests.cluster.programs import debian, lay_over
from tests.cluster.release import Release
from tests.cluster.steps import STEPS
from tests.helm.tools import helm_3, helm_4
from tests.integration.prometheus import prometheus_program


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", type=Path)
    parser.add_argument("--until", required=True)
    parser.add_argument("--helm", required=True)
    parser.add_argument("--stay", action="store_true")
    parser.add_argument("--game-day", action="store_true")
    asked = parser.parse_args()
    helm = helm_3() if asked.helm == "3" else helm_4()
    prometheus = prometheus_program("prometheus")
    lay_over(debian())
    node, began = Node(asked.programs), time.monotonic()
    node.start()
    say("node", began, ["ready"])
    release = Release(node, helm)
    steps: Iterable[tuple[str, Callable[[], Iterator[str]]]]
    if asked.game_day:
        steps = game_day.steps(release, prometheus)
    else:
        steps = ((step.__name__, partial(step, release)) for step in STEPS)
    failed = False
    for name, step in steps:
        began = time.monotonic()
        try:
            say(name, began, list(step()))
            node.check()
        except Exception as fault:
            failed = True
            told = str(fault) if isinstance(fault, AssertionError) else traceback.format_exc()
            say(name, began, [f"FAILED: {told}"])
            break
        if name == asked.until:
            break
    if asked.stay:
        print(
            f"nsenter --all --target=$(pgrep -f tests.cluster.inside | tail -1); KUBECONFIG={node.kubeconfig}",
            flush=True,
        )
        signal.pause()
    print("FAILED" if failed else "all held", flush=True)
    return int(failed)


def say(step: str, began: float, found: list[str]) -> None:
    first, *others = found
    print(f"{step:16} {time.monotonic() - began:6.1f} s  {first}", flush=True)
    for other in others:
        print(f"{'':26} {other}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
