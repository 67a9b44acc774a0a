"""Fuzzes for as long as it is told, and says how many inputs each target took.

    python -m tests.fuzz --minutes 60 [--only NAME]... [--seed N] [--keep]

What crashes is made small and printed; `--keep` adds it to the corpus, which every test run tries. Ends with 1 if
anything crashed.
"""

from __future__ import annotations

import logging
import time

import click

from tests.fuzz.campaign import Result, keep, run
from tests.fuzz.targets import TARGETS

SHOWN_BYTES = 256


@click.command()
@click.option("--minutes", type=float, default=1.0, show_default=True, help="In all, over the targets.")
@click.option("--only", "names", type=click.Choice(sorted(TARGETS)), multiple=True, help="Only this; may be repeated.")
@click.option("--seed", type=int, default=None, help="Of the random numbers; the time, where none is given.")
@click.option("--keep", "keeps", is_flag=True, help="Add what crashes to the corpus.")
def main(minutes: float, names: tuple[str, ...], seed: int | None, keeps: bool) -> None:
    """Fuzz the parsers, the sessions and the router."""
    logging.disable(logging.CRITICAL)
    seed = int(time.time()) if seed is None else seed
    targets = [TARGETS[name] for name in names or TARGETS]
    click.echo(f"seed {seed}, {len(targets)} targets, {minutes:g} minutes")
    results = run(targets, minutes * 60, seed, _tell)
    _show(results)
    for name, result in results.items():
        if keeps:
            keep(TARGETS[name], result.crashes)
    if any(result.crashes for result in results.values()):
        raise SystemExit(1)


def _tell(name: str, result: Result) -> None:
    if result.crashes:
        click.echo(f"{name}: {len(result.crashes)} crashes after {result.inputs} inputs", err=True)


def _show(results: dict[str, Result]) -> None:
    click.echo(f"{'target':<22}{'inputs':>12}{'per second':>12}{'crashes':>9}")
    for name, result in results.items():
        rate = result.inputs / result.seconds if result.seconds else 0.0
        click.echo(f"{name:<22}{result.inputs:>12,}{rate:>12,.0f}{len(result.crashes):>9}")
        for crash, data in result.crashes.items():
            shown = data[:SHOWN_BYTES].hex() + "…" * (len(data) > SHOWN_BYTES)
            click.echo(f"  {crash.splitlines()[0]}\n  {shown}")


main()
