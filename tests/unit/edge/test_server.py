"""An edge as a process runs it: health, commands, a configuration that changes, and the end."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.console import Output
from gateway.cli.edge import _show_ready
from gateway.core.address import HostPort
from gateway.core.errors import SetupError
from gateway.edge.runtime import FLUSH_SECONDS, LAST_FLUSH_SECONDS
from gateway.local.mesh import _as_bound
from gateway.protocols.actions import CloseReason
from gateway.protocols.yamp.codec import encode
from gateway.protocols.yamp.frames import Close
from gateway.protocols.yamp.session import CLOSE_REASONS
from tests.unit.edge.fake_kafka import FENCED
from tests.unit.edge.process import process
from tests.unit.edge.running import listener, until

PING, PONG = b"\x03", b"\x04"
HANDSHAKE = bytes.fromhex("00 0001 04 6a736f6e")
DATA = bytes.fromhex("00 0099 00000003 78797a")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.edge.server.TICK_SECONDS", 0.01)
    monkeypatch.setattr("gateway.config.watch.INTERVAL_SECONDS", 0.01)


async def test_an_edge_that_nobody_talks_to_stays_ready_because_kafka_answers_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.edge.server.PROBE_SECONDS", 0.02)
    monkeypatch.setattr("gateway.edge.server.READY_SECONDS", 0.3)
    async with process(tmp_path, listener("plc", "hsp")) as edge:
        before = len(edge.kafka.producer_.written)
        await until(lambda: len(edge.kafka.producer_.written) > before + 3)
        assert edge.kafka.raw()[before:] == []  # probes carry nothing
        await edge.becomes(200)
        edge.kafka.producer_.held = True
        await edge.becomes(503)
        status, said = await edge.asks("/healthz/ready")
        assert (status, said["missing"]) == (503, {"kafka": "no produce was acknowledged lately"})
        assert (await edge.asks("/healthz/live"))[0] == 200
        edge.kafka.producer_.held = False
        edge.kafka.producer_.acknowledge()
        await edge.becomes(200)


async def test_the_ports_that_the_system_chose_are_told_wherever_they_are_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO)
    async with process(tmp_path, listener("plc", "hsp"), listener("devices", "emm", "udp")) as running:
        edge = running.edge
        management = HostPort("127.0.0.1", edge.management_port)
        listens = {
            "plc": f"tcp://127.0.0.1:{running.port('plc')}",
            "devices": f"udp://127.0.0.1:{running.port('devices')}",
        }
        assert await running.asks("/listeners") == (200, listens)
        assert all(f"listening on {address}" in caplog.text for address in listens.values())
        _show_ready(edge, Output.JSON)
        said = {"event": "ready", "part": "edge-0", "listeners": listens, "management": str(management)}
        assert json.loads(capsys.readouterr().out) == said
        settings = edge.config.edge.model_copy(update={"management": management})
        config = edge.config.model_copy(update={"edge": settings})
        bound = await asyncio.to_thread(_as_bound, config)
        assert {one.name: str(one.address) for one in bound.listeners} == listens


async def test_what_holds_otherwise_than_it_reads_is_told_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with process(tmp_path, listener("plc", "hsp", in_flight_bytes=99)):
        [said] = caplog.messages
        assert "listeners[0].in_flight_bytes: all of an edge wait for Kafka together" in said


async def test_who_is_connected_stands_on_a_page(tmp_path: Path) -> None:
    async with process(tmp_path, listener("plc", "hsp"), listener("apps", "yamp")) as edge:
        assert await edge.asks("/peers") == (200, [])
        peer, _ = await edge.dial("plc"), await edge.dial("apps")
        peer.sends(DATA)
        await until(edge.kafka.frames)
        [shown] = (await edge.asks("/peers"))[1]
        host, port = peer.writer.get_extra_info("sockname")
        assert (shown["protocol"], shown["listener"], shown["peer"]) == ("hsp", "plc", f"{host}:{port}")
        assert (shown["received_frames"], shown["queue_bytes"], shown["auth"]) == (1, 0, "none")
        assert (await edge.asks(f"/peers?session={shown['session']}"))[1] == [shown]
        assert (await edge.asks("/peers?session=another"))[1] == []


async def test_a_session_may_be_ended_by_an_operator_in_the_protocols_words(tmp_path: Path) -> None:
    async with process(tmp_path, listener("apps", "yamp")) as edge:
        peer = await edge.dial("apps")
        peer.sends(HANDSHAKE)
        assert await peer.reads(len(HANDSHAKE)) == HANDSHAKE
        [shown] = (await edge.asks("/peers"))[1]
        assert await edge.asks(f"/peers/{shown['session']}/kick", post=True) == (202, {"kicked": shown["session"]})
        assert await peer.reads_all() == encode(Close(CLOSE_REASONS[CloseReason.KICKED]))


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/peers/edge-0.1.9/kick", {}, 404),
        ("/peers/edge-0.1.9/bless", {}, 404),
        ("/peers", {}, 404),
        ("/metrics", {}, 404),
        ("/peers/edge-0.1.9/kick", {"Origin": "http://127.0.0.1"}, 403),
    ],
)
async def test_nothing_else_is_a_command_and_web_pages_give_none(
    tmp_path: Path, path: str, headers: dict[str, str], status: int
) -> None:
    async with process(tmp_path, listener("apps", "yamp")) as edge:
        assert (await edge.asks(path, post=True, headers=headers))[0] == status


async def test_of_a_long_name_that_is_to_be_kicked_the_beginning_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with process(tmp_path, listener("apps", "yamp")) as edge:
        assert (await edge.asks(f"/peers/{'x' * 60_000}/kick", post=True))[0] == 404
    assert "asks to kick" in caplog.text
    assert max(map(len, caplog.messages)) < 300


class TestReloading:
    async def test_limits_hold_for_sessions_that_stand_and_none_is_dropped(self, tmp_path: Path) -> None:
        async with process(tmp_path, listener("plc", "hsp")) as edge:
            peer = await edge.dial("plc")
            peer.sends(PING)
            assert await peer.reads(1) == PONG
            changed = listener("plc", "hsp", queue_bytes=77_000, connections=1)
            edge.says(listeners=[changed], limits={"in_flight_bytes": 500_000})
            await until(lambda: [one.terms.limits.queue_bytes for one in edge.edge.life.sessions] == [77_000])
            peer.sends(PING)
            assert await peer.reads(1) == PONG
            assert await (await edge.dial("plc")).reads_all() == b""
            edge.kafka.producer_.held = True
            peer.sends(bytes.fromhex("00 0099 00080000") + bytes(524_288))
            await until(lambda: edge.edge.life.publisher.in_flight.is_full)

    async def test_policies_hold_for_new_sessions(self, tmp_path: Path) -> None:
        async with process(tmp_path, listener("plc", "hsp")) as edge:
            edge.says(listeners=[listener("plc", "hsp", subscribe=["alarm.>"])])
            await until(lambda: edge.edge.config.listeners[0].subscribe)
            await edge.dial("plc")
            await until(lambda: [one.terms.subscribe for one in edge.edge.life.sessions] == [("alarm.>",)])

    async def test_links_come_change_and_go(self, tmp_path: Path) -> None:
        def link(name: str, **settings: Any) -> dict[str, Any]:
            return {"name": name, "protocol": "hsp", "connect": f"tcp://127.0.0.1:{port}", **settings}

        async with process(tmp_path, listener("plc", "hsp")) as edge:
            port = edge.port("plc")
            there = [listener("plc", "hsp")]

            def stands(*names: str) -> bool:
                return sorted(one.source.listener for one in edge.edge.life.sessions) == sorted(names)

            edge.says(listeners=there, peers=[link("one"), link("two")])
            await until(lambda: stands("one", "two", "plc", "plc"))
            first = {one.source.listener: one.number for one in edge.edge.life.sessions}
            edge.says(listeners=there, peers=[link("one", queue_bytes=1_000), link("two", subscribe=["a"])])
            await until(lambda: any(one.terms.subscribe == ("a",) for one in edge.edge.life.sessions))
            await until(lambda: stands("one", "two", "plc", "plc"))
            assert edge.edge.life.sessions.outbox(first["one"]) is not None  # other limits need no other connection
            edge.says(listeners=there)
            await until(lambda: stands())

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("mesh: other\n", "a change of mesh"),
            ("mesh: [\n", "not reloaded"),
            ("mesh: test\nlimits: {connections: many}\n", "limits.connections"),
        ],
    )
    async def test_what_cannot_be_taken_over_is_told_in_one_line_and_changes_nothing(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, told: str
    ) -> None:
        async with process(tmp_path, listener("plc", "hsp")) as edge:
            edge.writes(text)
            with caplog.at_level(logging.WARNING, "gateway.edge.server"):
                await until(lambda: caplog.messages)
            assert len(caplog.messages) == 1
            assert told in caplog.messages[0]
            assert edge.edge.config.listeners[0].name == "plc"

    async def test_a_reload_may_be_asked_for(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("gateway.edge.server.TICK_SECONDS", 60.0)
        async with process(tmp_path, listener("plc", "hsp")) as edge:
            edge.says(listeners=[listener("plc", "hsp", subscribe=["alarm.>"])])
            edge.edge.reload()
            await until(lambda: edge.edge.config.listeners[0].subscribe)


class TestTheEnd:
    async def test_draining_edges_are_not_ready_and_let_nobody_in(self, tmp_path: Path) -> None:
        async with process(tmp_path, listener("plc", "hsp")) as edge:
            peer = await edge.dial("plc")
            edge.kafka.producer_.held = True
            peer.sends(bytes.fromhex("01 00000001 0007 00000001 68"))
            await until(edge.kafka.frames)
            edge.stop.set()
            await until(lambda: edge.edge.is_draining)
            assert (await edge.asks("/healthz/ready"))[1]["missing"] == {"draining": "this edge is going away"}
            with pytest.raises(ConnectionRefusedError):
                await edge.dial("plc")
            edge.kafka.producer_.held = False
            edge.kafka.producer_.acknowledge()
            assert await peer.reads_all() == bytes.fromhex("02 00000001")
        assert edge.kafka.reader_.stopped

    async def test_an_edge_that_gives_notice_is_not_ready_and_serves_on(self, tmp_path: Path) -> None:
        async with process(tmp_path, listener("plc", "hsp"), edge={"notice_seconds": 3600}) as edge:
            edge.stop.set()
            await until(lambda: edge.edge.is_draining)
            assert (await edge.asks("/healthz/ready"))[1]["missing"] == {"draining": "this edge is going away"}
            peer = await edge.dial("plc")
            peer.sends(bytes.fromhex("01 00000001 0007 00000001 68"))
            await until(edge.kafka.frames)
            assert edge.done is not None
            edge.done.cancel()

    async def test_peers_that_can_be_are_sent_elsewhere(self, tmp_path: Path) -> None:
        async with process(tmp_path, listener("apps", "yamp"), edge={"redirect_url": "tcp://192.0.2.7:5042"}) as edge:
            peer = await edge.dial("apps")
            peer.sends(HANDSHAKE)
            assert await peer.reads(len(HANDSHAKE)) == HANDSHAKE
            edge.stop.set()
            assert await peer.reads_all() == b"\x04\0\x14tcp://192.0.2.7:5042"

    async def test_a_peer_that_never_goes_is_left_behind_when_the_time_is_up(self, tmp_path: Path) -> None:
        limit = {"graceful_shutdown_limit_seconds": 0.3}
        async with process(tmp_path, listener("plc", "hsp"), edge=limit) as edge:
            peer = await edge.dial("plc")
            edge.kafka.producer_.held = True
            peer.sends(bytes.fromhex("01 00000001 0007 00000001 68"))
            await until(edge.kafka.frames)
            begun = asyncio.get_running_loop().time()
            edge.stop.set()
            assert edge.done is not None
            await edge.done
            assert 0.2 < asyncio.get_running_loop().time() - begun < 3
            assert edge.kafka.producer_.waits == [FLUSH_SECONDS, LAST_FLUSH_SECONDS]  # Kafka is not waited for twice

    async def test_an_edge_that_kafka_takes_nothing_from_any_more_ends_with_an_error(self, tmp_path: Path) -> None:
        async with process(tmp_path, listener("plc", "hsp")) as edge:
            peer = await edge.dial("plc")
            edge.kafka.producer_.held = True
            peer.sends(DATA)
            await until(edge.kafka.frames)
            edge.kafka.producer_.acknowledge(FENCED)
            assert edge.done is not None
            with pytest.raises(SetupError) as ended:
                await edge.done
            assert "fenced" in str(ended.value)

    async def test_an_edge_whose_reader_has_died_does_not_look_alive(self, tmp_path: Path) -> None:
        async with process(tmp_path, listener("plc", "hsp")) as edge:
            edge.kafka.reader_.fail(ZeroDivisionError())
            assert edge.done is not None
            with pytest.raises(SetupError) as ended:
                await edge.done
            assert "ZeroDivisionError" in str(ended.value)
