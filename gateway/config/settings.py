"""The sections that belong to no protocol: identity, edge, limits, permissions, rules, router."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AfterValidator, Field, SecretStr
from pydantic_core import PydanticCustomError

from gateway.config.section import Bytes, Count, Milliseconds, Name, Pattern, Seconds, SecondsOrZero, StatePath
from gateway.core.address import HostPort, HostPortField
from gateway.core.permissions import EVERYTHING, Grant, Rule
from gateway.core.section import Section
from gateway.protocols.request_budget import MOST_OPEN_REQUESTS

EDGE_ID = r"^(?:[A-Za-z0-9][A-Za-z0-9-]*-)?[0-9]{1,6}$"
HOST_NAME = r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?$"
HostName = Annotated[str, Field(pattern=HOST_NAME)]
HTTP_URL = r"^https?://[^/\s]+(/\S*)?$"
URL = r"^[A-Za-z][A-Za-z0-9+.-]*://\S+:[0-9]{1,5}(/\S*)?$"
_ORDINAL = re.compile(r"\d+$")
MIN_TOKEN_CHARACTERS = 16
"""So many random hexadecimal digits are 64 bits, which nobody guesses over HTTP."""


def _is_a_token(token: SecretStr) -> SecretStr:
    """It travels in a header, so it is of visible ASCII characters."""
    text = token.get_secret_value()
    if len(text) < MIN_TOKEN_CHARACTERS or not all("!" <= character <= "~" for character in text):
        why = "expected {least} visible ASCII characters at least, without spaces"
        raise PydanticCustomError("token", why, {"least": MIN_TOKEN_CHARACTERS})
    return token


OperatorName = Annotated[str, Field(min_length=1, max_length=64)]
OperatorToken = Annotated[SecretStr, AfterValidator(_is_a_token)]


@lru_cache
def ordinal_of(edge: str) -> int:
    """Returns an edge's egress partition: the number its id ends in."""
    match = _ORDINAL.search(edge)
    return int(match[0]) if match else 0


class IdentitySettings(Section):
    """The gateway as a node of its own mesh: what it signs with."""

    node: UUID | None = None
    """This is the gateway's node id, a UUID. Without it, the node of the trust store's entry holds."""
    key: Name = "gateway"
    """This names the entry of the trust store that holds the gateway's keys."""


class RecordSettings(Section):
    """Sets when a record of the raw log is closed: whichever limit is reached first."""

    frames: Count = 400
    """A record of the raw log is closed after so many frames. One linger brings in fewer below 60,000 frames/s, so a
    record is full only above that."""
    bytes: Bytes = 131_072
    """A record of the raw log is closed after so many bytes. 400 frames of 200 bytes fill two thirds of the default."""
    linger_milliseconds: Milliseconds = 3
    """A record waits at most this long for more frames after the one before it; a frame that comes later goes at once.
    Half of it stands in the median latency of a busy mesh: 2 ms cost a third more processor time at 10,000/s, and 4 ms
    save a tenth. A frame of a stream, whose peer waits for it, leaves sooner after records of few frames: 1 ms for each
    frame in them."""


class EdgeSettings(Section):
    id: Annotated[str, Field(pattern=EDGE_ID)] = "edge-0"
    """An edge's id ends in a number, its ordinal, which picks its egress partition. The name of a StatefulSet's pod
    will do."""
    management: HostPortField = HostPort("127.0.0.1", 9640)
    """The edge serves its page, `/healthz`, `/metrics` and `/config` at this address. It is on loopback, since whoever
    reaches it sees what flows."""
    management_hosts: tuple[HostName, ...] = ()
    """The management address answers under these public names too, beside IP addresses, `localhost`, names without a
    domain and `*.svc`: they are those that scrapers and operators use. No other name is answered, since anybody can
    lead it here."""
    operators: Mapping[OperatorName, OperatorToken] = {}
    """These people may act on the edge's page: each has a name, which the log shows beside every act, and a token of 16
    characters at least. Without any the page only reads. It takes tokens from this machine alone, since one that
    crosses a network in clear is anybody's: tunnels (`ssh -L`, `kubectl port-forward`) end here."""
    redirect_url: Annotated[str, Field(pattern=URL, max_length=65_535)] | None = None
    """Peers that can be redirected are sent here when the edge drains. Without it they are only disconnected."""
    notice_seconds: SecondsOrZero = 0
    """An edge that is told to end serves on for so long, but is not ready, so that a load balancer leads peers
    elsewhere first. Datagrams to a socket that is gone already would be lost."""
    graceful_shutdown_limit_seconds: Seconds = 60
    """Sessions that are still open after so long are cut when the edge ends. A minute is enough for the deliveries
    under way to be confirmed."""
    record: RecordSettings = RecordSettings()
    """This section says when a record of the raw log is closed: whichever limit comes first."""

    @property
    def ordinal(self) -> int:
        return ordinal_of(self.id)


class Limits(Section):
    """Any of these may stand in a listener or link too, and then holds there."""

    connections: Count = 10_000
    """A listener takes at most so many connections at once, and refuses further ones. Each costs memory, and a file
    descriptor; all listeners together take what files the process may have open, less 256."""
    handshake_seconds: Seconds = 5
    """A connection whose handshake takes longer is closed, so that nobody holds a place without a word."""
    idle_seconds: Seconds = 300
    """A session that has said nothing for so long is ended. Protocols with pings of their own never come near it."""
    frame_bytes: Bytes = 1_048_576
    """A larger frame is refused as `too_large` before its body is read. A record of Kafka must hold it: see
    `kafka.message_bytes`."""
    frames_per_second_per_session: Annotated[float, Field(gt=0)] | None = None
    """A session may send at most so many frames a second: beyond it a stream is read later, and datagrams of one
    address are dropped and counted. Null is 20,000 for a stream, or a connection of QUIC, which is four times what the
    busiest peers that we have measured send, and no limit for other datagrams: signed ones are cheap to refuse, many
    devices may share an address, and an address can be forged to use up another's rate."""
    bytes_per_second_per_session: Bytes = 67_108_864
    """A session may send at most so many bytes a second; beyond it a stream is read later. What a WebSocket
    decompresses counts as it comes out."""
    cpu_share_per_session: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Reading one stream takes at most this share of the edge's one thread: its XML, JSON, gzip and ciphers. Beyond it
    the stream is read later, so that a few kilobytes that take long to understand cost their sender, and nobody else.
    The busiest peers that we have measured take a sixth, on a machine that has time for them."""
    control_frames_per_second_per_session: Annotated[float, Field(gt=0)] = 20
    """A session may send at most so many requests to the mesh itself (`mesh.subscribe` and the like) a second, each of
    which writes into every raw partition. As many as `subscriptions_per_session` may come at once, since a peer that
    comes back subscribes again. A node that says hello by datagrams may change as much; a hello beyond it is refused
    with `rate_limited`."""
    connections_per_second: Annotated[float, Field(gt=0)] = 500
    """A listener takes at most so many new connections a second, and ten seconds' worth at once. More wait their turn,
    and are refused where that would take longer than `handshake_seconds`. 500 handshakes of TLS take half of the edge's
    thread."""
    unauthenticated_bytes_per_second: Bytes = 8_388_608
    """All datagrams of a listener that takes them from anybody (`unauthenticated: accept`, `public_key: any`) together
    may have at most so many bytes a second; beyond it they are dropped and counted. Whatever comes is kept for days
    before anybody judges it."""
    in_flight_bytes: Bytes = 134_217_728
    """An edge holds at most so many bytes that Kafka has not acknowledged; beyond it TCP peers wait, and datagrams are
    dropped and counted. From a 64th of it on, streams that have more to be read wait, so that the frames of others do
    not queue behind theirs. It holds for an edge as a whole: in a listener it says nothing."""
    queue_bytes: Bytes = 8_388_608
    """At most so many bytes wait to be written to one session; beyond it a slow peer loses frames, alone."""
    held_bytes: Bytes = 134_217_728
    """An edge holds at most so many bytes in memory for all of its sessions: what they have not read, have not
    confirmed, or have not finished sending, in whatever carries them. Beyond it sessions are ended, those that hold
    most first. There is room for sixteen peers that have filled their queues, and it is an eighth of what an edge has
    in the chart. It holds for an edge as a whole: in a listener it says nothing."""
    open_requests: Count = MOST_OPEN_REQUESTS
    """At most so many requests are open at once in all sessions of an edge: what their peers have asked, and what they
    are asked. A session gets its share of what is left. It holds for an edge as a whole: in a listener it says
    nothing."""
    subscriptions_per_session: Count = 1_000
    """A session may hold at most so many subscriptions. Each is kept by every router and edge."""
    subscriptions_per_node: Count = 10_000
    """A node has at most so many subscriptions and served subjects in all of its sessions. Beyond them a subscription
    is refused with `overload`."""
    subscriptions_per_mesh: Count = 100_000
    """All nodes together have at most so many subscriptions and served subjects, because every worker of the router
    keeps them in memory. It holds for the mesh as a whole: in a listener it says nothing."""


class GrantSettings(Section):
    """Grants subjects. Everything else is refused, and what is denied is refused even if it is allowed."""

    allow: tuple[Pattern, ...] = (">",)
    """Subjects that match one of these patterns are allowed, unless `deny` refuses them."""
    deny: tuple[Pattern, ...] = ()
    """Subjects that match one of these patterns are refused, even if `allow` allows them."""

    def grant(self) -> Grant:
        return Grant(self.allow, self.deny)


def _canonical(node: str) -> str:
    """A node id may be written in any of a UUID's forms; events carry one."""
    try:
        return str(UUID(node))
    except ValueError:
        return node


class PermissionSettings(Section):
    """Applies to the nodes and listeners that match. The first rule that matches decides."""

    exposed: bool | None = None
    """The rule is not for listeners that are bound to a loopback address, which only programs on this machine reach
    (`true`), or for those alone (`false`). Behind a balancer (`proxy_protocol`) a listener counts as exposed."""

    nodes: tuple[Annotated[str, AfterValidator(_canonical)], ...] = ("*",)
    """The rule is for these nodes: ids, or globs over them such as `cn:plant-*` and `anon:*`."""
    listeners: tuple[str, ...] = ("*",)
    """The rule is for sessions of these listeners and links, by name; globs are allowed."""
    publish: GrantSettings | None = None
    """This says which subjects the nodes may publish. Without it they may publish everything but `mesh.`."""
    subscribe: GrantSettings | None = None
    """This says which subjects the nodes may subscribe to. Without it they may have all."""
    serve: GrantSettings | None = None
    """This says which subjects the nodes may serve requests of. Without it they may serve everything but `mesh.`."""

    def rule(self) -> Rule:
        publish, subscribe, serve = (
            grants.grant() if grants is not None else EVERYTHING
            for grants in (self.publish, self.subscribe, self.serve)
        )
        return Rule(self.nodes, self.listeners, publish, subscribe, serve)


class RuleSettings(Section):
    """Streaming Spark SQL over the table `events`; each row found is a new event."""

    name: Name
    """The rule's name is that of its checkpoint too, so a rule that is renamed begins anew."""
    sql: Annotated[str, Field(min_length=1)]
    """This is the rule's query over the table `events`; each row it finds is published as a new event."""


class TraceSettings(Section):
    """Spans of a share of the events, by OTLP over HTTP; needs the extra `otel`."""

    endpoint: Annotated[str, Field(pattern=HTTP_URL)]
    """Spans are sent to this address; it is the whole one, such as `http://127.0.0.1:4318/v1/traces`."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.01
    """This share of the frames received is traced. An event that brings a `traceparent` of its own is traced if that
    says so."""


class TelemetrySettings(Section):
    traces: TraceSettings | None = None
    """This section says where spans of a share of the events are sent, by OTLP over HTTP. It needs the extra `otel`;
    null sends none."""


class EventsSettings(Section):
    format: Literal["cloudevents", "batch"] = "cloudevents"
    """The topic `events` holds one CloudEvent a record in Kafka's binary mode (`cloudevents`), or all events of one
    record of the raw log in one record of the JSON batch format (`batch`), which takes a third less processor time. The
    mesh's own readers know both, side by side."""


DEFAULT_LANES = 1


class RouterSettings(Section):
    management: HostPortField = HostPort("127.0.0.1", 9641)
    """The router serves `/healthz`, `/metrics` and `/config` at this address."""
    management_hosts: tuple[HostName, ...] = ()
    """The management address answers under these public names too, as that of `edge` does."""
    checkpoint: StatePath = Field(default="state/router", validate_default=True)
    """The router keeps what it has read and its deduplication state in this folder. It must outlive the router: without
    it the raw log is read again."""
    mode: Literal["auto", "realtime", "microbatch"] = "auto"
    """`realtime` routes each record as it comes, `microbatch` routes in batches, and `auto` is real time while the
    router keeps up. Real time costs a task slot for each partition."""
    lanes: Count = DEFAULT_LANES
    """This setting has no effect any more: each raw partition has a lane of its own (`kafka.partitions`)."""
    standby: bool = False
    """A second router waits, warm, and takes over when the first ends or dies. It costs as much memory again."""
