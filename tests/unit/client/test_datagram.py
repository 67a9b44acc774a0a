"""A client of emm against a mesh of datagrams, over real sockets."""

from __future__ import annotations

import pytest

from gateway.auth.keyring import GatewayIdentity, trusting
from gateway.client import NoAnswerError, RefusedError, UnreachableError, Wrapping, connect_emm, datagram
from gateway.client.packets import ALGORITHMS
from gateway.core.content import JSON
from gateway.core.event import Event
from gateway.core.reasons import Rejected
from tests.unit.client.loopback_emm import FORBIDDEN, EmmMesh, emm_loopback
from tests.unit.client.test_packets import KEY, KEYS

IDENTITY = GatewayIdentity(b"g" * 16, bytes.fromhex("000000ff"), b"i" * 32)


async def heard(mesh: EmmMesh) -> Event:
    event = await mesh.heard.get()
    assert not isinstance(event, Rejected), event
    return event


async def test_what_is_published_arrives_signed() -> None:
    async with emm_loopback(KEYS, IDENTITY) as mesh, connect_emm("127.0.0.1", mesh.port, key=KEY) as client:
        await client.publish("temp.high", b"81", JSON)
        event = await heard(mesh)
    assert (event.subject, event.body, event.auth) == ("temp.high", b"81", "hmac+ed25519")


@pytest.mark.parametrize("verify", [False, True])
async def test_a_subscriber_gets_what_is_published(verify: bool) -> None:
    keys = trusting(KEYS, IDENTITY)
    async with emm_loopback(KEYS, IDENTITY) as mesh:
        async with connect_emm("127.0.0.1", mesh.port, key=KEY, keys=keys, verify=verify) as client:
            await client.subscribe("temp.>", "door.*")
            client.post("temp.high", b"81", JSON, Wrapping(encrypt=ALGORITHMS["chacha20-poly1305"]))
            event = await anext(client.events())
    assert (event.subject, event.body) == ("temp.high", b"81")
    assert event.auth == ("hmac+ed25519" if verify else "none")


async def test_a_hello_that_is_lost_is_said_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datagram, "HELLO_SECONDS", 0.01)
    async with emm_loopback(KEYS, IDENTITY, deaf=2) as mesh, connect_emm("127.0.0.1", mesh.port, key=KEY) as client:
        await client.subscribe("temp.>")
        hellos = [(await heard(mesh)).message_id for _ in range(3)]
    assert len(set(hellos)) == 3


async def test_a_mesh_that_does_not_answer_is_named() -> None:
    async with emm_loopback(KEYS, IDENTITY, deaf=1000) as mesh:
        async with connect_emm("127.0.0.1", mesh.port, key=KEY) as client:
            with pytest.raises(NoAnswerError) as unanswered:
                await client.subscribe("temp.>", timeout=0.05)
    assert str(unanswered.value) == f"udp://127.0.0.1:{mesh.port}: no answer to a signed hello within 0.05 s"


async def test_a_pattern_that_is_not_granted_is_an_error() -> None:
    async with emm_loopback(KEYS, IDENTITY) as mesh, connect_emm("127.0.0.1", mesh.port, key=KEY) as client:
        with pytest.raises(RefusedError) as refused:
            await client.subscribe("temp.>", FORBIDDEN)
    assert refused.value.code == "forbidden"


async def test_only_who_can_sign_can_subscribe() -> None:
    async with emm_loopback(KEYS, IDENTITY) as mesh, connect_emm("127.0.0.1", mesh.port) as client:
        with pytest.raises(RefusedError) as refused:
            await client.subscribe("temp.>")
    assert refused.value.code == "unauthenticated"


async def test_the_lease_is_kept_by_heartbeats_and_asked_for_anew() -> None:
    async with emm_loopback(KEYS, IDENTITY, lease_seconds=1) as mesh:
        async with connect_emm("127.0.0.1", mesh.port, key=KEY) as client:
            await client.subscribe("temp.>")
            subjects = [(await heard(mesh)).subject for _ in range(5)]
    assert subjects == ["mesh.emm.hello", *["mesh.emm.heartbeat"] * 3, "mesh.emm.hello"]


async def test_it_is_given_back_in_the_end() -> None:
    async with emm_loopback(KEYS, IDENTITY) as mesh:
        async with connect_emm("127.0.0.1", mesh.port, key=KEY) as client:
            await client.subscribe("temp.>")
        assert (await heard(mesh)).body == b'{"subscribe":["temp.>"]}'
        assert (await heard(mesh)).body == b'{"subscribe":[]}'
        assert [event async for event in client.events()] == []


async def test_a_port_where_nobody_listens_is_named() -> None:
    async with emm_loopback(KEYS, IDENTITY) as mesh:
        port = mesh.port
    async with connect_emm("127.0.0.1", port, key=KEY) as client:
        with pytest.raises(UnreachableError) as refused:
            await client.publish("temp.high", b"81", JSON)
        with pytest.raises(UnreachableError) as unanswered:
            await client.subscribe("temp.>")
    assert str(refused.value) == str(unanswered.value) == f"udp://127.0.0.1:{port}: connection refused"
