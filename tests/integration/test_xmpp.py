"""wolpertinger over XMPP through the whole mesh, as a component of a real server: Debian's Prosody."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.request
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from gateway.client import Answer, EndedError, IncomingRequest, StreamClient, UnreachableError, connect
from gateway.client.carriers import xmpp
from gateway.edge.carriers.xmpp import XmppListener
from tests.integration.mesh import TestMesh, free_port, wait_until
from tests.integration.xmpp.prosody import PASSWORD, PLAIN, SECURE, Prosody
from tests.integration.xmpp.writer import Writer, call, document, writer
from tests.unit.edge.certificates import Authority
from tests.unit.edge.running import until
from tests.unit.protocols.by_the_text.whole_mesh import whole_mesh

SECONDS = 60.0
JSON = "application/json"
LONG = "long " * 20_000
"""As XML and base64 more than four pieces, and more than a stanza may have."""


@pytest.fixture(scope="module")
def tls(authority: Authority) -> ssl.SSLContext:
    return authority.trusted_by()


def nodes(mesh: TestMesh) -> list[str]:
    """Counts the sessions over XMPP."""
    with urllib.request.urlopen(f"http://127.0.0.1:{mesh.ports['edge']}/peers", timeout=5) as answer:
        return sorted(peer["node"] for peer in json.load(answer) if peer["listener"] == "xmpp")


def refused(mesh: TestMesh) -> dict[str, float]:
    """Returns what the XMPP listener has refused, by reason."""
    samples = mesh.metrics("edge")
    return {
        reason: sum(
            value
            for name, value in samples.items()
            if name.startswith("meshgate_rejected_frames_total") and 'listener="xmpp"' in name and f'"{reason}"' in name
        )
        for reason in ("missing_field", "bad_encoding", "malformed", "too_large")
    }


async def next_body(client: StreamClient) -> Any:
    return json.loads((await anext(client.events())).body)


def in_time(talk: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(talk, SECONDS))


@pytest.mark.parametrize("domain", [SECURE, PLAIN])
def test_events_and_calls_go_between_xmpp_and_tcp(
    mesh: TestMesh, prosody: Prosody, tls: ssl.SSLContext, domain: str
) -> None:
    alice_at = prosody.user("alice", domain)

    async def shout(asked: IncomingRequest) -> Answer:
        return Answer(body=asked.body.upper(), content_type=asked.content_type)

    async def talk() -> None:
        async with (
            connect("wolpertinger", alice_at, password=PASSWORD, tls=tls) as alice,
            connect("yamp", "127.0.0.1", mesh.ports["yamp"]) as bob,
        ):
            await alice.subscribe("xmpp.to.alice")
            await bob.subscribe("xmpp.to.bob")
            await bob.publish("xmpp.to.alice", b'["over xmpp"]', JSON)
            assert await next_body(alice) == ["over xmpp"]
            await alice.publish("xmpp.to.bob", b'["and back"]', JSON)
            assert await next_body(bob) == ["and back"]
            assert nodes(mesh) == [f"xmpp:alice@{domain}"]

            await alice.serve("xmpp.shout", shout)
            answer = await bob.request("xmpp.shout", b'["quiet"]', JSON)
            assert json.loads(answer.body) == ["QUIET"]

    in_time(talk())
    wait_until(lambda: nodes(mesh) == [], "the session has ended with the client")


def test_long_messages_arrive_in_pieces_and_in_order(mesh: TestMesh, prosody: Prosody, tls: ssl.SSLContext) -> None:
    erin_at = prosody.user("erin")

    async def talk() -> None:
        async with (
            connect("wolpertinger", erin_at, password=PASSWORD, tls=tls) as erin,
            connect("yamp", "127.0.0.1", mesh.ports["yamp"]) as bob,
        ):
            await erin.subscribe("xmpp.long.out")
            await bob.subscribe("xmpp.long.in")
            for at in range(3):
                await erin.publish("xmpp.long.in", json.dumps([at, LONG]).encode(), JSON)
                await bob.publish("xmpp.long.out", json.dumps([at, LONG]).encode(), JSON)
            assert [await next_body(bob) for _ in range(3)] == [[at, LONG] for at in range(3)]
            assert [await next_body(erin) for _ in range(3)] == [[at, LONG] for at in range(3)]

    in_time(talk())


class TestForeignUsers:
    def test_a_session_ends_with_a_user_who_says_no_word_about_it(self, mesh: TestMesh, prosody: Prosody) -> None:
        carol_at = prosody.user("carol", PLAIN)

        async def come_and_go() -> None:
            async with writer(carol_at) as carol:
                carol.sends(f"<presence to='{carol.to}'/>")
                carol.writes(call(1, "Mesh", "Ping"))
                assert await carol.hears() == "result:0;message_id:1;"
                assert nodes(mesh) == [f"xmpp:carol@{PLAIN}"]
                carol.abort()

        in_time(come_and_go())
        wait_until(lambda: nodes(mesh) == [], "the session has ended with the user's presence")

    def test_what_strangers_may_say_harms_nobody(self, mesh: TestMesh, prosody: Prosody, tls: ssl.SSLContext) -> None:
        dave_at, mallory_at = prosody.user("dave"), prosody.user("mallory", PLAIN)

        async def talk() -> None:
            async with (
                connect("wolpertinger", dave_at, password=PASSWORD, tls=tls) as dave,
                writer(mallory_at) as mallory,
            ):
                await dave.subscribe("xmpp.to.dave")
                await say_everything(mallory)
                mallory.writes(call(9, "Mesh", "Ping", "still there"))
                assert await mallory.hears() == "result:0;message_id:9;"
                assert "still there" in document(await mallory.hears())
                await dave.publish("xmpp.to.dave", b'["nor me"]', JSON)
                assert await next_body(dave) == ["nor me"]

        came, before = prosody.components(), refused(mesh)
        in_time(talk())
        told = {reason: count - before[reason] for reason, count in refused(mesh).items()}
        assert told == {"missing_field": 2, "bad_encoding": 1, "malformed": 1, "too_large": 1}
        assert prosody.components() == came, "the stream stood all the time"


async def say_everything(mallory: Writer) -> None:
    """Whatever is answered is heard here."""
    for kind in ("groupchat", "headline"):
        mallory.writes(call(1, "Mesh", "Ping"), kind)
    mallory.sends(f"<message to='{mallory.to}'><body/></message>")
    mallory.sends(f"<message to='{mallory.to}'><active xmlns='http://jabber.org/protocol/chatstates'/></message>")
    mallory.sends(f"<presence to='{mallory.to}'><show>xa</show></presence>")
    mallory.writes("hello, is anybody there?")
    mallory.writes("f\u00fcr \U0001f980: ;;;:::")
    mallory.writes("result:0;")
    mallory.writes("message_id:7;!!!!")
    assert await mallory.hears() == "result:5;message_id:7;"
    mallory.writes("message_id:0;aGVsbG8=")
    assert await mallory.hears() == "result:0;message_id:0;"
    assert "<ErrorCode>301</ErrorCode>" in document(await mallory.hears())
    mallory.writes(f"message_id:8;{'A' * 70_000}")
    assert await mallory.hears() == "result:3;message_id:8;"
    assert await mallory.asks("http://jabber.org/protocol/disco#info") == "feature-not-implemented"


class TestWhoIsNotLetIn:
    @pytest.mark.parametrize(
        ("name", "domain", "password", "why"),
        [
            ("judy", SECURE, "guessed", "it does not let us in: a wrong password, or it offers no TLS"),
            ("judy", PLAIN, "guessed", "it does not let us in: a wrong password, or it offers no TLS"),
            ("judy", "elsewhere", PASSWORD, "it ended the stream: host-unknown"),
        ],
    )
    def test_is_told_why(
        self, prosody: Prosody, tls: ssl.SSLContext, name: str, domain: str, password: str, why: str
    ) -> None:
        assert self.fails(prosody.user(name, domain), password, tls).endswith(why)

    def test_a_certificate_that_nobody_vouches_for_ends_it(self, prosody: Prosody) -> None:
        why = self.fails(prosody.user("judy"), PASSWORD, ssl.create_default_context())
        assert "its certificate: unable to get local issuer certificate" in why

    def fails(self, at: str, password: str, tls: ssl.SSLContext) -> str:
        async def come() -> None:
            async with connect("wolpertinger", at, password=password, tls=tls):
                raise AssertionError("let in")

        with pytest.raises(UnreachableError) as unreachable:
            in_time(come())
        return str(unreachable.value)

    def test_a_peer_that_is_not_there_is_told_at_once(self, prosody: Prosody, tls: ssl.SSLContext) -> None:
        at = prosody.user("judy").replace("/mesh.localhost", "/nobody@localhost")

        async def ask() -> None:
            async with connect("wolpertinger", at, password=PASSWORD, tls=tls) as judy:
                await judy.subscribe("anything")

        with pytest.raises(EndedError) as ended:
            in_time(ask())
        assert "nobody@localhost is not there: service-unavailable" in str(ended.value)


def test_when_the_server_goes_sessions_end_and_when_it_is_back_all_goes_on(
    mesh: TestMesh, prosody: Prosody, tls: ssl.SSLContext
) -> None:
    frank_at = prosody.user("frank")

    async def stay(goes: bool) -> None:
        async with connect("wolpertinger", frank_at, password=PASSWORD, tls=tls) as frank:
            await frank.subscribe("xmpp.to.frank")
            if goes:
                prosody.stop()
                with pytest.raises(EndedError):
                    await frank.wait_ended()

    in_time(stay(goes=True))
    wait_until(lambda: nodes(mesh) == [], "all sessions have ended")
    came = prosody.components()
    prosody.start()
    prosody.wait_for_component(came + 1)
    in_time(stay(goes=False))


def test_a_client_learns_that_an_edge_began_anew_and_knows_it_no_more(
    authority: Authority, tmp_path: Path, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edge that is killed says nothing to anybody, and XMPP keeps no connection from end to end."""
    monkeypatch.setattr(xmpp, "PING_SECONDS", 0.1)
    certificate = authority.signs("alone", x509.DNSName("localhost"))
    server = Prosody(tmp_path, "mesh.localhost", "secret", free_port(), certificate)
    component = {"domain": server.component, "secret": server.secret}
    chat = {"name": "chat", "protocol": "wolpertinger", "listen": f"xmpp://127.0.0.1:{server.component_port}"}

    async def stay() -> None:
        async with whole_mesh(chat | {"xmpp": component}) as killed:
            await until(lambda: server.components() == 1)
            async with connect("wolpertinger", server.user("grace"), password=PASSWORD, tls=tls) as grace:
                await grace.subscribe("xmpp.to.grace")
                (session,) = killed.edge.life.sessions
                await until(lambda: session._carrier.is_present)  # so it may be silent
                kill(killed.edge.life.endpoints._xmpp["chat"])
                async with whole_mesh(chat | {"xmpp": component}):
                    with pytest.raises(EndedError) as ended:
                        await grace.wait_ended()
        assert "mesh.localhost is not there" in str(ended.value)

    server.start()
    try:
        in_time(stay())
    finally:
        server.stop()


def kill(listening: XmppListener) -> None:
    """It neither says that it goes nor comes back."""
    assert listening._task is not None
    listening._task.cancel()
    listening._stream.give_up("killed")
