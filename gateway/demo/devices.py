"""The devices of the demo: their names, and keys of their own in the trust store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from gateway.auth import trust_file
from gateway.auth.key_admin import new_key
from gateway.client import PacketKey, find_key
from gateway.config import Config
from gateway.core.clock import now_us
from gateway.core.errors import SetupError

NAMES = ("garden sensor", "kitchen sensor", "cellar sensor", "roof sensor", "gate sensor", "well sensor")
MOST_DEVICES = len(NAMES)
KEYS_HOLD = timedelta(days=365)
"""Keys for trying things on come to an end by themselves. A later demo makes others."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device that signs its packets. `is_new`: the mesh may not have read its key yet."""

    name: str
    key: PacketKey
    is_new: bool

    @property
    def subject(self) -> str:
        return f"demo.{self.name.split()[0]}.temperature"


def demo_devices(config: Config, count: int) -> list[Device]:
    """Returns the first devices, with keys that are made the first time.

    Raises SetupError where the trust store cannot be written.
    """
    try:
        return [_device(config.trust, config.mesh, name) for name in NAMES[:count]]
    except OSError as refused:
        raise SetupError(f"trust: {config.trust} takes no keys for the demo's devices: {refused.strerror}") from None


def _device(trust: Path, mesh: str, name: str) -> Device:
    """The node follows from the names, so a second demo finds the keys of the first."""
    node = uuid5(NAMESPACE_URL, f"meshgate-demo/{mesh}/{name}")
    now = now_us()
    keys = trust_file.load(trust).keys.nodes.get(node.bytes, {}) if trust.exists() else {}
    key_id = next((key.key_id.hex() for key in keys.values() if key.hmac is not None and key.valid_at(now)), None)
    is_new = key_id is None
    if key_id is None:
        key_id = new_key(trust, str(node), label=name, not_after=datetime.now(UTC) + KEYS_HOLD).key_id
    return Device(name, find_key(f"{node}/{key_id}", trust_file.load(trust).keys), is_new)
