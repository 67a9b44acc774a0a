"""The project's images from its own Dockerfiles, as archives for the node.

    python -m tests.cluster.images PAUSE      in a mount namespace of its own; prints nothing but what the builds say

The base is Debian by debootstrap: it stands in for the public one, which comes from a registry of images.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from gateway import __version__
from tests.cluster.programs import CACHE, debian, lay_over

ROOT = Path(__file__).parents[2]
BASE = "localhost/meshgate-base:bookworm"
BASE_PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
NEXT = f"{__version__}-next"
"""The same images under another version: what an upgrade goes to."""
IMAGES = {
    "edge": ("gateway/Dockerfile", "", (__version__, NEXT)),
    "router": ("streaming_jobs/Dockerfile", "router", (__version__, NEXT)),
    "broker": ("streaming_jobs/Dockerfile", "broker", (__version__,)),
}
PAUSE = "meshgate/pause:1"
OF_THE_MACHINE = (Path("/etc/pip.conf"), Path("/etc/ssl/certs/ca-certificates.crt"))
"""How this machine reaches the registries: for the build alone."""


def archives() -> list[Path]:
    return [CACHE / "images" / f"{name}.tar" for name in ("pause", *IMAGES)]


def main(pause: Path) -> None:
    """An archive is written anew when its image is another."""
    lay_over(debian())
    (CACHE / "images").mkdir(parents=True, exist_ok=True)
    if not _buildah("images", "--quiet", "--filter", f"reference={PAUSE}"):
        _buildah_from_nothing(pause, "/pause", PAUSE, "--entrypoint", '["/pause"]')
    _archive("pause", (PAUSE,))
    if not _buildah("images", "--quiet", "--filter", f"reference={BASE}"):
        _buildah_from_nothing(_bootstrapped(), "/", BASE, "--env", "LANG=C.UTF-8")
    for name, (dockerfile, target, versions) in IMAGES.items():
        tags = [f"meshgate/{name}:{version}" for version in versions]
        _build(dockerfile, target, tags)
        _archive(name, tags)


def _build(dockerfile: str, target: str, tags: list[str]) -> None:
    options = ["--isolation", "chroot", "--pull=never", "--layers", "--build-arg", f"BASE={BASE}", "--file", dockerfile]
    options += [f"--target={target}"] * bool(target) + [f"--tag={tag}" for tag in tags]
    options += [f"--volume={path}:{path}:ro" for path in OF_THE_MACHINE if path.exists()]
    print(f"building {tags[0]}", flush=True)
    _buildah("build", *options, str(ROOT))


def _bootstrapped() -> Path:
    """Returns where this machine has its own packages from."""
    root = CACHE / "base"
    if not (root / "usr/bin/python3").exists():
        mirror = re.search(r"(?m)^URIs: (\S+)", Path("/etc/apt/sources.list.d/debian.sources").read_text())
        assert mirror is not None
        print("making the base with debootstrap", flush=True)
        command = ["debootstrap", "--variant=minbase", f"--include={BASE_PACKAGES}", "bookworm", str(root), mirror[1]]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return root


def _buildah_from_nothing(content: Path, place: str, tag: str, *config: str) -> None:
    container = _buildah("from", "scratch")
    _buildah("add", "--quiet", container, str(content), place)
    _buildah("config", *config, container)
    _buildah("commit", "--quiet", "--rm", "--disable-compression", container, tag)


def _archive(name: str, tags: tuple[str, ...] | list[str]) -> None:
    path = CACHE / "images" / f"{name}.tar"
    stamp = path.with_suffix(".id")
    identity = _buildah("images", "--quiet", "--no-trunc", "--filter", f"reference={tags[0]}").splitlines()[0]
    said = "\n".join([identity, *tags])
    if path.exists() and stamp.exists() and stamp.read_text() == said:
        return
    path.unlink(missing_ok=True)
    _buildah("push", "--quiet", tags[0], f"docker-archive:{path}:docker.io/{tags[0]}")
    stamp.write_text(said)


def _buildah(verb: str, *arguments: str) -> str:
    store = ["--root", str(CACHE / "storage"), "--runroot", str(CACHE / "storage-run"), "--storage-driver", "overlay"]
    command = ["nice", "buildah", *store, verb, *arguments]
    output = None if verb == "build" else subprocess.PIPE
    environment = os.environ | {"CONTAINERS_CONF": str(_buildah_settings())}
    done = subprocess.run(command, stdout=output, text=True, check=True, cwd=ROOT, env=environment)
    return (done.stdout or "").strip()


def _buildah_settings() -> Path:
    """Returns buildah's settings. Where the machine has podman, buildah writes a lock beside its networks, which are in
    /etc, and that is read-only here."""
    path = CACHE / "containers.conf"
    path.write_text(f'[network]\nnetwork_config_dir = "{CACHE / "networks"}"\n')
    return path


if __name__ == "__main__":
    main(Path(sys.argv[1]))
