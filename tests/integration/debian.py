"""Programs of Debian's that tests need: those of the machine, else unpacked into a cache folder. Nothing is installed.

A machine that has neither them nor apt skips the tests that need them; a run of CI (`CI` is set) fails instead.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.local.jars import cache_folder

FETCH_SECONDS = 240.0
"""Chromium and what it needs are some 120 MB."""

Fetch = Callable[[Path, tuple[str, ...]], list[Path]]
"""Into that folder; gives the archives."""


@dataclass(frozen=True)
class Program:
    """`root`: of the tree it stands in."""

    root: Path
    path: Path
    environment: dict[str, str] = field(default_factory=dict)


def debian_program(path: str, *packages: str) -> Program:
    """`path` as it is once `packages` are installed, which then need not be."""
    if Path(path).exists():
        return Program(Path("/"), Path(path))
    return _program(path, packages, with_dependencies)


def sid_program(path: str, *packages: str) -> Program:
    """`path` of packages of the newest suite. Without what they depend on: for programs that need nothing but a C
    library, and whose version here is too old."""
    return _program(path, packages, from_sid)


def _program(path: str, packages: tuple[str, ...], fetch: Fetch) -> Program:
    try:
        root = unpacked(packages, fetch)
    except (OSError, subprocess.SubprocessError) as missing:
        told = f"{path} is not here, and {' '.join(packages)} could not be unpacked: {missing}"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(told)
    libraries = sorted({str(one.parent) for one in root.rglob("lib*.so*")})
    environment = {"LD_LIBRARY_PATH": ":".join(libraries), "XDG_DATA_HOME": str(root / "usr/share")}
    return Program(root, root / path.lstrip("/"), environment)


def unpacked(packages: tuple[str, ...], fetch: Fetch) -> Path:
    """The root of a tree with these packages. Raises OSError or SubprocessError."""
    root = cache_folder() / "debian" / "_".join(packages)
    if not root.exists():
        _unpack(root, packages, fetch)
    return root


def _unpack(root: Path, packages: tuple[str, ...], fetch: Fetch) -> None:
    """The folder appears by one rename."""
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root.parent) as work:
        tree = Path(work, "tree")
        tree.mkdir()
        for archive in fetch(Path(work), packages):
            _run("dpkg-deb", "--extract", str(archive), str(tree))
        shutil.move(tree, root)


def with_dependencies(work: Path, packages: tuple[str, ...]) -> list[Path]:
    """Returns the packages with all they depend on that is not here."""
    apt = _apt(work)
    _run(*apt, "update")
    _run(*apt, "install", "--yes", "--download-only", "--no-install-recommends", *packages)
    return list((work / "cache" / "archives").glob("*.deb"))


def from_sid(work: Path, packages: tuple[str, ...]) -> list[Path]:
    """Fetches from where the machine has its own packages."""
    archive = Path("/etc/apt/sources.list.d/debian.sources").read_text().partition("\n\n")[0]
    sources = work / "sources"
    sources.mkdir()
    (sources / "sid.sources").write_text(re.sub(r"(?m)^Suites:.*$", "Suites: sid", archive))
    apt = [*_apt(work), "-o", "Dir::Etc::SourceList=/dev/null", "-o", f"Dir::Etc::SourceParts={sources}"]
    _run(*apt, "update")
    _run(*apt, "download", *packages, folder=work)
    return list(work.glob("*.deb"))


def _apt(work: Path) -> list[str]:
    """Runs apt with lists and archives of its own, so that it needs no rights."""
    state, archives = work / "state", work / "cache" / "archives"
    for folder in (state / "lists" / "partial", archives / "partial"):
        folder.mkdir(parents=True)
    settings = {
        "Dir::State": state,
        "Dir::State::status": "/var/lib/dpkg/status",
        "Dir::Cache": archives.parent,
        "Debug::NoLocking": "1",
        "APT::Sandbox::User": "",
    }
    return ["apt-get", "-qq", *(part for name, value in settings.items() for part in ("-o", f"{name}={value}"))]


def _run(*command: str, folder: Path | None = None) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False, cwd=folder)
    if done.returncode:
        raise OSError(f"{command[0]}: {done.stderr.strip()[-500:]}")
