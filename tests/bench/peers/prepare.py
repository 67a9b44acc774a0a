"""Fetches what the contenders need: a virtual environment in a minute, and Bento, built from its Go module in some ten.

python -m tests.bench.peers.prepare [--without-bento]
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

from tests.bench.peers.tools import Tools
from tests.go_modules import copied, kindly

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
BENTO = "github.com/warpstreamlabs/bento@v1.15.0"


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
    source = tools.folder / "bento-source"
    copied(BENTO, source)
    tools.bento.parent.mkdir(parents=True, exist_ok=True)
    kindly("go", "build", "-trimpath", "-ldflags=-s -w", "-o", str(tools.bento), "./cmd/bento", folder=source)
    shutil.rmtree(source)


if __name__ == "__main__":
    sys.exit(main())
