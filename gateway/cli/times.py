"""Times as the command line takes them, and as topics have them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

from gateway.core.event import SECOND_US

_SPAN = re.compile(r"(?P<count>\d{1,5})(?P<unit>[smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

CLOCK_SKEW = timedelta(minutes=2)
"""A time may be another machine's now: as much as listeners grant peers."""


def span(text: str) -> timedelta:
    """A length of time: 90s, 5m, 24h, 7d, 2w."""
    match = _SPAN.fullmatch(text)
    if match is None:
        raise click.BadParameter(f"{text} is no length of time such as 90s, 5m, 24h or 7d")
    return timedelta(**{_UNITS[match["unit"]]: int(match["count"])})


def moment(text: str) -> datetime:
    """A point in time: RFC 3339, or a length of time from now (7d, +7d, -5m)."""
    unsigned = text[1:] if text.startswith(("+", "-")) else text
    if _SPAN.fullmatch(unsigned):
        length = span(unsigned)
        now = datetime.now(UTC)
        return now - length if text.startswith("-") else now + length
    try:
        parsed = datetime.fromisoformat(text.upper())  # RFC 3339, section 5.6: T and Z may be lower case
    except ValueError:
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        raise click.BadParameter(f"{text} is no RFC 3339 time such as 2026-01-31T12:00:00Z, nor one from now as -5m")
    return parsed


def from_time(text: str) -> datetime:
    """Returns where a look into the past begins. A length of time means that long ago (1h is -1h)."""
    parsed = to_time(text)
    if parsed > datetime.now(UTC) + CLOCK_SKEW:
        raise click.BadParameter(f"{text} is in the future: a time in the past is wanted, such as 1h (ago)")
    return parsed


def to_time(text: str) -> datetime:
    """Returns where a look ends. That may be in the future: there is nothing there yet."""
    return moment(f"-{text}" if _SPAN.fullmatch(text) else text)


def microseconds(at: datetime | None) -> int | None:
    return None if at is None else int(at.timestamp() * SECOND_US)


def time_range(start: datetime | None, end: datetime | None) -> tuple[int | None, int | None]:
    """Returns both in microseconds. Raises UsageError where nothing lies between: an audit of that balances."""
    if start is not None and end is not None and start >= end:
        raise click.UsageError("--to must be later than --from")
    return microseconds(start), microseconds(end)
