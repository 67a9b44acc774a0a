"""The parts of a running mesh, as their management addresses tell of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Any

from gateway.config import Config
from gateway.core.address import HostPort
from gateway.core.errors import SetupError

ANSWER_SECONDS = 5.0
"""The management answers from threads of its own, so one that takes longer is not there."""


@dataclass(frozen=True, slots=True)
class MeshPart:
    """One part of the mesh and its management address.

    `name` is its name for people. `setting` names the setting of its address. Asking raises SetupError if the part
    cannot be reached.
    """

    name: str
    setting: str
    address: HostPort

    def json(self, path: str) -> Any:
        return json.loads(self._get(path))

    def readiness(self) -> dict[str, Any]:
        """Returns what `/healthz/ready` says: `status`, what is `missing`, what is `away`."""
        _, body = self._ask("GET", "/healthz/ready")
        answer: dict[str, Any] = json.loads(body)
        return answer

    def text(self, path: str) -> str:
        return self._get(path).decode()

    def post(self, path: str) -> tuple[int, Any]:
        """Posts a command. Returns status and answer; the caller reports a refusal."""
        status, body = self._ask("POST", path)
        return status, json.loads(body)

    def _get(self, path: str) -> bytes:
        status, body = self._ask("GET", path)
        if status == HTTPStatus.FORBIDDEN:
            raise SetupError(f"{self.setting} {self.address}: {json.loads(body)['error']}")
        if status != HTTPStatus.OK:
            raise SetupError(f"{self.setting} {self.address} has no {path}: is it {self.name} of this version?")
        return body

    def _ask(self, method: str, path: str) -> tuple[int, bytes]:
        """Asks directly: what a proxy in the environment is for is elsewhere."""
        connection = HTTPConnection(self.address.host, self.address.port, timeout=ANSWER_SECONDS)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, HTTPException) as failed:
            why = (failed.strerror if isinstance(failed, OSError) else None) or type(failed).__name__
            raise SetupError(
                f"{self.setting} {self.address} does not answer ({why}): is {self.name} running?"
            ) from None
        finally:
            connection.close()


def edge_parts(config: Config, addresses: tuple[HostPort, ...] = ()) -> list[MeshPart]:
    """Returns the edges at the addresses given, or else the one of the configuration."""
    if addresses:
        return [MeshPart("an edge", "--edge", address.reachable) for address in addresses]
    return [MeshPart("the edge", "edge.management", config.edge.management.reachable)]


def router_part(config: Config, address_given: HostPort | None = None) -> MeshPart:
    if address_given is not None:
        return MeshPart("the router", "--router", address_given.reachable)
    return MeshPart("the router", "router.management", config.router.management.reachable)
