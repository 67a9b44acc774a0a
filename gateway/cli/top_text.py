"""The screen of `meshgate top`: lines of at most 80 columns, from the document that `--output json` prints. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

from gateway.cli.console import printable

WIDTH = 80
STAGES = ("received", "logged", "decoded", "events", "routed", "delivered")
LOSSES = ("dropped", "refused", "rejected", "duplicates", "undelivered")
LATENCIES = ("acknowledge", "produce", "route", "end_to_end")
WAITING = ("raw_records", "egress_records", "queued_deliveries", "in_flight_bytes", "requests", "last_commit_seconds")
SHOWN_LISTENERS, SHOWN_REASONS, SHOWN_SUBJECTS, SHOWN_NODES, SHOWN_PAIRS = 12, 5, 8, 5, 5
HEADING, TROUBLE = "#", "!"
"""What a line of the screen begins with that is to stand out; neither is for showing."""
NONE = "-"
STEPS = ((1e9, "G"), (1e6, "M"), (1e5, "k"))

Document = Mapping[str, Any]


def screen(shown: Document) -> list[str]:
    lines = [f"{HEADING}meshgate top  {shown['mesh']}  {shown['at']}"]
    lines += [f"{TROUBLE}{text}" for text in (*shown["missing"].values(), shown["trouble"]) if text]
    for part in (_stages, _waiting, _listeners, _pairs, _rejected, _subjects, _nodes):
        rows = list(part(shown))
        if rows:
            lines += ["", *rows]
    return [line[: WIDTH + line.startswith((HEADING, TROUBLE))] for line in map(printable, lines)]


def _stages(shown: Document) -> Iterator[str]:
    """Yields what flows, and below it what is left out on the way."""
    stages = shown["stages"]
    for heading, names, width in (("flow", STAGES, 11), ("left out", LOSSES, 12)):
        yield f"{HEADING}{heading:<12}" + "".join(f"{name.replace('_', ' '):>{width}}" for name in names)
        for row, key in (("per second", "per_second"), ("since start", "total")):
            yield f"{row:<12}" + "".join(f"{number(stages[name][key]):>{width}}" for name in names)


def _waiting(shown: Document) -> Iterator[str]:
    """Yields two tables side by side: how long things take, and what waits."""
    yield f"{HEADING}{'latency':<14}{'p50':>9}{'p99':>9}      {'waiting':<22}{'now':>10}"
    modes = [f"{lane} {'in real time' if mode else 'in micro-batches'}" for lane, mode in shown["realtime"].items()]
    right = [
        *map(_waits, WAITING, (shown["lag"][name] for name in WAITING)),
        *(modes or ["no lane of the router runs"]),
    ]
    left = [_latency(name, shown["latency"][name]) for name in LATENCIES]
    for at in range(max(len(left), len(right))):
        first = left[at] if at < len(left) else ""
        other = right[at] if at < len(right) else ""
        yield f"{first:<38}{other}".rstrip()


def _latency(name: str, measured: Mapping[str, float | None]) -> str:
    return f"{name.replace('_', ' '):<14}{duration(measured['p50_seconds']):>9}{duration(measured['p99_seconds']):>9}"


def _waits(name: str, value: float | None) -> str:
    if name.endswith("_seconds"):
        return f"{name.removesuffix('_seconds').replace('_', ' '):<22}{number(value):>10} s ago"
    return f"{name.replace('_', ' '):<22}{number(value):>10}"


def _listeners(shown: Document) -> Iterator[str]:
    rows = shown["listeners"]
    if not rows:
        return
    heads = f"{'open':>6}{'in/s':>9}{'out/s':>9}{'refused/s':>10}{'p50':>7}{'p99':>8}"
    yield f"{HEADING}{'listener':<18}{'protocol':<13}{heads}"
    is_alone = len({row["edge"] for row in rows}) == 1
    busiest = sorted(rows, key=lambda row: -(row["received"]["per_second"] or 0))
    for row in busiest[:SHOWN_LISTENERS]:
        name = row["listener"] if is_alone else f"{row['edge']}/{row['listener']}"
        rates = [number(row[kind]["per_second"]) for kind in ("received", "delivered", "refused")]
        times = f"{duration(row['p50_seconds']):>7}{duration(row['p99_seconds']):>8}"
        counts = f"{number(row['sessions']):>6}{rates[0]:>9}{rates[1]:>9}{rates[2]:>10}"
        yield f"{name:<18.17}{row['protocol']:<13}{counts}{times}"
    if len(rows) > SHOWN_LISTENERS:
        yield f"and {len(rows) - SHOWN_LISTENERS} more"


def _pairs(shown: Document) -> Iterator[str]:
    rows = [row for row in shown["pairs"] if row["delivered"]["total"]]
    if rows:
        yield f"{HEADING}{'from':<14}{'to':<14}{'delivered/s':>12}{'p50':>9}{'p99':>9}"
    for row in rows[:SHOWN_PAIRS]:
        times = f"{duration(row['p50_seconds']):>9}{duration(row['p99_seconds']):>9}"
        yield f"{row['from']:<14}{row['to']:<14}{number(row['delivered']['per_second']):>12}{times}"


def _rejected(shown: Document) -> Iterator[str]:
    rows = shown["rejected"]
    if rows:
        yield f"{HEADING}{'rejected for':<24}{'by the':<10}{'per second':>12}{'since start':>13}"
    for row in rows[:SHOWN_REASONS]:
        yield f"{row['reason']:<24}{row['where']:<10}{number(row['per_second']):>12}{number(row['total']):>13}"


def _subjects(shown: Document) -> Iterator[str]:
    return _busiest("subjects", [(row["subject"], row) for row in shown["subjects"][:SHOWN_SUBJECTS]])


def _nodes(shown: Document) -> Iterator[str]:
    """Yields nodes by what people call them, where they have said so."""
    rows = shown["nodes"][:SHOWN_NODES]
    names = (f"{row['label']} ({row['node']})" if row["label"] else row["node"] for row in rows)
    return _busiest("nodes", list(zip(names, rows, strict=True)))


def _busiest(kind: str, rows: Sequence[tuple[str, Document]]) -> Iterator[str]:
    if rows:
        yield f"{HEADING}{f'busiest {kind}':<54}{'per second':>12}{'share':>9}"
    for name, row in rows:
        yield f"{printable(name):<54.53}{number(row['per_second']):>12}{row['share']:>8.0%}"


def number(value: float | None) -> str:
    """Returns a number in few characters.

    >>> number(None), number(0), number(0.25), number(12.34), number(1234.5), number(1_234_567)
    ('-', '0', '0.25', '12.3', '1,234', '1.23M')
    """
    if value is None:
        return NONE
    for step, unit in STEPS:
        if value >= step:
            return f"{value / (step if unit != 'k' else 1000):.3g}{unit}"
    if value == int(value) or value >= 100:
        return f"{int(value):,}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def duration(seconds: float | None) -> str:
    """Returns a time span in few characters.

    >>> duration(None), duration(0.00042), duration(0.0123), duration(2.5)
    ('-', '0.42ms', '12ms', '2.5s')
    """
    if seconds is None:
        return NONE
    if seconds >= 1:
        return f"{seconds:.3g}s"
    milliseconds = seconds * 1000
    return f"{milliseconds:.0f}ms" if milliseconds >= 10 else f"{milliseconds:.2g}ms"


def plain(lines: Iterable[str]) -> Iterator[str]:
    """Yields the lines for a file or a pipe."""
    return (line.removeprefix(HEADING).removeprefix(TROUBLE).rstrip() for line in lines)


def painted(line: str, columns: int) -> str:
    """Returns the line for a terminal of this width."""
    if line.startswith(HEADING):
        return click.style(line[1 : columns + 1], bold=True)
    return click.style(line[1 : columns + 1], fg="red") if line.startswith(TROUBLE) else line[:columns]
