"""Grafana's server, built from its Go module into a cache folder: some ten minutes, once.

The module has neither the pages nor the code that Grafana's own build generates. So this server answers its API and
nothing else, which is all that is asked of it; and `wire` has to write what puts its parts together.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from gateway.local.jars import cache_folder
from tests.go_modules import copied, kindly

VERSION = "10.1.0-pre"
MODULE = "github.com/grafana/grafana@v1.9.2-0.20230609164553-81d85ce8028d"
"""The one version of it that can be had whole as a module."""
WIRE = "github.com/google/wire/cmd/wire@v0.7.0"
READ = ("conf", "public")
"""What the server reads of its source when it starts."""
GOFLAGS = "-p=2 -buildvcs=false -mod=mod"


def grafana_home() -> Path:
    """Returns where it is, with its program as `bin/grafana`; built first if it is not in the cache."""
    home = cache_folder() / "tools" / f"grafana-{VERSION}"
    if not home.exists():
        if missing := [tool for tool in ("go", "gcc") if shutil.which(tool) is None]:
            raise SystemExit(f"Grafana's server is built from source, which needs {' and '.join(missing)}")
        print(f"building Grafana {VERSION}: some ten minutes, once", flush=True)
        _build(home)
    return home


def _build(home: Path) -> None:
    """The folder appears by one rename."""
    work = home.with_name(f"{home.name}.building")
    source, tools, done = work / "source", work / "tools", work / "done"
    work.mkdir(parents=True, exist_ok=True)
    copied(MODULE, source)
    kindly("go", "install", WIRE, GOBIN=str(tools))
    kindly(str(tools / "wire"), "gen", "-tags", "oss", "./pkg/server", folder=source, GOFLAGS=GOFLAGS)
    flags = f"-ldflags=-s -w -X main.version={VERSION}"
    build = ["go", "build", "-trimpath", flags, "-o", str(done / "bin" / "grafana"), "./pkg/cmd/grafana"]
    kindly(*build, folder=source, GOFLAGS=GOFLAGS, CGO_ENABLED="1")
    for part in READ:
        shutil.copytree(source / part, done / part)
    done.rename(home)
    shutil.rmtree(work)
