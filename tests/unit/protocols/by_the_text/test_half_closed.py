"""A peer that says all it has to say, closes its half of the connection, as `nc` does, and waits for the answers."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from gateway.core.event import Kind
from gateway.core.reasons import MeshError
from gateway.edge.carriers.stream import RESET_SECONDS
from gateway.records.raw_log.control_frames import RequestDropped, RequestsAbandoned
from gateway.records.raw_log.frames import ReplyAddress
from tests.unit.edge.running import configured, listener, running, until, with_session
from tests.unit.protocols.by_the_text.whole_mesh import Foreign, WholeMesh, whole_mesh

UID = "02" * 16
YAMP = "00 0001 04 6a736f6e", f"06 {UID} 03 73756d 00 00000000"
EMP = "0000000c 00000000 01000000", "0000001c 05800000 00000014 00000000 80000000 0000000000000001"
HSP = ("01 00000001 0011 00000000",)
NAMESPACE = b' xmlns="http://nerdcave.eu/wolpertinger"'
CALL = (
    b"<RemoteMethodCall" + NAMESPACE + b"><ComponentName>Math</ComponentName>"
    b"<CallId>6c3b2f5e-0d1c-4f4e-9a51-0e6f3f0d7a11</CallId><MethodName>sum</MethodName><Parameters/></RemoteMethodCall>"
)
WOLPERTINGER = ((b"message_id:1;" + b64encode(CALL) + b"\n").hex(),)
SERVED: dict[int, dict[str, Any]] = {
    17: {"subject": "sum", "kind": "request"},
    18: {"subject": "emp.data", "kind": "request"},
    19: {"subject": "Math.sum", "kind": "request"},
}
SERVES = listener("serves", "hsp", types=SERVED, serve=["sum", "emp.data", "Math.sum"])


async def is_asked(server: Foreign) -> bytes:
    """The MessageID of what it is asked."""
    head = await server.reads(11)
    await server.reads(int.from_bytes(head[7:11]))
    return head[1:5]


async def half_closed(mesh: WholeMesh, *said: str) -> Foreign:
    peer = await mesh.dial("asks")
    peer.says(*said)
    peer.peer.says_no_more()
    return peer


@pytest.mark.parametrize(
    ("protocol", "said", "at_once", "answer"),
    [
        ("yamp", YAMP, YAMP[0], f"{UID} 00 00000004 6e756c6c"),
        ("emp", EMP, EMP[0], "00000014 00000000 00000000 0000000000000001"),
        ("hsp", HSP, "", "02 00000001"),
        ("wolpertinger", WOLPERTINGER, b"result:0;message_id:1;\n".hex(), "0a"),
    ],
)
async def test_it_hears_the_answer_of_its_request_and_then_is_left(
    protocol: str, said: tuple[str, ...], at_once: str, answer: str
) -> None:
    types: dict[str, Any] = {"types": {17: SERVED[17]}} if protocol == "hsp" else {}
    async with whole_mesh(SERVES, listener("asks", protocol, **types)) as mesh:
        server = await mesh.dial("serves")
        await mesh.stands("serves")
        peer = await half_closed(mesh, *said)
        asked = await is_asked(server)
        await peer.hears(at_once)
        await peer.peer.hears_nothing()
        server.says("02", asked)
        assert (await peer.is_left()).endswith(bytes.fromhex(answer))
        await until(lambda: mesh.edge.of("connections_closed_total", "asks", reason="eof") == 1)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ack": "delivered"}, "01 00000001 0011 00000000"),
        ({"types": {17: "mesh.ping"}}, "01 00000001 0011 00000000"),
    ],
)
async def test_it_hears_what_the_router_makes_of_an_acknowledged_frame(settings: dict[str, Any], said: str) -> None:
    async with whole_mesh(listener("asks", "hsp", **settings)) as mesh:
        peer = await half_closed(mesh, said)
        assert (await peer.is_left()).endswith(bytes.fromhex("02 00000001"))


async def test_it_is_left_when_nobody_answers_in_time_and_who_serves_it_is_told() -> None:
    asks = listener("asks", "hsp", types={17: SERVED[17]}, ping_seconds=0.01, pong_timeout_seconds=0.01)
    async with with_session(configured(asks, request_timeout_seconds=1), "asks") as (edge, peer):
        peer.sends(bytes.fromhex(HSP[0]))
        peer.says_no_more()
        said = (await peer.reads_all()).lstrip(b"\x03")
        assert said.startswith(bytes.fromhex("05 00000001 ff00"))
        assert b"timeout" in said
        assert RequestDropped() in edge.kafka.mesh()
        await until(lambda: edge.of("connections_closed_total", "asks", reason="eof") == 1)


async def test_it_is_left_when_it_is_idle_for_too_long_all_the_same() -> None:
    asks = listener("asks", "hsp", types={17: SERVED[17]}, idle_seconds=1)
    async with with_session(configured(asks), "asks") as (edge, peer):
        peer.sends(bytes.fromhex(HSP[0]))
        peer.says_no_more()
        assert await peer.reads_all() == b"\x03"
        await until(lambda: edge.of("connections_closed_total", "asks", reason="idle") == 1)


async def test_it_is_asked_nothing_any_more() -> None:
    async with with_session(configured(listener("asks", "hsp", types={17: SERVED[17]})), "asks") as (edge, peer):
        peer.sends(bytes.fromhex(HSP[0]))
        peer.says_no_more()
        await peer.hears_nothing()
        asker = ReplyAddress("yamp", "apps", "edge-1", 7, 3, "0102", "sum")
        edge.delivers(bytes.fromhex(HSP[0]), stamps=(1,), sessions=(1,), kind=Kind.REQUEST, reply=asker.pack())
        await until(lambda: RequestsAbandoned(MeshError.UNDELIVERABLE) in edge.kafka.mesh())
        await peer.hears_nothing()


async def test_who_has_gone_altogether_is_found_out_and_its_request_is_dropped() -> None:
    asks = listener("asks", "hsp", types={17: SERVED[17]})
    async with running(configured(asks)) as edge:
        [gone, waiting] = await edge.opens("asks", 2)
        for peer in (gone, waiting):
            peer.sends(bytes.fromhex(HSP[0]))
        await until(lambda: len(edge.kafka.frames()) == 2)
        gone.hangs_up()
        waiting.says_no_more()
        await until(lambda: edge.of("connections_closed_total", "asks", reason="eof") == 1)
        await until(lambda: edge.kafka.mesh().count(RequestDropped()) == 1)
        assert await waiting.reads(1) == b"\x03"  # the ping, which it cannot answer
        await waiting.hears_nothing(RESET_SECONDS + 0.2)
        assert edge.of("connections", "asks", state="open") == 1
