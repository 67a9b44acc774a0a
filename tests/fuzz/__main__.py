"""Fuzzes for as long as it is told, and says how many inputs each target took.

    python -m tests.fuzz --minutes 60 [--only NAME]... [--seed N] [--keep] [--guided]

What crashes is made small and printed; `--keep` adds it to the corpus, which every test run tries. `--guided` lets
coverage choose the inputs, and tells how much more of our code they have reached. Ends with 1 if anything crashed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path

import click

from tests.fuzz.campaign import Result, keep, run, smallest
from tests.fuzz.guided import fuzz
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

SHOWN_BYTES = 256
CORPUS = Path("~/.cache/meshgate-fuzz").expanduser()


@click.command()
@click.option("--minutes", type=float, default=1.0, show_default=True, help="In all, over the targets.")
@click.option("--only", "names", type=click.Choice(sorted(TARGETS)), multiple=True, help="Only this; may be repeated.")
@click.option("--seed", type=int, default=None, help="Of the random numbers; the time, where none is given.")
@click.option("--keep", "keeps", is_flag=True, help="Add what crashes to the corpus.")
@click.option(
    "--guided", "is_guided", is_flag=True, help="Let coverage choose the inputs; needs `pip install atheris`."
)
@click.option(
    "--corpus", type=click.Path(path_type=Path), default=CORPUS, show_default=True,
    help="With --guided: keep here what reaches more, for the next run.",
)  # fmt: skip
def main(
    minutes: float, names: tuple[str, ...], seed: int | None, keeps: bool, is_guided: bool, corpus: Path
) -> None:  # fmt: skip
    """Fuzz the parsers, the sessions and the router."""
    logging.disable(logging.CRITICAL)
    seed = int(time.time()) if seed is None else seed
    targets = [TARGETS[name] for name in names or TARGETS]
    click.echo(f"seed {seed}, {len(targets)} targets, {minutes:g} minutes")
    if is_guided:
        results = _run_guided(targets, minutes * 60, seed, corpus)
    else:
        results = run(targets, minutes * 60, seed, _tell)
        _show(results)
    for name, result in results.items():
        if keeps:
            keep(TARGETS[name], result.crashes)
    if any(result.crashes for result in results.values()):
        raise SystemExit(1)


def _run_guided(targets: Sequence[Target], seconds: float, seed: int, corpus: Path) -> dict[str, Result]:
    """Runs one target after the other, and shows what each has come to."""
    each = max(int(seconds / len(targets)), 1)
    click.echo(f"{'target':<22}{'inputs':>12}{'edges, seeds':>14}{'edges, end':>12}{'crashes':>9}")
    results = {}
    for target in targets:
        found = fuzz(target.name, each, seed, corpus)
        reached = f"{found.seed_coverage:>14,}{found.coverage:>12,}"
        click.echo(f"{target.name:<22}{found.inputs:>12,}{reached}{len(found.crashes):>9}")
        crashes = {crash: smallest(target, data) for data in found.crashes if (crash := target.crash(data))}
        results[target.name] = Result(found.inputs, each, crashes)
        _show_crashes(results[target.name])
    return results


def _tell(name: str, result: Result) -> None:
    if result.crashes:
        click.echo(f"{name}: {len(result.crashes)} crashes after {result.inputs} inputs", err=True)


def _show(results: dict[str, Result]) -> None:
    click.echo(f"{'target':<22}{'inputs':>12}{'per second':>12}{'crashes':>9}")
    for name, result in results.items():
        rate = result.inputs / result.seconds if result.seconds else 0.0
        click.echo(f"{name:<22}{result.inputs:>12,}{rate:>12,.0f}{len(result.crashes):>9}")
        _show_crashes(result)


def _show_crashes(result: Result) -> None:
    for crash, data in result.crashes.items():
        shown = data[:SHOWN_BYTES].hex() + "…" * (len(data) > SHOWN_BYTES)
        click.echo(f"  {crash.splitlines()[0]}\n  {shown}")


main()
