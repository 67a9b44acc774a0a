"""A number with its noun, as people write it."""

from __future__ import annotations


def quantity(count: int, noun: str) -> str:
    """Returns the number with the noun in its form.

    >>> quantity(1, "session"), quantity(2000, "session")
    ('1 session', '2,000 sessions')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
