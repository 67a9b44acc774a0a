"""The page says what the mappings do."""

from __future__ import annotations

from pathlib import Path

from gateway.protocols import translation


def test_the_page_is_what_its_generator_makes() -> None:
    committed = Path(translation.__file__).with_name("TRANSLATION.md").read_text()
    assert committed == translation.page()
