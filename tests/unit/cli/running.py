"""The command line as a shell sees it: arguments in; exit code, output and complaints out."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from gateway.cli import main


def run(*arguments: str, **environment: str | None) -> Result:
    return CliRunner().invoke(main, list(arguments), env={"NO_COLOR": None, "MESHGATE_CONFIG": None, **environment})


def said(result: Result) -> Any:
    """What was printed with --output json."""
    return json.loads(result.stdout)
