"""Tests what `gateway.config` offers, and who need not pay for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import gateway.config


def test_no_name_is_a_modules_name_too() -> None:
    """Importing such a module would put it in the name's place."""
    package = Path(gateway.config.__file__).parent
    assert not {path.stem for path in package.glob("*.py")} & set(gateway.config.__all__)


def test_a_verb_that_reads_keys_alone_does_not_import_the_models() -> None:
    code = "import sys, gateway.cli.keys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert not {"pydantic", "gateway.protocols", "gateway.config"} & set(done.stdout.split())
