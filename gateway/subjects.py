"""Subjects and patterns: tokens separated by `.`, where `*` is one token and a closing `>` is one or more.

A `/` counts as a `.` when matching; the subject itself is passed on as it came.

>>> matches("temp.*", "temp.high"), matches("temp.>", "temp/high/roof"), matches("temp.>", "temp")
(True, True, False)
"""

from __future__ import annotations

from functools import lru_cache

from gateway.reasons import Reason, Rejected

# NATS has no fixed limit on a subject but advises under 256; our narrowest carrier (a yamp uri) holds 255 bytes.
MAX_PATTERN_BYTES = 255
MAX_TOKENS = 32


@lru_cache(maxsize=65_536)
def tokens(subject: str) -> tuple[str, ...]:
    return tuple(dotted(subject).split("."))


def dotted(subject: str) -> str:
    """The one spelling of those that match alike."""
    return subject.replace("/", ".")


def check_pattern(pattern: object) -> tuple[str, ...]:
    """The tokens of a valid pattern; raises Rejected otherwise."""
    if not isinstance(pattern, str) or not pattern:
        raise Rejected(Reason.MALFORMED, "a pattern is a string that is not empty")
    if len(pattern.encode()) > MAX_PATTERN_BYTES:
        raise Rejected(Reason.TOO_LARGE, f"a pattern has at most {MAX_PATTERN_BYTES} bytes")
    parts = tokens(pattern)
    if len(parts) > MAX_TOKENS:
        raise Rejected(Reason.TOO_LARGE, f"a pattern has at most {MAX_TOKENS} tokens")
    if "" in parts:
        raise Rejected(Reason.MALFORMED, "a pattern has no empty token")
    if ">" in parts[:-1]:
        raise Rejected(Reason.MALFORMED, "`>` may only be the last token of a pattern")
    return parts


def check_subject(subject: str) -> str:
    """The subject, if it is one; raises ValueError, for a configuration's sake."""
    if not {"", "*", ">"}.isdisjoint(tokens(subject)):
        raise ValueError(f"{subject!r} is no subject: it has an empty token or a wildcard")
    return subject


def is_control(subject: str) -> bool:
    """Under the reserved prefix `mesh.`, in any case (and by `/` as by `.`). `mesh` alone is a name like any other."""
    return subject[:5].lower() in ("mesh.", "mesh/")


def matches(pattern: str, subject: str) -> bool:
    """The reference matcher; the router uses the trie in `gateway.interests`, tested equal to this."""
    wanted, given = tokens(pattern), tokens(subject)
    if wanted[-1] == ">":
        return len(given) >= len(wanted) and _fits(wanted[:-1], given)
    return len(given) == len(wanted) and _fits(wanted, given)


def _fits(wanted: tuple[str, ...], given: tuple[str, ...]) -> bool:
    return all(w in ("*", g) for w, g in zip(wanted, given, strict=False))
