"""The commented configuration that `init` writes, and `up` where there is none: every protocol, on loopback."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from uuid import UUID, uuid4

from gateway.protocols import protocols

FILE_NAME = "meshgate.yaml"
LOOPBACK = "127.0.0.1"
_PLAIN_SCHEMES = ("udp", "tcp")
_MESH, _NODE, _LISTENERS = "mesh: demo ", "00000000-0000-4000-8000-000000000000", "  - LISTENERS\n"
_PARTITIONS = "partitions: 4 "
PARTITIONS = range(1, 5)
"""One for every two cores of this machine, within this. A lane of one partition carries more than the rest of a mesh on
two cores does, and more lanes only wake more threads for the same frames: with two of them, 10,000 frames a second cost
123 µs each instead of 88."""


def write_default(
    directory: Path,
    *,
    name: str = FILE_NAME,
    mesh: str = "demo",
    node: UUID | None = None,
    overwrite: bool = False,
) -> Path:
    """Writes the file and returns its path. Raises FileExistsError unless told to overwrite."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    try:
        with path.open("w" if overwrite else "x", encoding="utf-8") as file:
            file.write(default_text(mesh, node or uuid4()))
    except OSError as failed:
        if failed.filename is None:  # it could be opened, and not written: the next start would read half of it
            path.unlink()
            raise OSError(failed.errno, failed.strerror, str(path)) from None
        raise
    return path


def default_text(mesh: str, node: UUID) -> str:
    template = files(__package__).joinpath("default.yaml").read_text(encoding="utf-8")
    padded = f"mesh: {mesh} ".ljust(len(_MESH))
    partitions = min(max((os.cpu_count() or 1) // 2, PARTITIONS.start), PARTITIONS.stop - 1)
    text = template.replace(_MESH, padded).replace(_NODE, str(node)).replace(_LISTENERS, "".join(_listeners()))
    return text.replace(_PARTITIONS, f"partitions: {partitions} ")


def _listeners() -> Iterator[str]:
    """Yields each protocol at its default port, and a WebSocket one port further, for browsers."""
    used_ports = {spec.default_port for spec in protocols().values()}
    for name, spec in sorted(protocols().items(), key=lambda item: item[1].default_port):
        scheme = next((scheme for scheme in _PLAIN_SCHEMES if scheme in spec.transports), None)
        if scheme is not None:
            yield _listener(name, name, scheme, spec.default_port)
        if "ws" in spec.transports and spec.default_port + 1 not in used_ports:
            yield _listener(f"{name}-ws", name, "ws", spec.default_port + 1)


def _listener(name: str, protocol: str, scheme: str, port: int) -> str:
    return f"  - {{name: {name}, protocol: {protocol}, listen: {scheme}://{LOOPBACK}:{port}}}\n"
