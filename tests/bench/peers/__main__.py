"""Runs the contenders one after the other, at one rate after the other, and prints one table.

python -m tests.bench.peers [--rates 1000,5000] [--seconds 8] [--only meshgate,asyncio] [--save FILE.json]
"""

from __future__ import annotations

import json
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click

from gateway.bench.measure import measure
from gateway.bench.report import document, text
from gateway.bench.worker_processes import BenchError
from gateway.bench.workload import Workload
from tests.bench.peers.contenders import CONTENDERS, Contender
from tests.bench.peers.table import Step, markdown
from tests.bench.peers.tools import Tools

RATES = "1000,5000,10000,20000,30000"
GIVEN_UP_AFTER = 2
"""Steps in a row that a contender did not keep up with: at higher rates it would not either."""


@click.command()
@click.option("--rates", default=RATES, show_default=True, help="Packets a second, with commas between.")
@click.option("--seconds", default=8.0, show_default=True, help="Of a step, after its warm-up.")
@click.option("--warm-up", default=3.0, show_default=True, help="Seconds of each step that are not measured.")
@click.option("--only", default=",".join(CONTENDERS), show_default=True, help="Contenders, with commas between.")
@click.option("--sessions", default=16, show_default=True, help="Devices that send, each with a key of its own.")
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), help="Write all that was measured (JSON).")
@click.option("--keep", is_flag=True, help="Leave the contenders' folders, with their logs.")
def main(rates: str, seconds: float, warm_up: float, only: str, sessions: int, save: Path | None, keep: bool) -> None:
    folder = Path(tempfile.mkdtemp(prefix="meshgate-peers-"))
    work = Workload(origin="emm", target="emm", run="0000", seconds=seconds, warm_up=warm_up, sessions=sessions)
    steps: list[Step] = []
    for name in only.split(","):
        contender = CONTENDERS[name](folder / name, Tools.find())
        if (missing := contender.missing()) is not None:
            _say(f"{contender.name} is left out: no {missing}; see tests.bench.peers.prepare")
            continue
        for step in _steps(contender, work, [float(rate) for rate in rates.split(",")], folder / name):
            steps.append(step)
            _say(step.failure or text(step.document or {}))
            if save is not None:
                save.write_text(json.dumps([_saved(one) for one in steps], indent=1) + "\n")
    click.echo(markdown(steps))
    if keep:
        _say(f"logs are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)


def _steps(contender: Contender, work: Workload, rates: Sequence[float], folder: Path) -> Iterator[Step]:
    """One that did not keep up begins the next step afresh: its backlog is no part of that."""
    running, behind = False, 0
    try:
        for number, rate in enumerate(rates):
            named = f"{contender.name} at {rate:,.0f}/s"
            if behind >= GIVEN_UP_AFTER:
                yield Step(contender.name, rate, failure=f"{named}: not tried")
                continue
            _say(f"--- {named}")
            if not running:
                contender.folder = folder / str(number)
            step = _step(contender, replace(work, rate=rate, run=secrets.token_hex(2)), is_running=running)
            running = True
            yield step
            behind = 0 if step.kept_up else behind + 1
            if behind:
                contender.stop()
                running = False
    finally:
        if running:
            contender.stop()


def _step(contender: Contender, work: Workload, *, is_running: bool) -> Step:
    try:
        if not is_running:
            contender.start(work)
        with contender.setup(work) as setup:
            return Step(contender.name, work.rate, document(measure(work, setup, lambda _: None)))
    except (BenchError, RuntimeError) as failed:
        named = f"{contender.name} at {work.rate:,.0f}/s"
        return Step(contender.name, work.rate, failure=f"{named}: {contender.dead() or failed}")


def _saved(step: Step) -> dict[str, object]:
    return {"contender": step.contender, "rate": step.rate, "failure": step.failure, "document": step.document}


def _say(line: str) -> None:
    click.echo(line, err=True)


if __name__ == "__main__":
    sys.exit(main())
