"""A run as a document, for programs and for the next run to be compared with; and the document as text for people."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np

from gateway.bench.accounting import MS_NS, latency, latency_curve, timeline
from gateway.bench.compare import lines
from gateway.bench.measure import Measured
from gateway.bench.quantiles import rank
from gateway.bench.schedule import SECOND_NS
from gateway.core.quantity import quantity

VERSION = 1
REACHED = 0.99
"""A generator that offers less than this part of what was asked for is reported as too slow."""

Document = dict[str, Any]


def document(measured: Measured) -> Document:
    """Returns everything that was measured.

    Times are in milliseconds, costs in microseconds of processor time a frame sent.
    """
    report: Document = {
        "version": VERSION,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cores": os.cpu_count(), "load_average_before": round(measured.load_average, 2)},
        "work": {**asdict(measured.work), "sign": str(measured.work.sign)},
        "per_second": _rates(measured),
        "frames": _frames(measured),
        "latency_ms": latency(measured.account),
        "cpu": _cpu(measured),
        "memory_mib": _memory(measured),
        "outcomes": dict(measured.sent.outcomes),
        "edge": dict(measured.edge),
        "tool": _tool(measured),
        "curve": latency_curve(measured.account),
        "timeline": timeline(measured.account),
    }
    return report | {"warnings": list(_warnings(report))}


def _rates(measured: Measured) -> Document:
    """`offered`: what was handed to the sockets, over the time it took. `achieved`: what one subscriber got, over the
    time from its first frame to its last, if that is longer: a mesh that is slow but keeps up achieves what is offered.
    """
    work, account = measured.work, measured.account
    frames = measured.schedule.total - work.first_measured
    sending = max((measured.sent.ended - measured.began) / SECOND_NS, frames / work.rate)
    receiving = max((account.last - account.first) / SECOND_NS, sending)
    subscribers = max(account.expected // frames, 1)
    return {
        "asked": work.rate,
        "offered": round(frames / sending, 1),
        "achieved": round(account.received / subscribers / receiving, 1),
        "delivered": round(account.received / receiving, 1),
    }


def _frames(measured: Measured) -> Document:
    account = measured.account
    return {
        "sent": measured.schedule.total - measured.work.first_measured,
        "expected": account.expected,
        "received": account.received,
        "lost": account.lost,
        "duplicates": account.duplicates,
        "disordered": account.disordered,
        "warm_up_lost": account.warm_up_lost,
    }


def _cpu(measured: Measured) -> Document:
    frames = measured.schedule.total - measured.work.first_measured
    end = max(measured.sent.ended, measured.schedule.start + measured.account.last)
    seconds = max((end - measured.began) / SECOND_NS, 1e-9)
    us = {part: round(usage.cpu_seconds * 1e6 / frames, 2) for part, usage in measured.usage.items()}
    cores = {part: round(usage.cpu_seconds / seconds, 3) for part, usage in measured.usage.items()}
    total = sum(usage.cpu_seconds for usage in measured.usage.values())
    if not us:
        return {}
    return {
        "us_per_frame": {**us, "total": round(total * 1e6 / frames, 2)},
        "cores": {**cores, "total": round(total / seconds, 3)},
    }


def _memory(measured: Measured) -> Document:
    return {
        part: {"first": round(usage.first_mib), "last": round(usage.last_mib), "most": round(usage.most_mib)}
        for part, usage in measured.usage.items()
    }


def _tool(measured: Measured) -> Document:
    """Returns the cost and lateness of the measuring itself: a run that was late, or dropped frames, says little."""
    late = np.sort(np.frombuffer(measured.sent.late, dtype=np.int64)) / MS_NS
    ranks = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {
        "late_ms": {name: round(float(late[rank(len(late), part)]), 3) for name, part in ranks.items()},
        "generator_cpu_seconds": round(measured.sent.cpu_seconds, 3),
        "receiver_cpu_seconds": round(sum(report.cpu_seconds for report in measured.collected), 3),
        "receiver_kernel_dropped": sum(report.kernel_dropped for report in measured.collected),
    }


def _warnings(report: Document) -> Iterable[str]:
    rates, frames, tool = report["per_second"], report["frames"], report["tool"]
    if rates["offered"] < REACHED * rates["asked"]:
        yield f"the generator offered {rates['offered']:,.0f}/s of the {rates['asked']:,.0f}/s asked for"
    if tool["receiver_kernel_dropped"]:
        yield f"{tool['receiver_kernel_dropped']:,} datagrams came and were lost at the receiver of this tool"
    if frames["warm_up_lost"]:
        yield f"{frames['warm_up_lost']:,} frames of the warm-up were lost too"
    if report["outcomes"].get("undeliverable"):
        yield f"{report['outcomes']['undeliverable']:,} publications were refused"
    if frames["lost"]:
        refused = [f"{count:,} {name}" for name, count in report["edge"].items() if name.startswith(("rej", "kernel"))]
        if refused:
            yield f"the edge did not take: {', '.join(refused)}"


def text(report: Mapping[str, Any]) -> str:
    """The document for people, in some ten lines."""
    return "\n".join((*_head(report), *_latency(report), *_costs(report), *_notes(report)))


def _head(report: Mapping[str, Any]) -> Iterable[str]:
    work, rates, frames = report["work"], report["per_second"], report["frames"]
    load = f"{work['size']} bytes" + (f", {work['sign']}" if work["origin"] == "emm" else "")
    route = f"{work['origin']} → {work['target']}" + (f" → {work['origin']}" if work["request"] else "")
    far = quantity(work["fan_out"], "server" if work["request"] else "subscriber")
    peers = f"{quantity(work['sessions'], 'session')} → {far}"
    yield f"{route}   {load}, {peers}, {work['seconds']:g} s after {work['warm_up']:g} s of warm-up"
    delivered = f"   delivered {rates['delivered']:,.0f}/s" if work["fan_out"] > 1 and not work["request"] else ""
    requested, offered, achieved = (f"{name} {rates[name]:,.0f}/s" for name in ("asked", "offered", "achieved"))
    yield _line("rate", f"{requested}   {offered}   {achieved}{delivered}")
    parts = ("lost", "duplicates", "disordered")
    yield _line("frames", f"{frames['expected']:,}   " + "   ".join(f"{name} {frames[name]:,}" for name in parts))


def _latency(report: Mapping[str, Any]) -> Iterable[str]:
    parts = report["latency_ms"]
    shown = (f"{name.replace('_', '.')} {_number(value)}" for name, value in parts.items())
    yield _line("latency ms", "   ".join(shown))


def _costs(report: Mapping[str, Any]) -> Iterable[str]:
    if report["cpu"]:
        us, cores = report["cpu"]["us_per_frame"], report["cpu"]["cores"]
        yield _line("cpu µs/frame", "   ".join(f"{part} {_number(value)}" for part, value in us.items()))
        yield _line("cores", "   ".join(f"{part} {value:.2f}" for part, value in cores.items()))
    if report["memory_mib"]:
        memory = (
            f"{part} {range_mib['first']}→{range_mib['last']}" for part, range_mib in report["memory_mib"].items()
        )
        yield _line("memory MiB", "   ".join(memory))


def _notes(report: Mapping[str, Any]) -> Iterable[str]:
    if report["outcomes"]:
        yield _line("outcomes", "   ".join(f"{name} {count:,}" for name, count in sorted(report["outcomes"].items())))
    late = report["tool"]["late_ms"]
    yield _line("tool", f"late ms p50 {_number(late['p50'])}   p99 {_number(late['p99'])}   max {_number(late['max'])}")
    if "flat_out" in report:
        fast = report["flat_out"]
        yield _line("flat out", f"{fast['per_second']:,} packets/s   {fast['per_core_second']:,} in a second of a core")
    if "compared" in report:
        yield from (_line("compared", row) for row in lines(report["compared"]))
    for warning in report["warnings"]:
        yield _line("warning", warning)


def _line(name: str, line_text: str) -> str:
    return f"{name:<14}{line_text}"


def _number(value: float | None) -> str:
    """Three digits that count, and no more.

    >>> [_number(value) for value in (None, 0.1234, 5.0, 12.345, 1234.5)]
    ['-', '0.12', '5.00', '12.3', '1,234']
    """
    if value is None:
        return "-"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 100 else f"{value:,.0f}"
