"""The page of an edge whose Kafka and router are away: what it answers, to whom, and for how long."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml

from gateway.config import Config
from gateway.core.errors import SetupError
from tests.unit.edge.process import Process, process
from tests.unit.edge.running import listener, until

STATIC = ("live.html", "live.css", "live.js", "drawing.js")
HANDSHAKE = bytes.fromhex("00 0001 04 6a736f6e")


@pytest.fixture(autouse=True)
def away(monkeypatch: pytest.MonkeyPatch) -> None:
    def consumer_of(config: Config, **settings: Any) -> NoReturn:
        raise SetupError("kafka is away")

    monkeypatch.setattr("gateway.inspect.live.kafka_thread.consumer_of", consumer_of)
    monkeypatch.setattr("gateway.inspect.live.page.LOOK_SECONDS", 0.01)


def edge_of(folder: Path, **settings: Any) -> Any:
    return process(folder, listener("apps", "yamp"), router={"management": "127.0.0.1:1"}, **settings)


async def fetched(edge: Process, path: str, **headers: str) -> tuple[Any, bytes]:
    request = urllib.request.Request(f"http://127.0.0.1:{edge.edge.management_port}{path}", headers=headers)

    def fetch() -> tuple[Any, bytes]:
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310
            return answer.headers, answer.read()

    return await asyncio.to_thread(fetch)


async def test_it_may_load_nothing_from_elsewhere_and_run_nothing_that_stands_in_it(tmp_path: Path) -> None:
    async with edge_of(tmp_path) as edge:
        for path in ("/", "/live.js", "/drawing.js", "/live.css", "/live/now", "/live/graph", "/live/hour"):
            headers, _ = await fetched(edge, path)
            policy = headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';")
            assert "unsafe" not in policy
            assert headers["X-Content-Type-Options"] == "nosniff"


def test_what_peers_say_never_becomes_markup() -> None:
    page, style, script, drawing = ((files("gateway.inspect.live") / name).read_text() for name in STATIC)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(", script + drawing)
    assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|\sstyle=", page)
    for text in (page, style, script, drawing):
        assert [url for url in re.findall(r"(?:https?:)?//[\w.-]+\.\w+\S*", text) if "w3.org/2000/svg" not in url] == []


async def test_it_says_what_it_knows_and_who_is_away(tmp_path: Path) -> None:
    link = {"name": "plant", "protocol": "yamp", "connect": "tcp://127.0.0.1:1"}
    async with edge_of(tmp_path, peers=[link]) as edge:
        peer = await edge.dial("apps")
        peer.sends(HANDSHAKE)
        await peer.reads(1)
        _, said = await edge.asks("/live/now")
        assert (said["mesh"], said["edge"], [one["protocol"] for one in said["shown_sessions"]]) == (
            "test", "edge-0", ["yamp"],
        )  # fmt: skip
        assert "router.management 127.0.0.1:1 does not answer" in said["missing"]["the router"]
        assert [one["listener"] for one in said["listeners"]] == ["apps", "plant"]
        while (await edge.asks("/live/now"))[1]["trouble"] != "kafka is away":
            pass
        while not (gone := (await edge.asks("/live/now"))[1]["away"])[0]["why"].endswith("Connection refused"):
            pass
        assert [one["what"] for one in gone] == ["link plant"]


async def test_it_draws_this_edge_with_its_listeners_and_peers(tmp_path: Path) -> None:
    async with edge_of(tmp_path) as edge:
        (await edge.dial("apps")).sends(HANDSHAKE)
        while not (peers := [one for one in (await drawn(edge))["nodes"] if one["kind"] == "peer"]):
            pass
        graph = await drawn(edge)
        assert {(one["id"], one["kind"]) for one in graph["nodes"]} >= {
            ("edge-0", "edge"), ("edge-0/apps", "listener"), ("raw", "topic"), ("lane-0", "lane"),
        }  # fmt: skip
        assert {"start": peers[0]["id"], "end": "edge-0/apps", "both": True} in graph["arrows"]


async def drawn(edge: Process) -> Any:
    status, graph = await edge.asks("/live/graph")
    assert status == 200
    return graph


async def test_it_plots_what_the_edge_has_carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.inspect.live.last_hour.POINT_SECONDS", 0.01)
    async with edge_of(tmp_path) as edge:
        while not (await edge.asks("/live/hour"))[1]["received"]:
            pass


async def test_a_node_is_called_by_the_label_of_its_key(tmp_path: Path) -> None:
    node = "11111111-2222-4333-8444-555555555555"
    key = {"hmac": "00" * 32, "label": "garden sensor"}
    async with edge_of(tmp_path) as edge:
        labels = edge.edge._live._labels
        assert labels.now() == {}
        (tmp_path / "keys.yaml").write_text(yaml.safe_dump({"nodes": {node: {"keys": {"00000001": key}}}}))
        assert labels.now() == {node: "garden sensor"}
        (tmp_path / "keys.yaml").write_text("no trust store")
        assert labels.now() == {}


@pytest.mark.parametrize(("operators", "is_allowed"), [({}, False), ({"alice": "0123456789abcdef"}, True)])
async def test_it_says_whether_anybody_may_act_on_it_and_never_a_token(
    tmp_path: Path, operators: dict[str, str], is_allowed: bool
) -> None:
    async with process(tmp_path, listener("apps", "yamp"), edge={"operators": operators}) as edge:
        assert (await edge.asks("/live/now"))[1]["has_operators"] is is_allowed
        for path in ("/live/now", "/live/graph", "/config"):
            assert "0123456789abcdef" not in str(await edge.asks(path))


async def test_rates_come_with_the_second_look(tmp_path: Path) -> None:
    async with edge_of(tmp_path) as edge:
        while (await edge.asks("/live/now"))[1]["stages"]["received"]["per_second"] is None:
            pass


@pytest.mark.parametrize(
    "path", ["/", "/live.js", "/live/now", "/live/rows?at=events", "/live/graph", "/live/hour", "/peers", "/example"]
)
async def test_a_name_that_anybody_could_have_led_here_is_refused(tmp_path: Path, path: str) -> None:
    async with edge_of(tmp_path) as edge:
        assert (await edge.asks(path, headers={"Host": "mesh.example.com:9640"}))[0] == 403


async def test_a_name_that_the_configuration_gives_out_is_answered(tmp_path: Path) -> None:
    async with process(tmp_path, listener("apps", "yamp"), edge={"management_hosts": ["Mesh.example.com"]}) as edge:
        assert (await edge.asks("/peers", headers={"Host": "mesh.example.com:9640"}))[0] == 200
        assert (await edge.asks("/peers", headers={"Host": "other.example.com:9640"}))[0] == 403


@pytest.mark.parametrize("path", ["/", "/example", "/peers", "/healthz/live"])
async def test_no_other_page_may_frame_any_of_it(tmp_path: Path, path: str) -> None:
    async with edge_of(tmp_path) as edge:
        headers, _ = await fetched(edge, path)
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["/", "/example"])
async def test_a_pages_icon_and_scripts_are_what_its_policy_lets_in(tmp_path: Path, path: str) -> None:
    async with edge_of(tmp_path) as edge:
        headers, page = await fetched(edge, path)
        policy = headers["Content-Security-Policy"]
        assert b'<link rel="icon" href="data:,">' in page
        assert "img-src data:" in policy
        assert "unsafe" not in policy
        for inline in re.findall(rb"(?s)<(?:script|style)>(.*?)</", page):
            digest = b64encode(sha256(inline).digest()).decode()
            assert f"'sha256-{digest}'" in policy


@pytest.mark.parametrize("path", ["/live/rows", "/live/rows?at=interests", "/live/rows?at=raw&after=x"])
async def test_a_place_that_is_none_is_refused(tmp_path: Path, path: str) -> None:
    async with edge_of(tmp_path) as edge:
        status, said = await edge.asks(path)
        assert (status, said["error"]) == (400, "at is one of raw, events, rejected, egress; after a number")


async def test_there_is_nothing_to_command_on_it(tmp_path: Path) -> None:
    async with edge_of(tmp_path) as edge:
        for path in ("/", "/live/now", "/live/rows"):
            assert (await edge.asks(path, post=True))[0] == 404


async def test_it_costs_nothing_once_nobody_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.inspect.live.page.IDLE_SECONDS", 0.05)
    async with edge_of(tmp_path) as edge:
        assert edge.edge._live._viewing is None
        await edge.asks("/live/now")
        first = edge.edge._live._viewing
        assert first is not None
        await until(lambda: first.is_over)
        await edge.asks("/live/now")
        assert edge.edge._live._viewing is not first
