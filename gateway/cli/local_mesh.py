"""Finds the mesh that `meshgate up` runs on this machine: its configuration, its state folder, its record."""

from __future__ import annotations

from pathlib import Path

from gateway.config import ConfigError, Fault, find_config
from gateway.config.default import FILE_NAME
from gateway.local import mesh_record
from gateway.local.mesh_record import MeshRecord

DEFAULT_DIR = Path("mesh")
STATE, LOGS = "state", "logs"


def own_config(state_dir: Path | None) -> Path:
    """Returns where `up` writes a configuration of its own."""
    return (state_dir or DEFAULT_DIR) / FILE_NAME


def existing_config(state_dir: Path | None) -> Path | None:
    """Returns the configuration that `up` takes when none is named: ./meshgate.yaml, or the one in DIR.

    A DIR that was named goes first.
    """
    own, here = own_config(state_dir), Path(FILE_NAME)
    return next((path for path in ((own, here) if state_dir else (here, own)) if path.is_file()), None)


class MeshFolder:
    """The mesh of one state folder. Its configuration is not read: a broken one must not keep a mesh from ending.

    Raises ConfigError where a configuration is named that was never there: no mesh runs where nobody looked for it.
    """

    def __init__(self, config_file: str | None, state_dir: Path | None) -> None:
        config = Path(config_file) if config_file is not None else existing_config(state_dir)
        self.folder = state_dir or (config or find_config()).parent
        self.record_path = self.folder / STATE / mesh_record.FILE_NAME
        self.logs = self.folder / STATE / LOGS
        if config_file is not None and not (Path(config_file).exists() or (self.folder / STATE).exists()):
            raise ConfigError([Fault(config_file, "", "cannot read it: no such file")])

    def record(self) -> MeshRecord | None:
        return MeshRecord.read(self.record_path)
