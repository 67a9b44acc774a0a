"""Subjects, patterns, and the reference matcher."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.reasons import Reason, Rejected
from gateway.subjects import MAX_PATTERN_BYTES, MAX_TOKENS, check_pattern, is_control, matches, tokens

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
    with pytest.raises(Rejected) as refused:
        check_pattern(pattern)
    assert refused.value.reason is reason


def test_a_pattern_may_have_as_many_bytes_as_the_limit_says_and_not_one_more() -> None:
    assert check_pattern("a" * MAX_PATTERN_BYTES) == ("a" * MAX_PATTERN_BYTES,)
    with pytest.raises(Rejected) as refused:
        check_pattern("a" * (MAX_PATTERN_BYTES + 1))
    assert refused.value.reason is Reason.TOO_LARGE


def test_the_limit_of_a_pattern_counts_bytes_and_not_characters() -> None:
    with pytest.raises(Rejected) as refused:
        check_pattern("é" * (MAX_PATTERN_BYTES // 2 + 1))
    assert refused.value.reason is Reason.TOO_LARGE


def test_a_pattern_may_have_as_many_tokens_as_the_limit_says_and_not_one_more() -> None:
    assert len(check_pattern(".".join("a" * MAX_TOKENS))) == MAX_TOKENS
    with pytest.raises(Rejected) as refused:
        check_pattern(".".join("a" * (MAX_TOKENS + 1)))
    assert refused.value.reason is Reason.TOO_LARGE


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
