"""Whoever runs a checkout with an old Python is told so in one line."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIRST_READ = pytest.mark.parametrize("path", ["gateway/__init__.py", "setup.py"])


@FIRST_READ
def test_says_so_in_one_line(path: str) -> None:
    program = f"import sys; sys.version_info = (3, 10, 13); exec(open({path!r}).read())"
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (1, "Meshgate needs Python 3.11 or newer, and this is Python 3.10\n")


@FIRST_READ
def test_can_be_read_by_the_oldest(path: str) -> None:
    tree = ast.parse((ROOT / path).read_text(), feature_version=(3, 4))
    assert not [node for node in ast.walk(tree) if isinstance(node, (ast.JoinedStr, ast.AnnAssign))]
