"""Subjects that a peer may publish on, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from gateway.core.reasons import Rejected
from gateway.core.subjects import check_subject

_PRINTABLE = st.characters(exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp"), exclude_characters="\ufffe\uffff")
"""XML has no way to write the last two."""


def is_subject(text: str) -> bool:
    try:
        check_subject(text)
    except Rejected:
        return False
    return True


def subjects(max_size: int = 40) -> st.SearchStrategy[str]:
    return st.text(_PRINTABLE, min_size=1, max_size=max_size).filter(is_subject)
