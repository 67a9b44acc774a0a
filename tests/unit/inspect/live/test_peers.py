"""`meshgate peers` against an edge that runs, with everything real but Kafka."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

from click.testing import Result

from gateway.cli.console import Exit
from gateway.protocols.yamp.frames import FrameType
from gateway.records.cloud_event import microseconds
from tests.unit.cli.running import run, said
from tests.unit.edge.process import Process, process
from tests.unit.edge.running import listener, until

HANDSHAKE = bytes.fromhex("00 0001 04 6a736f6e")
LISTENERS = (listener("plc", "hsp"), listener("apps", "yamp"))


async def peers(edge: Process, *arguments: str) -> Result:
    """The verb in a thread, as it would be a process of its own; the edge is named as where it really listens."""
    verb, *others = arguments
    at = f"127.0.0.1:{edge.edge.management_port}"
    return await asyncio.to_thread(run, "peers", verb, "-c", str(edge.file), "--edge", at, *others)


async def listed(edge: Process, *arguments: str) -> Any:
    return said(await peers(edge, "list", "--output", "json", *arguments))


async def connect(edge: Process, *names: str) -> None:
    for name in names:
        peer = await edge.dial(name)
        peer.sends(HANDSHAKE if name == "apps" else b"\x03")
        await peer.reads(1)


async def test_who_is_connected_is_listed(tmp_path: Path) -> None:
    async with process(tmp_path, *LISTENERS) as edge:
        await connect(edge, "plc", "apps")
        result = await peers(edge, "list")
        head, *lines = result.stdout.splitlines()
        assert head.split()[:4] == ["session", "protocol", "listener", "peer"]
        assert [line.split()[1:3] for line in lines] == [["hsp", "plc"], ["yamp", "apps"]]
        assert "anon:" not in result.stdout  # it would only say the session again
        found = await listed(edge)
        assert [one["edge"] for one in found] == ["edge-0", "edge-0"]
        assert all(microseconds(one["connected_at"]) for one in found)


async def test_a_link_whose_peer_is_away_is_told_with_the_reason(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        link = {"name": "plant", "protocol": "yamp", "connect": f"tcp://127.0.0.1:{nobody.getsockname()[1]}"}
        async with process(tmp_path, *LISTENERS, peers=[link]) as edge:
            await until(lambda: "refused" in str(edge.edge.life.endpoints.away()))
            result = await peers(edge, "list")
            assert result.stderr.startswith("link plant is away, for ")
            assert "Connection refused" in result.stderr
            (row,) = await listed(edge, "--listener", "plant")
            assert (row["session"], row["state"], row["edge"]) == (None, "away", "edge-0")
            status, said_of_it = await edge.asks("/healthz/ready")
            assert (status, said_of_it["status"], list(said_of_it["away"])) == (200, "ok", ["link plant"])


async def test_a_list_can_be_narrowed(tmp_path: Path) -> None:
    async with process(tmp_path, *LISTENERS) as edge:
        await connect(edge, "plc", "apps", "apps")
        found = await listed(edge)
        assert await listed(edge, "--protocol", "yamp") == await listed(edge, "--listener", "apps") != []
        assert await listed(edge, "--node", found[0]["node"]) == found[:1]
        assert await listed(edge, "--listener", "none") == []


async def test_one_of_them_is_shown_whole(tmp_path: Path) -> None:
    async with process(tmp_path, *LISTENERS) as edge:
        await connect(edge, "plc", "apps")
        _, wanted = await listed(edge)
        assert said(await peers(edge, "show", wanted["session"], "--output", "json")) == wanted
        shown = (await peers(edge, "show", wanted["session"])).stdout.splitlines()
        assert shown[0].split() == ["session", wanted["session"]]
        assert "open requests       0" in shown


async def test_a_kicked_peer_hears_goodbye_in_its_protocol_and_is_gone(tmp_path: Path) -> None:
    async with process(tmp_path, *LISTENERS) as edge:
        await connect(edge, "plc", "apps")
        _, wanted = await listed(edge)
        result = await peers(edge, "kick", wanted["session"])
        assert result.exit_code == Exit.OK
        assert result.stdout == f"kicked {wanted['session']} (yamp {wanted['peer']})\n"
        rest = await edge.peers[1].reads_all()
        assert rest[len(HANDSHAKE) - 1] == FrameType.CLOSE  # after the rest of its handshake
        await until(lambda: len(list(edge.edge.life.sessions)) == 1)


async def test_several_are_kicked_in_one_go_and_each_is_told_to_programs(tmp_path: Path) -> None:
    async with process(tmp_path, *LISTENERS) as edge:
        await connect(edge, "apps", "apps")
        sessions = [one["session"] for one in await listed(edge)]
        result = await peers(edge, "kick", *sessions, "--output", "json")
        assert [json.loads(line)["kicked"] for line in result.stdout.splitlines()] == sessions
        await until(lambda: not list(edge.edge.life.sessions))


async def test_a_session_that_is_not_there_is_told_with_where_it_was_looked_for(tmp_path: Path) -> None:
    async with process(tmp_path, *LISTENERS) as edge:
        for verb in ("show", "kick"):
            result = await peers(edge, verb, "edge-0.1.99")
            assert result.exit_code == Exit.FAILURE
            assert result.stderr == (
                f"meshgate: there is no session edge-0.1.99 at 127.0.0.1:{edge.edge.management_port}:"
                " see `meshgate peers list`, and name another edge with --edge\n"
            )


async def test_all_edges_that_are_named_are_asked(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    async with (
        process(tmp_path / "a", *LISTENERS) as one,
        process(tmp_path / "b", *LISTENERS, edge={"id": "edge-1"}) as other,
    ):
        await connect(one, "plc")
        await connect(other, "apps")
        also = ("--edge", f"127.0.0.1:{other.edge.management_port}")
        found = await listed(one, *also)
        assert [entry["edge"] for entry in found] == ["edge-0", "edge-1"]
        assert (await peers(one, "kick", found[1]["session"], *also)).exit_code == Exit.OK
        await until(lambda: not list(other.edge.life.sessions))


def test_an_edge_that_does_not_answer_is_named_with_its_setting(tmp_path: Path) -> None:
    file = tmp_path / "meshgate.yaml"
    file.write_text("{mesh: test, edge: {management: '0.0.0.0:1'}}")
    result = run("peers", "-c", str(file), "list")
    assert result.exit_code == Exit.UNAVAILABLE
    assert result.stderr == (
        "meshgate: edge.management 127.0.0.1:1 does not answer (Connection refused): is the edge running?\n"
    )


def test_an_address_that_is_none_is_a_fault_of_usage(tmp_path: Path) -> None:
    result = run("peers", "list", "--edge", "here")
    assert result.exit_code == Exit.USAGE
    assert "here: expected host:port" in result.stderr
