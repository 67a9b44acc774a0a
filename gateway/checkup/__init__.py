"""The doctor: looks at a mesh from its configuration to its sockets, and says what is wrong and what to do."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from gateway.checkup.access import check_access
from gateway.checkup.files import file_advice, file_faults
from gateway.checkup.findings import Finding, Level
from gateway.checkup.kafka import check_kafka
from gateway.checkup.machine import check_machine
from gateway.checkup.parts import check_parts
from gateway.checkup.trust import check_trust
from gateway.config import Config
from gateway.inspect.live.mesh_parts import MeshPart

GROUPS = ("configuration", "machine", "kafka", "trust", "access", "parts")


@dataclass(frozen=True, slots=True)
class Checkup:
    """Everything that a checkup looks at.

    Args:
        parts: the management addresses of the edges and the router.
        is_running: a mesh runs on this machine from this configuration.
    """

    config: Config
    parts: list[MeshPart]
    is_running: bool

    def run(self, groups: Collection[str] = GROUPS) -> Iterator[Finding]:
        """Yields the findings of the groups as they are made."""
        checks: dict[str, Callable[[], Iterator[Finding]]] = {
            "configuration": self._configuration,
            "machine": lambda: check_machine(self.config, is_running=self.is_running),
            "kafka": lambda: check_kafka(self.config),
            "trust": lambda: check_trust(self.config, datetime.now(UTC)),
            "access": lambda: check_access(self.config),
            "parts": lambda: check_parts(self.parts),
        }
        for group in GROUPS:
            if group in groups:
                yield from checks[group]()

    def _configuration(self) -> Iterator[Finding]:
        faults = file_faults(self.config)
        advice = [] if faults else [*self.config.warnings(), *file_advice(self.config)]
        for fault in faults:
            yield Finding("configuration", Level.FAIL, str(fault), "meshgate validate")
        for fault in advice:
            yield Finding("configuration", Level.WARN, str(fault), f"meshgate explain {shlex.quote(fault.path)}")
        if not faults and not advice:
            yield Finding("configuration", Level.OK, f"{self.config.path.name} is valid")
