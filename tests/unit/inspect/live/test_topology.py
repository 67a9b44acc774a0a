"""The mesh as a graph, in the languages of two programs that draw graphs."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

from gateway.cli.graph_text import as_dot, as_mermaid
from gateway.config import Config
from gateway.core.ids import FramePosition
from gateway.inspect.live.peers import Peer
from gateway.inspect.live.topology import EdgeNow, Graph, topology
from gateway.interests import Interest, Verb

CONFIG = Config.model_validate({
    "mesh": "test",
    "kafka": {"partitions": 2},
    "router": {"lanes": 2},
    "rules": [{"name": "hot", "sql": "SELECT 1"}],
})  # fmt: skip
TOLD: dict[str, Any] = {
    "edge": {"id": "edge-0"},
    "listeners": [
        {"name": "apps", "protocol": "yamp", "listen": "tcp://127.0.0.1:5042"},
        {"name": "devices", "protocol": "emm", "listen": "udp://127.0.0.1:5050"},
    ],
    "peers": [{"name": "plant", "protocol": "emp", "connect": "tls://10.1.0.5:5040"}],
}
WANT = Interest(
    subscriber="edge-0.a.1", verb=Verb.SUBSCRIBE, pattern="temp.>", edge="edge-0", epoch=10, session=1,
    protocol="yamp", listener="apps", node="anon:edge-0:edge-0.a.1", position=FramePosition(0, 0, 0),
)  # fmt: skip
LEASE = replace(WANT, subscriber="emm:n", session=0, address="10.0.0.9:5", protocol="emm", listener="devices")
OWED = replace(WANT, subscriber="node:n@apps", session=7, durable=True, node="n")

LABELS = {"uuid-of-the-garden": "garden sensor"}


def peer(number: int, listener: str = "apps", node: str = "") -> Peer:
    session = f"edge-0.a.{number}"
    return {
        "session": session, "listener": listener, "peer": f"10.0.0.1:{number}",
        "node": node or f"anon:edge-0:{session}",
    }  # fmt: skip


def drawn(*peers: Peer, interests: tuple[Interest, ...] = (), modes: dict[str, str] | None = None) -> Graph:
    return topology(CONFIG, [EdgeNow(TOLD, peers)], interests, modes or {}, 2, LABELS)


def lines(graph: Graph, id_: str) -> tuple[str, ...]:
    return next(node.lines for node in graph.nodes if node.id == id_)


def arrows(graph: Graph) -> set[tuple[str, str]]:
    return {(arrow.start, arrow.end) for arrow in graph.arrows}


def test_frames_go_from_listeners_through_the_log_and_the_lanes_and_back() -> None:
    graph = drawn()
    way = ["edge-0/apps", "edge-0", "raw", "lane-1", "egress", "edge-0"]
    assert set(itertools.pairwise(way)) <= arrows(graph)
    assert lines(graph, "edge-0/plant") == ("plant", "emp tls://10.1.0.5:5040")
    assert lines(graph, "raw") == ("test.raw", "2 partitions")


def test_rules_read_the_events_and_write_into_the_log() -> None:
    graph = drawn()
    assert {("events", "rules"), ("rules", "raw")} <= arrows(graph)
    assert lines(graph, "rules") == ("rules", "hot")


def test_a_peer_shows_who_it_is_and_what_it_wants() -> None:
    serving = replace(WANT, verb=Verb.SERVE, pattern="Math.*")
    graph = drawn(peer(1), peer(2, node="cn:plant"), interests=(WANT, serving))
    assert lines(graph, "edge-0.a.1") == ("10.0.0.1:1", "wants temp.>", "serves Math.*")
    assert lines(graph, "edge-0.a.2") == ("10.0.0.1:2", "cn:plant")
    assert ("edge-0.a.1", "edge-0/apps") in arrows(graph)


def test_many_patterns_are_summed_up() -> None:
    many = tuple(replace(WANT, pattern=f"p.{number}") for number in range(6))
    assert lines(drawn(peer(1), interests=many), "edge-0.a.1")[1] == "wants p.0, p.1, p.2, p.3 and 2 more"


def test_many_peers_of_a_listener_are_one_box() -> None:
    graph = drawn(*(peer(number) for number in range(5)))
    assert lines(graph, "edge-0/apps/more") == ("3 more sessions",)
    assert len([node for node in graph.nodes if node.kind == "peer"]) == 3


def test_who_wants_something_without_a_session_is_shown() -> None:
    graph = drawn(peer(1), interests=(LEASE, OWED))
    assert lines(graph, "emm:n") == ("emm:n", "10.0.0.9:5", "wants temp.>")
    assert {("emm:n", "edge-0/devices"), ("node:n@apps", "edge-0/apps")} <= arrows(graph)


def test_who_is_back_in_a_session_is_shown_once() -> None:
    graph = drawn(peer(7), interests=(OWED,))
    assert lines(graph, "edge-0.a.7") == ("10.0.0.1:7", "wants temp.>")
    assert not any(node.id == "node:n@apps" for node in graph.nodes)


def test_a_lane_that_does_not_answer_is_dashed() -> None:
    graph = drawn(modes={"lane-0": "real time"})
    dot = list(as_dot(graph, "test"))
    assert ['style="dashed"' in line for line in dot if line.startswith('  "lane-') and "shape" in line] == [
        False,
        True,
    ]
    classes = [line.split() for line in as_mermaid(graph) if line.endswith(" down")]
    dashed = next(line for line in as_mermaid(graph) if "lane-1" in line).split("{")[0].strip()
    assert classes == [["class", dashed, "down"]]


def test_what_a_peer_sent_cannot_leave_its_label() -> None:
    evil = replace(WANT, pattern='x"]; evil -> <img src=x>\n')
    graph = drawn(peer(1), interests=(evil,))
    dot = next(line for line in as_dot(graph, "test") if "img" in line)
    assert dot.count('"') - dot.count('\\"') == 6  # those of the id, the fill and the label
    mermaid = next(line for line in as_mermaid(graph) if "img" in line)
    assert re.fullmatch(r'  n\d+\("[^"]*"\)', mermaid)
    assert "<img" not in mermaid


def test_each_arrow_of_mermaid_joins_nodes_that_are_there() -> None:
    text = "\n".join(as_mermaid(drawn(peer(1), interests=(WANT, LEASE))))
    known = set(re.findall(r"^ +(n\d+)[\[({]", text, re.MULTILINE))
    joined = set(re.findall(r"^ +(n\d+) <?--> (n\d+)$", text, re.MULTILINE))
    assert joined
    assert {end for pair in joined for end in pair} <= known


def test_a_node_that_has_a_label_is_called_by_it() -> None:
    away = replace(LEASE, subscriber="emm:uuid-of-the-garden", node="uuid-of-the-garden")
    graph = drawn(peer(1, node="uuid-of-the-garden"), interests=(away,))
    assert lines(graph, "edge-0.a.1") == ("10.0.0.1:1", "garden sensor", "uuid-of-the-garden")
    assert lines(graph, "emm:uuid-of-the-garden")[:2] == ("garden sensor", "emm:uuid-of-the-garden")
