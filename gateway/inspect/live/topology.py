"""The running mesh as a graph: peers, the edges that hold them, the topics, and the router's lanes between those.

peer ═ listener ═ edge ─► raw ─► lane ─► egress ─► edge
                           ▲      └────► events, rejected, interests
                           └─ rules ◄── events
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.config import Config
from gateway.config.topics import TopicName
from gateway.core.ids import is_anonymous, session_id
from gateway.core.quantity import quantity
from gateway.inspect.live.peers import Peer
from gateway.interests import Interest, Verb

TOPICS: tuple[TopicName, ...] = ("raw", "egress", "events", "rejected", "interests")
MODES = {True: "real time", False: "micro-batch"}
"""The mode of a lane, by its metric `lane_realtime`."""
SHOWN_PATTERNS = 4
"""The patterns shown of one peer; a box that names hundreds says nothing."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the graph.

    `kind` is peer, listener, edge, topic, lane or rules. `within` is the edge that it is a part of. `up` means that it
    answers.
    """

    id: str
    kind: str
    lines: tuple[str, ...]
    within: str = ""
    up: bool = True


@dataclass(frozen=True, slots=True)
class Arrow:
    """One arrow of the graph. `both` means that frames go both ways."""

    start: str
    end: str
    both: bool = False


@dataclass
class Graph:
    nodes: list[Node] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)

    def put(self, node: Node, *arrows: Arrow) -> None:
        self.nodes.append(node)
        self.arrows.extend(arrows)


@dataclass(frozen=True, slots=True)
class EdgeNow:
    """An edge's view of itself: its configuration (`/config`), and its sessions."""

    config: Mapping[str, Any]
    peers: Sequence[Peer]

    @property
    def id(self) -> str:
        return str(self.config["edge"]["id"])


def topology(
    config: Config,
    edges: Iterable[EdgeNow],
    interests: Sequence[Interest],
    modes: Mapping[str, str],
    most_peers: int,
    labels: Mapping[str, str],
) -> Graph:
    """Returns the graph of the mesh.

    `modes` are those of the router's lanes that run, by name. `most_peers` of a listener are shown one by one. `labels`
    are what people call the nodes.
    """
    graph = Graph()
    for edge in edges:
        _put_edge(graph, edge, interests, most_peers, labels)
    _put_topics(graph, config)
    _put_router(graph, config, modes)
    if config.rules:
        rules = Node("rules", "rules", ("rules", *(rule.name for rule in config.rules)))
        graph.put(rules, Arrow("events", rules.id), Arrow(rules.id, "raw"))
    return graph


def _put_edge(
    graph: Graph, edge: EdgeNow, interests: Sequence[Interest], most_peers: int, labels: Mapping[str, str]
) -> None:
    graph.put(Node(edge.id, "edge", (edge.id,), edge.id), Arrow(edge.id, "raw"), Arrow("egress", edge.id))
    wishes = _wishes(edge.id, interests)
    for endpoint in (*edge.config["listeners"], *edge.config["peers"]):
        name, address = endpoint["name"], endpoint.get("listen") or endpoint["connect"]
        id_ = f"{edge.id}/{name}"
        graph.put(
            Node(id_, "listener", (name, f"{endpoint['protocol']} {address}"), edge.id), Arrow(id_, edge.id, both=True)
        )
        _put_peers(graph, id_, [peer for peer in edge.peers if peer["listener"] == name], wishes, most_peers, labels)
        here = [interest for interest in interests if (interest.edge, interest.listener) == (edge.id, name)]
        _put_away(graph, id_, here, edge.peers, labels)


def _wishes(edge: str, interests: Iterable[Interest]) -> dict[str, list[Interest]]:
    """Returns the interests by session."""
    by_session: dict[str, list[Interest]] = {}
    for interest in interests:
        if interest.edge == edge and interest.session:
            by_session.setdefault(_session_of(interest), []).append(interest)
    return by_session


def _session_of(interest: Interest) -> str:
    return session_id(interest.edge, interest.epoch, interest.session)


def _put_peers(
    graph: Graph,
    listener: str,
    peers: Sequence[Peer],
    wishes: Mapping[str, list[Interest]],
    most: int,
    labels: Mapping[str, str],
) -> None:
    for peer in peers[:most]:
        interest_lines = wanted_lines(wishes.get(peer["session"], ()))
        node = [] if is_anonymous(peer["node"]) else [*_label(peer["node"], labels), peer["node"]]
        lines = (peer["peer"], *node, *interest_lines)
        graph.put(Node(peer["session"], "peer", lines), Arrow(peer["session"], listener, both=True))
    if len(peers) > most:
        id_ = f"{listener}/more"
        graph.put(Node(id_, "peer", (f"{len(peers) - most} more sessions",)), Arrow(id_, listener, both=True))


def _put_away(
    graph: Graph, listener: str, interests: Iterable[Interest], peers: Iterable[Peer], labels: Mapping[str, str]
) -> None:
    """Adds the subscribers without a session now: nodes behind datagrams, and those that are owed what they miss."""
    here = {peer["session"] for peer in peers}
    nodes: dict[str, list[Interest]] = {}
    for interest in interests:
        if not interest.session or (interest.durable and _session_of(interest) not in here):
            nodes.setdefault(interest.subscriber, []).append(interest)
    for subscriber, node_interests in nodes.items():
        address, label = node_interests[0].address, _label(node_interests[0].node, labels)
        lines = (*label, subscriber, *([address] if address else []), *wanted_lines(node_interests))
        graph.put(Node(subscriber, "peer", lines), Arrow(subscriber, listener, both=True))


def _label(node: str, labels: Mapping[str, str]) -> list[str]:
    return [labels[node]] if node in labels else []


def wanted_lines(interests: Iterable[Interest]) -> list[str]:
    """Returns one line for each thing that a peer wants or serves."""
    lines = []
    for verb, word in ((Verb.SUBSCRIBE, "wants"), (Verb.SERVE, "serves")):
        patterns = sorted({interest.pattern for interest in interests if interest.verb is verb})
        if patterns:
            more = f" and {len(patterns) - SHOWN_PATTERNS} more" if len(patterns) > SHOWN_PATTERNS else ""
            lines.append(f"{word} {', '.join(patterns[:SHOWN_PATTERNS])}{more}")
    return lines


def _put_topics(graph: Graph, config: Config) -> None:
    for name in TOPICS:
        count = config.kafka.topic(name).partitions
        graph.put(Node(name, "topic", (config.topic(name), quantity(count, "partition"))))


def _put_router(graph: Graph, config: Config, modes: Mapping[str, str]) -> None:
    for number in range(config.lanes):
        lane = f"lane-{number}"
        mode = modes.get(lane, "does not answer")
        graph.put(
            Node(lane, "lane", (f"router {lane}", mode), up=lane in modes),
            Arrow("raw", lane),
            *(Arrow(lane, topic) for topic in TOPICS if topic != "raw"),
        )
