"""The demo's plan: where its peers connect, and which keys its devices have."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from gateway.auth.key_admin import ensure_identity, labels_of, list_keys, revoke_key
from gateway.cli.console import Exit
from gateway.cli.demo import _watched
from gateway.client import Answer, IncomingRequest
from gateway.config import Config, parse
from gateway.core.event import Event, Kind
from gateway.demo.devices import KEYS_HOLD, demo_devices
from gateway.demo.traffic import Demo, _turn_valve, addresses_of
from tests.unit.cli.running import run
from tests.unit.config.reading import read
from tests.unit.protocols.wolpertinger.events import encoded

LISTENERS = """
mesh: demo
listeners:
  - {name: secret, protocol: yamp, listen: tls://127.0.0.1:5142, tls: {cert: c, key: k}}
  - {name: apps, protocol: yamp, listen: tcp://0.0.0.0:5042}
  - {name: web, protocol: yamp, listen: ws://127.0.0.1:5043}
  - {name: devices, protocol: emm, listen: udp://127.0.0.1:5050}
  - {name: open, protocol: hsp, listen: tcp://127.0.0.1:0}
  - {name: members, protocol: emp, listen: tcp://127.0.0.1:5040, require_login: true}
  - {name: shop, protocol: wolpertinger, listen: tcp://0.0.0.0:5044}
  - {name: shop-here, protocol: wolpertinger, listen: tcp://127.0.0.1:5144}
"""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    ensure_identity(tmp_path / "keys.yaml")
    return parse("mesh: demo", tmp_path / "meshgate.yaml", {})


def test_each_protocol_is_reached_by_its_first_listener_without_proof_and_on_loopback_if_there_is_one() -> None:
    assert addresses_of(read(LISTENERS)) == {
        "yamp": "ws://127.0.0.1:5043",
        "emm": "udp://127.0.0.1:5050",
        "wolpertinger": "tcp://127.0.0.1:5144",
    }


def test_devices_get_keys_with_labels_once(config: Config) -> None:
    first, second = demo_devices(config, 2), demo_devices(config, 3)
    assert [device.is_new for device in (*first, *second)] == [True, True, False, False, True]
    assert sorted(labels_of(config.trust).values()) == ["cellar sensor", "garden sensor", "kitchen sensor"]
    assert [one.key.signer for one in first] == [one.key.signer for one in second[:2]]


def test_keys_of_devices_come_to_an_end_by_themselves(config: Config) -> None:
    demo_devices(config, 1)
    (key,) = [key for key in list_keys(config.trust, datetime.now(UTC)) if not key.gateway]
    assert key.not_after is not None
    assert timedelta(days=364) < datetime.fromisoformat(key.not_after) - datetime.now(UTC) <= KEYS_HOLD


def test_a_device_whose_key_was_revoked_gets_another(config: Config) -> None:
    demo_devices(config, 1)
    now = datetime.now(UTC)
    (key,) = [key for key in list_keys(config.trust, now) if not key.gateway]
    revoke_key(config.trust, key.node, key.key_id, now=now)
    (device,) = demo_devices(config, 1)
    assert device.is_new
    assert [one.state for one in list_keys(config.trust, now) if not one.gateway] == ["expired", "valid"]


def test_the_valve_says_that_it_turns_which_wolpertinger_cannot_hear() -> None:
    """So a dashboard's panel of translation losses shows one."""
    request = Event(id="0-0-0", kind=Kind.REQUEST, subject="Demo.Valve", protocol="hsp", body=b"[7]")
    said: list[Answer] = []
    answer = asyncio.run(_turn_valve(IncomingRequest(request, lambda _, progress: said.append(progress))))
    (progress,) = said
    assert progress.kind is Kind.PROGRESS
    told = replace(request, kind=progress.kind, body=progress.body, content_type=progress.content_type)
    assert encoded(told).losses == ("body",)
    assert answer.body == b"[7]"


class TestVerb:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        return tmp_path

    def test_where_no_mesh_runs_it_says_so(self, folder: Path) -> None:
        (folder / "meshgate.yaml").write_text(
            "{mesh: demo, listeners: [{name: apps, protocol: yamp, listen: 'tcp://127.0.0.1:1'}]}"
        )
        result = run("demo")
        assert result.exit_code == Exit.UNAVAILABLE
        assert "left out: emm, emp, hsp, wolpertinger" in result.stderr
        assert "tcp://127.0.0.1:1: connection refused: is the mesh running? (meshgate up)" in result.stderr

    def test_where_no_mesh_runs_no_keys_are_made(self, folder: Path) -> None:
        (folder / "meshgate.yaml").write_text(
            "{mesh: demo, edge: {management: '127.0.0.1:1'},"
            " listeners: [{name: devices, protocol: emm, listen: 'udp://127.0.0.1:2'}]}"
        )
        result = run("demo")
        assert result.exit_code == Exit.UNAVAILABLE
        assert "edge.management 127.0.0.1:1 does not answer (Connection refused): is the edge running?" in result.stderr
        assert not (folder / "keys.yaml").exists()

    def test_without_a_listener_that_it_can_reach_there_is_nothing_to_do(self, folder: Path) -> None:
        (folder / "meshgate.yaml").write_text("mesh: demo")
        assert "there is no listener" in run("demo").stderr

    @pytest.mark.parametrize("bound", [("--rate", "101"), ("--seconds", "0"), ("--devices", "7")])
    def test_it_is_bounded(self, bound: tuple[str, str]) -> None:
        assert run("demo", *bound).exit_code == Exit.USAGE


def test_sigterm_ends_it_as_ctrl_c_does() -> None:
    class Endless:
        async def run(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(_watched(cast("Demo", Endless())))
