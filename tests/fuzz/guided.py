"""Fuzzing that coverage guides: an input that reaches code which none before it reached is kept, and changed further.

    python -m tests.fuzz --guided ──► a process for each target: atheris instruments our modules, libFuzzer chooses the
                                      inputs ──► its numbers on stderr, and each crash in a file

atheris is no dependency of ours: `pip install atheris`. Targets and bounds are those of the other form.
"""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

MOST_BYTES = 65_536
MOST_MEBIBYTES = 2_048
"""For the whole process. What a single input may take is the target's own bound."""
_INPUTS = re.compile(r"stat::number_of_executed_units:\s+(\d+)")
_COVERAGE = re.compile(r"(?:INITED|DONE)\s+cov: (\d+)")


class GuidedResult(NamedTuple):
    """What a run of one target came to. Coverage counts edges of our modules: with the seeds alone, and at the end."""

    inputs: int
    seed_coverage: int
    coverage: int
    crashes: list[bytes]


def fuzz(name: str, seconds: int, seed: int, corpus: Path) -> GuidedResult:
    """Runs one target for so long. `corpus` holds what runs have found to reach more, and grows."""
    kept, crashes = corpus / name / "inputs", corpus / name / "crashes"
    for folder in (kept, crashes):
        folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.fuzz.guided", name, str(seconds), str(seed), str(kept), str(crashes)]
    said = subprocess.run(command, capture_output=True, check=False).stderr.decode(errors="replace")
    inputs, coverage = _INPUTS.search(said), _COVERAGE.findall(said)
    if inputs is None or not coverage:
        raise RuntimeError(f"{name} ended early: {said[-2_000:]}")
    found = [path.read_bytes() for path in sorted(crashes.iterdir())]
    return GuidedResult(int(inputs[1]), int(coverage[0]), int(coverage[-1]), found)


def _main(name: str, seconds: str, seed: str, kept: Path, crashes: Path) -> None:
    """Fuzzes one target. libFuzzer ends the process without another word, so each crash is written at once."""
    logging.disable(logging.CRITICAL)
    atheris = import_module("atheris")
    with atheris.instrument_imports(include=["gateway", "streaming_jobs"]):
        target = import_module("tests.fuzz.targets").TARGETS[name]
    told: set[str] = set()

    def check(data: bytes) -> None:
        crash = target.crash(data)
        if crash is not None and crash not in told:
            told.add(crash)
            (crashes / sha256(data).hexdigest()).write_bytes(data)

    for data in target.seeds:
        (kept / sha256(data).hexdigest()).write_bytes(data)
    limits = [f"-max_total_time={seconds}", f"-max_len={MOST_BYTES}", f"-rss_limit_mb={MOST_MEBIBYTES}"]
    atheris.Setup([sys.argv[0], *limits, f"-seed={seed}", "-print_final_stats=1", str(kept)], check)
    atheris.Fuzz()


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), Path(sys.argv[5]))
