"""An old Python is refused in one line: by pip, which runs setup.py, and where a checkout is run."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIRST_READ = ["setup.py", "gateway/__init__.py"]


@pytest.mark.parametrize("file", FIRST_READ)
def test_says_so_in_one_line(file: str) -> None:
    program = f"import sys; sys.version_info = (3, 10, 13); exec(open({file!r}).read())"
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (1, "Meshgate needs Python 3.11 or newer, and this is Python 3.10\n")


@pytest.mark.parametrize("file", FIRST_READ)
def test_can_be_read_by_the_oldest(file: str) -> None:
    tree = ast.parse((ROOT / file).read_text(), feature_version=(3, 4))
    assert not [node for node in ast.walk(tree) if isinstance(node, (ast.JoinedStr, ast.AnnAssign))]
