"""Subjects and patterns: tokens separated by `.`, where `*` is one token and a closing `>` is one or more.

A `/` counts as a `.` when matching; the subject itself is passed on as it came.

>>> matches("temp.*", "temp.high"), matches("temp.>", "temp/high/roof"), matches("temp.>", "temp")
(True, True, False)
"""

from __future__ import annotations

import re
from functools import lru_cache

from gateway.core.reasons import Reason, Rejected

MAX_SUBJECT_BYTES = 255
"""The length of subjects and patterns: NATS has no fixed limit but advises under 256, and our narrowest carrier (a yamp
uri) holds 255 bytes. Every cache that is keyed by a subject counts on it."""

MAX_TOKENS = 32

CACHED_TOKENS = 4_096
"""At most 10 MB: 255 bytes in 32 tokens take 2.4 KB as strings of their own."""

LOGIN = "mesh.login"
"""The control subject on which peers send tokens. Only edges read such a request: no log may hold a token."""

_COMMON = re.compile(r"[!-)+-=?-~]{1,31}")
"""Surely a subject: ASCII without spaces and wildcards, and so short that it cannot hold more than MAX_TOKENS."""
_UNPRINTABLE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Spaces of every kind, the control characters C0 and C1, and halves of characters, which JSON can hold."""


@lru_cache(maxsize=CACHED_TOKENS)
def tokens(subject: str) -> tuple[str, ...]:
    return tuple(dotted(subject).split("."))


def dotted(subject: str) -> str:
    """Returns the one spelling of subjects that match alike."""
    return subject.replace("/", ".")


def check_subject(subject: str) -> None:
    """Raises Rejected(bad_subject) for a subject that no peer may publish on.

    Every event passes here when it is decoded, in the router too: so what stands in an old log is refused as well.
    """
    if _COMMON.fullmatch(subject):
        return
    _check_size_and_characters("a subject", subject)
    if not {"*", ">"}.isdisjoint(tokens(subject)):
        raise Rejected(Reason.BAD_SUBJECT, "a published subject has no wildcards")


def check_pattern(pattern: object) -> tuple[str, ...]:
    """Returns the tokens of a valid pattern; raises Rejected for anything else."""
    if not isinstance(pattern, str) or not pattern:
        raise Rejected(Reason.MALFORMED, "a pattern is a string that is not empty")
    _check_size_and_characters("a pattern", pattern)
    parts = tokens(pattern)
    if "" in parts:
        raise Rejected(Reason.MALFORMED, "a pattern has no empty token")
    if ">" in parts[:-1]:
        raise Rejected(Reason.MALFORMED, "`>` may only be the last token of a pattern")
    return parts


def _check_size_and_characters(what: str, text: str) -> None:
    """Tests the size first: nothing larger is split, or kept in a cache."""
    if len(text) > MAX_SUBJECT_BYTES or len(text.encode(errors="surrogatepass")) > MAX_SUBJECT_BYTES:
        raise Rejected(Reason.BAD_SUBJECT, f"{what} has at most {MAX_SUBJECT_BYTES} bytes")
    if _UNPRINTABLE.search(text):
        raise Rejected(Reason.BAD_SUBJECT, f"{what} has no spaces and no control characters")
    if text.count(".") + text.count("/") >= MAX_TOKENS:
        raise Rejected(Reason.BAD_SUBJECT, f"{what} has at most {MAX_TOKENS} tokens")


def configured_subject(subject: str) -> str:
    """Returns a subject that a configuration or a command line names; raises ValueError if nobody could publish it."""
    try:
        check_subject(subject)
    except Rejected as refused:
        raise ValueError(f"{subject!r} is no subject: {refused.detail}") from None
    if "" in tokens(subject):
        raise ValueError(f"{subject!r} is no subject: it has an empty token")
    return subject


def is_control(subject: str) -> bool:
    """Returns True if the subject is under the reserved prefix `mesh.`, in any case, and by `/` as by `.`.

    `mesh` alone is a name like any other.
    """
    return subject[:5].lower() in ("mesh.", "mesh/")


def is_login(subject: str) -> bool:
    """Returns True if the subject is `mesh.login`, in any case, and by `/` as by `.`."""
    return len(subject) == len(LOGIN) and dotted(subject).lower() == LOGIN


def matches(pattern: str, subject: str) -> bool:
    """Returns True if the pattern matches. The router's trie in `gateway.interests` is tested equal to this."""
    pattern_tokens, subject_tokens = tokens(pattern), tokens(subject)
    if pattern_tokens[-1] == ">":
        return len(subject_tokens) >= len(pattern_tokens) and _fits(pattern_tokens[:-1], subject_tokens)
    return len(subject_tokens) == len(pattern_tokens) and _fits(pattern_tokens, subject_tokens)


def _fits(pattern_tokens: tuple[str, ...], subject_tokens: tuple[str, ...]) -> bool:
    return all(w in ("*", g) for w, g in zip(pattern_tokens, subject_tokens, strict=False))
