"""The command line as a shell sees it: arguments in; exit code, output and complaints out."""

from __future__ import annotations

import json
import os
from typing import Any

from click.testing import CliRunner, Result

from gateway.cli import main


def run(*arguments: str, **environment: str | None) -> Result:
    """No configuration and no context of who runs the tests is taken."""
    nobody = {"NO_COLOR": None, "MESHGATE_CONFIG": None, "MESHGATE_CONTEXT": None, "XDG_CONFIG_HOME": os.devnull}
    return CliRunner().invoke(main, list(arguments), env={**nobody, **environment})


def said(result: Result) -> Any:
    """Returns what was printed with --output json."""
    return json.loads(result.stdout)
