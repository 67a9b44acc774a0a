"""Each target takes its seeds, every input that once broke something, and the same mutations of them in every run."""

from __future__ import annotations

from random import Random

import pytest

from tests.fuzz.campaign import smallest
from tests.fuzz.mutation import random_edits
from tests.fuzz.target import CORPORA, Target, read_corpus
from tests.fuzz.targets import TARGETS

SECONDS = 2.0
"""Of this process for one target at most: on a slow machine fewer of the same inputs are tried."""


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_the_seeds_and_the_corpus_end_as_documented(target: Target) -> None:
    assert target.seeds
    for data in target.seeds:
        target.run(data)


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_mutations_end_as_documented_within_their_bounds(target: Target) -> None:
    random, tried = Random(target.name), 0
    for data in target.inputs(random, SECONDS):
        tried += 1
        if (crash := target.crash(data)) is not None:
            pytest.fail(f"{crash}\n{smallest(target, data).hex()}")
    assert tried >= 20


def test_edits_are_the_same_for_the_same_number() -> None:
    assert random_edits(Random(7)) == random_edits(Random(7)) != random_edits(Random(8))


def test_every_corpus_belongs_to_a_target_and_can_be_read() -> None:
    for path in CORPORA.glob("*"):
        assert path.stem in TARGETS
        assert read_corpus(path)


class TestTheHarness:
    """What a harness must find, it finds."""

    def target(self, check: object) -> Target:
        return Target("t", check, lambda: [b"x" * 50 + b"!" + b"y" * 50])  # type: ignore[arg-type]

    def test_an_error_that_nobody_documented_is_a_crash_and_is_made_small(self) -> None:
        def check(data: bytes) -> None:
            if b"!" in data:
                raise KeyError("!")

        target = self.target(check)
        assert "KeyError" in (target.crash(target.seeds[0]) or "")
        assert smallest(target, target.seeds[0]) == b"!"

    def test_an_input_that_takes_too_long_is_a_crash(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tests.fuzz.target.MOST_SECONDS", 0.0)
        assert "took" in (self.target(lambda _: sum(range(1000))).crash(b"x") or "")

    def test_an_input_that_takes_too_much_memory_is_a_crash(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The most that a process has ever had is told, so a test cannot count on what one more input adds."""
        monkeypatch.setattr("tests.fuzz.target.MOST_KIBIBYTES", -1)
        assert "1 bytes took 0 MiB" in (self.target(lambda _: None).crash(b"x") or "")
