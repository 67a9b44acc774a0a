"""The settings of a pipeline: one JSON file, named by its only argument."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Settings:
    """Ports of this machine. `server`: of the broker. `keys`: HMAC secrets by node and key id, as hex."""

    listen: int
    deliver: int
    server: int
    topic: str
    partitions: int
    keys: dict[str, str]
    window_seconds: int
    folder: str


def read_settings() -> Settings:
    return Settings(**json.loads(Path(sys.argv[1]).read_text()))
