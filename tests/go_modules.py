"""Programs that are built from their Go module, kindly: the build takes what others leave."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

KINDNESS = 15
BASE = {"GOWORK": "off", "CGO_ENABLED": "0", "GOFLAGS": "-p=1 -buildvcs=false"}


def copied(module: str, source: Path) -> None:
    """A copy that can be built in, for `go install` refuses a module that replaces modules of its own."""
    command = ["go", "mod", "download", "-json", module]
    told = subprocess.run(command, check=True, capture_output=True, env=os.environ | BASE, text=True)
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(json.loads(told.stdout)["Dir"], source, copy_function=shutil.copy)
    for path in (source, *source.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)


def kindly(*command: str, folder: Path | None = None, **environment: str) -> None:
    """One command of a build. `environment` goes over what all of them have."""
    given = os.environ | BASE | environment
    subprocess.run(command, check=True, cwd=folder, env=given, preexec_fn=lambda: os.nice(KINDNESS))
