"""Programs of the cluster: from Debian where it has them, else built from their sources. Kept in a cache."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from gateway.local.jars import cache_folder
from tests.integration.debian import from_sid, unpacked, with_dependencies

KUBERNETES = "1.36.4"
COREDNS = "1.15.0"
BUILT = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
STABLE = ("debootstrap", "buildah", "runc", "nftables", "iproute2")
SID = ("etcd-server", "containerd", "containernetworking-plugins")
"""The stable suite's are too old. They need nothing but a C library."""
DEFINITIONS = {
    "gateway": ("sigs.k8s.io/gateway-api@v1.6.0", "config/crd/standard"),
    "cert-manager": ("github.com/cert-manager/cert-manager@v1.21.2", "deploy/crds"),
    "keda": ("github.com/kedacore/keda/v2@v2.21.0", "config/crd/bases"),
    "prometheus": ("github.com/prometheus-operator/prometheus-operator@v0.85.0", "example/prometheus-operator-crd"),
}
"""What operators define, as their modules carry it. Those of Strimzi and of Spark are in no registry."""
VERSION = "k8s.io/component-base/version"
CACHE = cache_folder().with_name("meshgate-cluster")
NAMES = Path(__file__).with_name("names.go")


def debian() -> list[Path]:
    """Trees to be laid over this machine's, the first on top."""
    return [unpacked(SID, from_sid), unpacked(STABLE, with_dependencies)]


def built() -> Path:
    """The folder with what Debian does not have."""
    folder = CACHE / f"kubernetes-{KUBERNETES}-coredns-{COREDNS}"
    if not folder.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        print(f"building Kubernetes {KUBERNETES} and CoreDNS {COREDNS}: some 15 minutes of two cores, once", flush=True)
        with tempfile.TemporaryDirectory(dir=CACHE, prefix="build-") as work:
            _build(Path(work))
            Path(work, "bin").rename(folder)
            _go(Path(work), "clean", "-modcache", folder=Path(work))  # modules are read-only, folders too
    return folder


def definitions() -> Path:
    """The folder with what operators define; it is fetched anew when their versions change."""
    digest = hashlib.sha256(repr(sorted(DEFINITIONS.items())).encode()).hexdigest()[:12]
    folder = CACHE / f"definitions-{digest}"
    if not folder.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE, prefix="build-") as work:
            made = Path(work, "definitions")
            for name, (module, part) in DEFINITIONS.items():
                shutil.copytree(_fetched(Path(work), module) / part, made / name, copy_function=shutil.copyfile)
            made.rename(folder)
            _go(Path(work), "clean", "-modcache", folder=Path(work))
    return folder


def _build(work: Path) -> None:
    (work / "bin").mkdir()
    kubernetes = _sources(work, f"k8s.io/kubernetes@v{KUBERNETES}")
    _publish_staging(work, kubernetes)
    major, minor, _ = KUBERNETES.split(".")
    stamps = {"gitVersion": f"v{KUBERNETES}", "gitMajor": major, "gitMinor": minor}
    flags = " ".join(["-s -w", *(f"-X {VERSION}.{name}={value}" for name, value in stamps.items())])
    packages = [f"./cmd/{name}" for name in BUILT]
    _go(work, "build", "-trimpath", f"-ldflags={flags}", "-o", f"{work}/bin/", *packages, folder=kubernetes)
    pause = kubernetes / "build" / "pause" / "linux" / "pause.c"
    _run("cc", "-static", "-Os", "-o", str(work / "bin" / "pause"), str(pause), folder=work)
    coredns = _sources(work, f"github.com/coredns/coredns@v{COREDNS}")
    (coredns / "names").mkdir()
    shutil.copy(NAMES, coredns / "names" / "main.go")
    _go(work, "build", "-trimpath", "-ldflags=-s -w", "-o", f"{work}/bin/coredns", "./names", folder=coredns)


def _sources(work: Path, module: str) -> Path:
    """A copy that can be written to."""
    copy = work / module.partition("@")[0].rpartition("/")[2]
    shutil.copytree(_fetched(work, module), copy)
    for path in [copy, *copy.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)
    return copy


def _fetched(work: Path, module: str) -> Path:
    return Path(json.loads(_go(work, "mod", "download", "-json", module, folder=work))["Dir"])


def _publish_staging(work: Path, kubernetes: Path) -> None:
    """Kubernetes' module refers to parts of itself by path, which are modules of their own when it is published."""
    parts = json.loads(_go(work, "mod", "edit", "-json", folder=kubernetes))["Replace"]
    staged = [part["Old"]["Path"] for part in parts if "staging" in part["New"]["Path"]]
    minor = KUBERNETES.partition(".")[2]
    replacements = [f"-replace={path}={path}@v0.{minor}" for path in staged]
    for left in ("vendor", "go.work", "go.work.sum"):
        path = kubernetes / left
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    _go(work, "mod", "edit", *replacements, folder=kubernetes)


def _go(work: Path, *arguments: str, folder: Path) -> str:
    own = {"GOPATH": work / "go", "GOCACHE": work / "cache", "GOWORK": "off", "CGO_ENABLED": "0"}
    environment = {name: str(value) for name, value in own.items()} | {"GOFLAGS": "-mod=mod -p=2 -buildvcs=false"}
    return _run("nice", "go", *arguments, folder=folder, **environment)


def _run(*command: str, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=os.environ | environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def lay_over(trees: list[Path]) -> None:
    """Programs as if they were installed, for this mount namespace alone, which must be one of our own."""
    for folder in ("usr", "etc"):
        layers = ":".join(
            str(layer) for layer in [*(tree / folder for tree in trees), Path("/", folder)] if layer.is_dir()
        )
        _run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={layers}", f"/{folder}", folder=Path("/"))
