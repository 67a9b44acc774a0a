"""The whole configuration of a mesh. One file says it for every part; each takes what it needs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, PrivateAttr

from gateway.config.auth import AuthSettings
from gateway.config.kafka import KafkaSettings
from gateway.config.listeners import Endpoint, Link, Listener
from gateway.config.section import FILES, NAME, PATH, STATE, RelativePath, WholeSeconds
from gateway.config.settings import (
    DEFAULT_LANES,
    EdgeSettings,
    EventsSettings,
    IdentitySettings,
    Limits,
    PermissionSettings,
    RouterSettings,
    RuleSettings,
    TelemetrySettings,
)
from gateway.config.topics import TopicName
from gateway.core.permissions import Permissions, Rule
from gateway.core.section import Section
from gateway.core.yaml_files.faults import Fault

SHARED_LIMITS = {
    "in_flight_bytes": "all of an edge wait for Kafka together",
    "held_bytes": "all of an edge is held in one memory",
    "open_requests": "all of an edge share them",
    "subscriptions_per_mesh": "all of the mesh share them",
}
"""Limits that say nothing in a listener or link, and why."""


class Config(Section):
    mesh: Annotated[str, Field(pattern=NAME)]
    """The mesh's name is the prefix of every topic, which a `.` ends. It holds no `.` itself, so that no two meshes'
    topics differ in `.` for `_` alone, which Kafka refuses."""
    identity: IdentitySettings = IdentitySettings()
    """The gateway is a node of its own mesh; this says which, and with which keys it signs."""
    kafka: KafkaSettings = KafkaSettings()
    """This section says where Kafka is, how clients prove themselves to it, and what each topic keeps."""
    edge: EdgeSettings = EdgeSettings()
    """This section is about the edge, which holds the peers' connections."""
    listeners: tuple[Listener, ...] = ()
    """Each listener is one address that peers connect to, with one protocol."""
    peers: tuple[Link, ...] = ()
    """Each link is a peer that the edge dials and keeps connected."""
    trust: RelativePath = Field(default="keys.yaml", validate_default=True)
    """The trust store is the file with every node's keys and the gateway's own. It is read again when it changes;
    relative paths start at this file."""
    permissions: tuple[PermissionSettings, ...] = ()
    """The first rule that matches a node decides what it may do. A node that no rule matches may do everything but
    publish and serve under `mesh.`."""
    auth: AuthSettings = AuthSettings()
    """This section says whose tokens are believed, where peers log in by one."""
    rules: tuple[RuleSettings, ...] = ()
    """Each rule is streaming Spark SQL over the table `events`, and makes new events."""
    limits: Limits = Limits()
    """These limits hold for every listener and link; any of them may stand in a listener or link too, and then holds
    there."""
    replay_window_seconds: WholeSeconds = 300
    """A signed packet may be at most this old, and its repeat is recognised for as long. Longer lets slow devices in,
    and costs state for every packet of that time."""
    clock_skew_seconds: WholeSeconds = 120
    """A peer's clock may be at most this far ahead of ours. Two minutes cover devices that set their clocks rarely."""
    request_timeout_seconds: WholeSeconds = 30
    """A request that has no answer by then fails with `timeout`; progress prolongs the time. Half a minute is what most
    clients wait themselves."""
    events: EventsSettings = EventsSettings()
    """This section says how the topic `events` is written."""
    telemetry: TelemetrySettings = TelemetrySettings()
    """This section says what is exported beside metrics and logs."""
    router: RouterSettings = Field(default_factory=dict, validate_default=True)
    """This section is about the router, the streaming job that decodes and routes."""

    _path: Path = PrivateAttr(default=Path("meshgate.yaml"))
    _files: tuple[Path, ...] = PrivateAttr(default=())
    _state: Path = PrivateAttr(default=Path())

    def model_post_init(self, context: Any, /) -> None:
        if context:
            self._path = context[PATH]
            self._files = tuple(context[FILES])
            self._state = context[STATE]

    @property
    def path(self) -> Path:
        """The file this was read from."""
        return self._path

    @property
    def files(self) -> tuple[Path, ...]:
        """Returns all files that were read. A change of any of them is a change of the configuration."""
        return (self._path, *self._files)

    @property
    def state_dir(self) -> Path:
        """The folder of what must outlive the parts: the file's folder unless `--dir` said otherwise."""
        return self._state

    @property
    def edge_ordinal(self) -> int:
        return self.edge.ordinal

    @property
    def lanes(self) -> int:
        """The number of the router's lanes: one for each raw partition."""
        return self.kafka.topic("raw").partitions

    def warnings(self) -> list[Fault]:
        """Returns what is no fault, but works otherwise than it reads."""
        reasons = {
            f"{section}[{at}].{limit}": f"{why}: only limits.{limit} holds"
            for section, endpoints in (("listeners", self.listeners), ("peers", self.peers))
            for at, endpoint in enumerate(endpoints)
            for limit, why in SHARED_LIMITS.items()
            if limit in endpoint.limits
        }
        if self.router.lanes not in (DEFAULT_LANES, self.lanes):
            reasons["router.lanes"] = f"it has no effect: each of the {self.lanes} raw partitions has a lane of its own"
        return [Fault(str(self._path), place, why) for place, why in reasons.items()]

    def topic(self, name: TopicName) -> str:
        """Returns the full name of a topic.

        >>> Config(mesh="demo").topic("raw")
        'demo.raw'
        """
        return f"{self.mesh}.{name}"

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Returns all listeners and links. They share one name space: a frame is recorded under the name it came by."""
        return (*self.listeners, *self.peers)

    def for_router(self) -> Self:
        """Returns what decides about frames. The secrets of connections stay with the edge that holds them."""
        listeners = tuple(listener.for_router() for listener in self.listeners)
        links = tuple(link.for_router() for link in self.peers)
        return self.model_copy(update={"listeners": listeners, "peers": links, "auth": AuthSettings()})

    def endpoint(self, name: str) -> Endpoint:
        """Raises KeyError."""
        for endpoint in self.endpoints:
            if endpoint.name == name:
                return endpoint
        raise KeyError(name)

    def listener_limits(self, name: str) -> Limits:
        """Returns the mesh's limits with those of this listener or link."""
        return self.endpoint(name).limits_over(self.limits)

    def permissions_policy(self) -> Permissions:
        return Permissions(tuple(map(self._rule, self.permissions)))

    def _rule(self, settings: PermissionSettings) -> Rule:
        """Fails closed: a listener that is not in the file any more counts as exposed."""
        rule = settings.rule()
        hidden = frozenset(listener.name for listener in self.listeners if not listener.is_exposed)
        match settings.exposed:
            case None:
                return rule
            case True:
                return replace(rule, besides=hidden)
            case False:
                return replace(rule, listeners=tuple(filter(rule.concerns, sorted(hidden))))
