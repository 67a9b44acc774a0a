"""Fetches what the contenders need: a virtual environment in a minute, and Bento, built from its Go module in some ten.

python -m tests.bench.peers.prepare [--without-bento]
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from tests.bench.peers.tools import Tools

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
BENTO = "github.com/warpstreamlabs/bento@v1.15.0"
KINDNESS = 15
"""The build takes what others leave; one package at a time."""


def main() -> int:
    tools = Tools.find()
    if not tools.nats_server.exists():
        venv.create(tools.environment, with_pip=True)
        subprocess.run([tools.python, "-m", "pip", "install", "-q", "-r", REQUIREMENTS], check=True)
    print(f"Python contenders: {tools.environment}")
    if "--without-bento" not in sys.argv and not tools.bento.exists():
        if shutil.which("go") is None:
            print("no Bento: its build needs Go")
            return 1
        _build_bento(tools)
    print(f"Bento: {tools.bento if tools.bento.exists() else 'left out'}")
    return 0


def _build_bento(tools: Tools) -> None:
    """A copy of the module, for it replaces modules of its own, which `go install` refuses."""
    environment = os.environ | {"GOWORK": "off", "CGO_ENABLED": "0", "GOFLAGS": "-p=1"}
    told = subprocess.run(
        ["go", "mod", "download", "-json", BENTO], check=True, capture_output=True, env=environment, text=True
    )
    source = tools.folder / "bento-source"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(json.loads(told.stdout)["Dir"], source, copy_function=shutil.copy)
    for path in (source, *source.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
    tools.bento.parent.mkdir(parents=True, exist_ok=True)
    build = ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", str(tools.bento), "./cmd/bento"]
    subprocess.run(build, check=True, cwd=source, env=environment, preexec_fn=lambda: os.nice(KINDNESS))
    shutil.rmtree(source)


if __name__ == "__main__":
    sys.exit(main())
