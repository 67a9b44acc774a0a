"""Fetches the pinned jars (jars.yaml) once per user, by coordinates, with the Ivy that pyspark carries.

A set lies in the cache under a name made of its own pins, so a changed pin is a new folder. The folder appears by one
rename, when every jar is there and has the right SHA-256: a fetch that fails or is killed leaves no half set behind.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from xml.sax.saxutils import quoteattr

import yaml

from gateway.core.errors import SetupError
from gateway.local.java import Java

FETCH_SECONDS = 900  # 44 MB over a slow line
_IVY_MODULE = """<ivy-module version="2.0"><info organisation="meshgate" module="{name}"/>
<configurations><conf name="default"/></configurations><dependencies>{dependencies}</dependencies></ivy-module>"""
# Non-transitive, `master` only: exactly the artifacts that are pinned, whatever their poms say.
_DEPENDENCY = '<dependency org={0} name={1} rev={2} transitive="false" conf="default->master"/>'


@dataclass(frozen=True, slots=True)
class JarSet:
    name: str
    pins: dict[str, str]

    @property
    def folder_name(self) -> str:
        pinned = "\n".join(f"{coordinate} {digest}" for coordinate, digest in sorted(self.pins.items()))
        return f"{self.name}-{hashlib.sha256(pinned.encode()).hexdigest()[:16]}"


def jar_set(name: str) -> JarSet:
    pinned = yaml.safe_load(resources.files("gateway.local").joinpath("jars.yaml").read_text())
    return JarSet(name, pinned[name])


def cache_folder() -> Path:
    """Returns `MESHGATE_CACHE`, or else the user's cache folder."""
    if chosen := os.environ.get("MESHGATE_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "meshgate"


def jar_set_is_cached(name: str) -> bool:
    return _folder(jar_set(name)).is_dir()


def _folder(wanted: JarSet) -> Path:
    return cache_folder() / "jars" / wanted.folder_name


def ensure_jars(name: str, java: Java) -> list[Path]:
    """Returns the paths of the set's jars, and fetches them if this user has not got them yet."""
    wanted = jar_set(name)
    folder = _folder(wanted)
    if not folder.is_dir():
        _fetch(wanted, folder, java)
    return sorted(folder.glob("*.jar"))


def _fetch(wanted: JarSet, folder: Path, java: Java) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{wanted.name}-", dir=folder.parent))
    except OSError as error:
        raise SetupError(
            f"cannot write the jar cache {folder.parent}: {error.strerror}; set MESHGATE_CACHE to another folder"
        ) from error
    try:
        _retrieve(wanted, work, java)
        _verify(wanted, work / "jars")
        try:
            (work / "jars").rename(folder)
        except OSError:
            if not folder.is_dir():  # another process may have been first, with the same jars
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _retrieve(wanted: JarSet, work: Path, java: Java) -> None:
    dependencies = "".join(_DEPENDENCY.format(*map(quoteattr, pin.split(":"))) for pin in wanted.pins)
    module = work / "ivy.xml"
    module.write_text(_IVY_MODULE.format(name=wanted.name, dependencies=dependencies))
    command = [java.executable, "-cp", str(spark_jars() / "*"), "org.apache.ivy.Main", "-ivy", str(module)]
    command += ["-cache", str(work / "cache"), "-types", "jar", "bundle", "-warn"]
    command += ["-retrieve", str(work / "jars" / "[organisation]--[artifact]-[revision].[ext]")]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise SetupError(f"the {wanted.name} jars did not arrive in {FETCH_SECONDS} s; try again") from None
    missing = [pin for pin in wanted.pins if not (work / "jars" / _file_name(pin)).is_file()]
    if run.returncode or missing:
        raise SetupError(
            f"could not fetch {len(missing) or 'the'} {wanted.name} jars from Maven Central"
            f" (first: {next(iter(missing), '?')}); check the network and run the command again"
        )


def _verify(wanted: JarSet, folder: Path) -> None:
    for pin, digest in wanted.pins.items():
        found = hashlib.sha256((folder / _file_name(pin)).read_bytes()).hexdigest()
        if found != digest:
            raise SetupError(f"{pin} has SHA-256 {found}, pinned is {digest}: refused; a mirror may serve a wrong file")


def _file_name(pin: str) -> str:
    organisation, artifact, revision = pin.split(":")
    return f"{organisation}--{artifact}-{revision}.jar"


def spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SetupError("pyspark is not installed here; `pip install '.[local]'` in the repository")
    return Path(spec.origin).parent


def spark_jars() -> Path:
    return spark_home() / "jars"
