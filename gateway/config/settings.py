"""The sections that belong to no protocol: identity, edge, limits, permissions, rules, router."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AfterValidator, Field

from gateway.address import HostPort, HostPortField
from gateway.config.section import Bytes, Count, Milliseconds, Name, Pattern, Seconds, SecondsOrZero, Section, StatePath
from gateway.permissions import EVERYTHING, Grant, Rule
from gateway.protocols.request_budget import MOST_OPEN_REQUESTS

EDGE_ID = r"^(?:[A-Za-z0-9][A-Za-z0-9-]*-)?[0-9]{1,6}$"
HOST_NAME = r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?$"
HostName = Annotated[str, Field(pattern=HOST_NAME)]
HTTP_URL = r"^https?://[^/\s]+(/\S*)?$"
URL = r"^[A-Za-z][A-Za-z0-9+.-]*://\S+:[0-9]{1,5}(/\S*)?$"
_ORDINAL = re.compile(r"\d+$")


@lru_cache
def ordinal_of(edge: str) -> int:
    """An edge's egress partition: the number its id ends in."""
    found = _ORDINAL.search(edge)
    return int(found[0]) if found else 0


class Identity(Section):
    """The gateway as a node of its own mesh: what it signs with."""

    node: UUID | None = None
    """By default the node of the trust store's entry."""
    key: Name = "gateway"
    """The entry of the trust store that holds its keys."""


class RecordSettings(Section):
    """When a record of the raw log is closed: whichever comes first."""

    frames: Count = 400
    """More than 60,000 frames/s bring in one linger, so that a record is full only above that."""
    bytes: Bytes = 131_072
    """400 frames of 200 bytes with their columns fill two thirds of it."""
    linger_milliseconds: Milliseconds = 3
    """Between one leaving and the next; what comes later than that after the last goes at once. Half of it stands in
    the median latency of a busy mesh; 2 ms cost a third more processor time at 10,000/s, and 4 ms save a tenth."""


class EdgeSettings(Section):
    id: Annotated[str, Field(pattern=EDGE_ID)] = "edge-0"
    """Ends in a number, its ordinal, which picks its egress partition (a StatefulSet's pod name will do)."""
    management: HostPortField = HostPort("127.0.0.1", 9640)
    management_hosts: tuple[HostName, ...] = ()
    """Public names under which the management address answers, beside IP addresses, `localhost`, names without a domain
    and `*.svc`: those that scrapers and operators use. No other name is answered, since anybody can lead it here."""
    redirect_url: Annotated[str, Field(pattern=URL, max_length=65_535)] | None = None
    """Where peers are sent that can be redirected, when this edge drains."""
    notice_seconds: SecondsOrZero = 0
    """How long an edge that is told to end goes on as before, but is not ready, so that who balances load leads peers
    elsewhere while nobody is hurt. Datagrams to a socket that is gone already would be lost."""
    graceful_shutdown_limit_seconds: Seconds = 60
    record: RecordSettings = RecordSettings()

    @property
    def ordinal(self) -> int:
        return ordinal_of(self.id)


class Limits(Section):
    """Any of these may stand in a listener or link too, and then holds there."""

    connections: Count = 10_000
    handshake_seconds: Seconds = 5
    idle_seconds: Seconds = 300
    frame_bytes: Bytes = 1_048_576
    frames_per_second_per_session: Annotated[float, Field(gt=0)] | None = None
    """Beyond it a stream is read later, and datagrams of one address are dropped and counted. By default 20,000 for a
    stream, which is four times what the busiest peers that we have measured send. None for datagrams: signed ones are
    cheap to refuse, many devices may share an address, and an address can be forged to use up another's rate."""
    bytes_per_second_per_session: Bytes = 67_108_864
    """Beyond it a stream is read later. What a WebSocket decompresses counts as it comes out."""
    cpu_share_per_session: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Of the edge's one thread, what reading one stream may take: its XML, JSON, gzip and ciphers. Beyond it the stream
    is read later, so that a few kilobytes that take long to understand cost their sender, and nobody else. The busiest
    peers that we have measured take a sixth, on a machine that has time for them."""
    control_frames_per_second_per_session: Annotated[float, Field(gt=0)] = 20
    """Requests to the mesh itself (`mesh.subscribe` and the like), each of which writes into every raw partition. As
    many as `subscriptions_per_session` may come at once, for who comes back subscribes again."""
    connections_per_second: Annotated[float, Field(gt=0)] = 500
    """New connections of a listener, and ten seconds' worth at once. More wait their turn, and are refused where that
    would take longer than `handshake_seconds`. 500 handshakes of TLS take half of the edge's thread."""
    unauthenticated_bytes_per_second: Bytes = 8_388_608
    """All datagrams of a listener with `unauthenticated: accept` together; beyond it they are dropped and counted.
    Whatever comes is kept for days before anybody judges it."""
    in_flight_bytes: Bytes = 268_435_456
    """Received and not yet acknowledged by Kafka; beyond it TCP peers wait and datagrams are dropped and counted. Of an
    edge as a whole: in a listener it says nothing."""
    queue_bytes: Bytes = 8_388_608
    """Waiting to be written to one session; beyond it a slow peer loses frames, alone."""
    held_bytes: Bytes = 134_217_728
    """Held in memory for all sessions of an edge: what they have not read, have not confirmed, or have not finished
    sending. Beyond it sessions are ended, those that hold most first. Room for sixteen peers that have filled their
    queues, and an eighth of what an edge has in the chart. Of an edge as a whole: in a listener it says nothing."""
    open_requests: Count = MOST_OPEN_REQUESTS
    """Open at once in all sessions of an edge: what their peers have asked, and what they are asked. A session gets its
    share of what is left. Of an edge as a whole: in a listener it says nothing."""
    subscriptions_per_session: Count = 1_000
    subscriptions_per_node: Count = 10_000
    """A node has at most so many subscriptions and served subjects in all of its sessions. Beyond them a subscription
    is refused with `overload`."""
    subscriptions_per_mesh: Count = 100_000
    """All nodes together have at most so many subscriptions and served subjects, because every worker of the router
    keeps them in memory. Of the mesh as a whole: in a listener it says nothing."""


class GrantSettings(Section):
    """What is not allowed is refused; what is denied is refused even if it is allowed."""

    allow: tuple[Pattern, ...] = (">",)
    deny: tuple[Pattern, ...] = ()

    def grant(self) -> Grant:
        return Grant(self.allow, self.deny)


def _canonical(node: str) -> str:
    """A node id may be written in any of a UUID's forms; events carry one."""
    try:
        return str(UUID(node))
    except ValueError:
        return node


class PermissionSettings(Section):
    """For the nodes and listeners that match; the first rule that matches decides."""

    exposed: bool | None = None
    """`true`: not for listeners that are bound to a loopback address, which only programs on this machine reach.
    `false`: for those alone. Behind a balancer (`proxy_protocol`) a listener counts as exposed."""

    nodes: tuple[Annotated[str, AfterValidator(_canonical)], ...] = ("*",)
    """Node ids, or globs over them such as `cn:plant-*` and `anon:*`."""
    listeners: tuple[str, ...] = ("*",)
    publish: GrantSettings | None = None
    subscribe: GrantSettings | None = None
    serve: GrantSettings | None = None

    def rule(self) -> Rule:
        publish, subscribe, serve = (
            grants.grant() if grants is not None else EVERYTHING
            for grants in (self.publish, self.subscribe, self.serve)
        )
        return Rule(self.nodes, self.listeners, publish, subscribe, serve)


class RuleSettings(Section):
    """Streaming Spark SQL over the table `events`; each row found is a new event."""

    name: Name
    sql: Annotated[str, Field(min_length=1)]


class TraceSettings(Section):
    """Spans of a share of the events, by OTLP over HTTP; needs the extra `otel`."""

    endpoint: Annotated[str, Field(pattern=HTTP_URL)]
    """The whole address, such as `http://127.0.0.1:4318/v1/traces`."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.01
    """Of the frames received. An event that brings a `traceparent` of its own is traced if that says so."""


class TelemetrySettings(Section):
    traces: TraceSettings | None = None


class EventsSettings(Section):
    format: Literal["cloudevents", "batch"] = "cloudevents"
    """How the topic `events` is written: one CloudEvent a record in Kafka's binary mode, or all events of one record of
    the raw log in one record of the JSON batch format. Readers of the mesh's own know both, side by side."""


DEFAULT_LANES = 1


class RouterSettings(Section):
    management: HostPortField = HostPort("127.0.0.1", 9641)
    management_hosts: tuple[HostName, ...] = ()
    """As that of `edge`."""
    checkpoint: StatePath = Field(default="state/router", validate_default=True)
    mode: Literal["auto", "realtime", "microbatch"] = "auto"
    lanes: Count = DEFAULT_LANES
    """Has no effect any more, and is still read: each raw partition has a lane of its own (`kafka.partitions`)."""
    standby: bool = False
    """A warm second process that takes over when the first dies."""
