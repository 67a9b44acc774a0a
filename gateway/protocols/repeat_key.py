"""The text by which repeats of an event are known, in protocols whose ids are text."""

from __future__ import annotations

SEPARATOR = "\0"
"""It occurs in no part: names of nodes and subjects hold no control characters, and all other parts are numbers,
hexadecimal digits or UUIDs. So two different lists of parts never give one key."""


def repeat_key(*parts: str) -> str:
    """Returns the key made of these parts; the first is the protocol's name, since each protocol has ids of its own.

    >>> repeat_key("hsp", "a b", "c") == repeat_key("hsp", "a", "b c")
    False
    """
    return SEPARATOR.join(parts)
