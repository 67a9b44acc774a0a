"""Subjects, patterns, and the reference matcher."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.reasons import Reason
from gateway.core.subjects import (
    MAX_SUBJECT_BYTES,
    MAX_TOKENS,
    check_pattern,
    check_subject,
    configured_subject,
    is_control,
    matches,
    tokens,
)
from tests.refusals import reason_of
from tests.unit.core.subjects import is_subject

FITS = [
    ("temp", "temp"),
    ("temp.high", "temp/high"),
    ("temp/high", "temp.high"),
    ("temp.*", "temp.high"),
    ("*.high", "temp/high"),
    ("*", "temp"),
    (">", "temp"),
    (">", "temp.high.roof"),
    ("temp.>", "temp.high"),
    ("temp.>", "temp.high/roof"),
    ("*.>", "temp.high"),
    ("*.*.roof", "temp.high.roof"),
    ("temp.*", "temp.*"),
    ("temp.>", "temp.>"),
]

FITS_NOT = [
    ("temp", "temp.high"),
    ("temp.high", "temp"),
    ("temp.*", "temp"),
    ("temp.*", "temp.high.roof"),
    ("temp.>", "temp"),
    ("*.>", "temp"),
    ("temp", "Temp"),
    ("temp.high", "temp.*"),
    ("temp.high", "temp.>"),
]


@pytest.mark.parametrize(("pattern", "subject"), FITS)
def test_a_pattern_matches_the_subjects_it_names(pattern: str, subject: str) -> None:
    assert matches(pattern, subject)


@pytest.mark.parametrize(("pattern", "subject"), FITS_NOT)
def test_a_pattern_matches_no_other_subject(pattern: str, subject: str) -> None:
    assert not matches(pattern, subject)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("", Reason.MALFORMED),
        (None, Reason.MALFORMED),
        (7, Reason.MALFORMED),
        (b"temp", Reason.MALFORMED),
        ([], Reason.MALFORMED),
        (".temp", Reason.MALFORMED),
        ("temp.", Reason.MALFORMED),
        ("temp..high", Reason.MALFORMED),
        ("temp/", Reason.MALFORMED),
        (">.temp", Reason.MALFORMED),
        ("temp.>.high", Reason.MALFORMED),
    ],
)
def test_a_malformed_pattern_is_refused(pattern: object, reason: Reason) -> None:
    assert reason_of(check_pattern, pattern) is reason


CHECKS = [check_subject, check_pattern]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(
    "text",
    [
        "a" * MAX_SUBJECT_BYTES,
        "é" * (MAX_SUBJECT_BYTES // 2),
        ".".join("a" * MAX_TOKENS),
        "/".join(["temp"] * MAX_TOKENS),
        "temp.küche.温度",
        "a*b.c>d",
    ],
)
def test_what_is_at_the_limits_is_taken(check: Callable[[str], object], text: str) -> None:
    check(text)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(
    "text",
    [
        "a" * (MAX_SUBJECT_BYTES + 1),
        "é" * (MAX_SUBJECT_BYTES // 2 + 1),
        ".".join("a" * (MAX_TOKENS + 1)),
        "/".join("a" * (MAX_TOKENS + 1)),
        "temp high",
        "temp\u00a0high",
        "temp\u2028",
        "temp\n",
        "\x00",
        "temp\x7f",
        "temp\x85",
        "temp.\ud800",
    ],
)
def test_what_is_beyond_the_limits_or_unprintable_is_a_bad_subject(check: Callable[[str], object], text: str) -> None:
    assert reason_of(check, text) is Reason.BAD_SUBJECT


@pytest.mark.parametrize("subject", ["*", ">", "temp.*", "temp/>", "*.high", "a.*.b", "x" * 40 + ".*"])
def test_a_published_subject_has_no_wildcards(subject: str) -> None:
    assert reason_of(check_subject, subject) is Reason.BAD_SUBJECT


@given(st.text(max_size=300) | st.text(".a/*> é\t", max_size=80))
@settings(max_examples=500, deadline=None)
def test_a_subject_is_taken_exactly_if_it_keeps_every_limit(subject: str) -> None:
    parts = subject.replace("/", ".").split(".")
    good = (
        len(subject.encode(errors="surrogatepass")) <= 255
        and len(parts) <= 32
        and not {"*", ">"} & set(parts)
        and not any(mark.isspace() or unicodedata.category(mark) in ("Cc", "Cs") for mark in subject)
    )
    assert is_subject(subject) == good


@pytest.mark.parametrize("subject", ["temp..high", "", "temp.*", "a b"])
def test_a_configuration_names_no_subject_that_nobody_could_publish(subject: str) -> None:
    with pytest.raises(ValueError, match="is no subject"):
        configured_subject(subject)


@pytest.mark.parametrize("subject", ["mesh.subscribe", "MESH.subscribe", "Mesh/ping", "mesh."])
def test_the_reserved_prefix_is_known_in_any_case_and_by_either_separator(subject: str) -> None:
    assert is_control(subject)


@pytest.mark.parametrize("subject", ["", "mes", "mesh", "MESH", "meshes", "mesh-x.y", "a.mesh", "messy.thing"])
def test_other_subjects_are_free(subject: str) -> None:
    assert not is_control(subject)


PLAIN_SUBJECT = st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=6)


@given(PLAIN_SUBJECT)
@settings(max_examples=100, deadline=None)
def test_a_subject_matches_itself_and_everything(parts: list[str]) -> None:
    subject = ".".join(parts)
    assert matches(subject, subject)
    assert matches(">", subject)
    assert matches(".".join("*" * len(parts)), subject)
    assert tokens(subject) == tuple(parts)
