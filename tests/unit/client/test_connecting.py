"""Tests the way from an address to an open session: TLS, redirects, and peers that say no or nothing."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from gateway.cli.peer_options import PeerOptions
from gateway.client import EndedError, UnreachableError, connect
from gateway.client import reconnect as staying_module
from gateway.client.carriers.stream import tls_context
from gateway.client.connecting import open_client
from gateway.client.reconnect import stay
from gateway.client.stream import StreamClient
from gateway.core.address import parse_address
from gateway.core.content import JSON
from gateway.core.event import Event
from gateway.protocols.yamp.codec import encode
from gateway.protocols.yamp.frames import CloseRedirect
from tests.unit.client.certificates import Authority
from tests.unit.client.loopback import loopback


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.new(tmp_path_factory.mktemp("ca"))


async def says_something(client: StreamClient) -> Event:
    await client.subscribe("temp.>")
    await client.publish("temp.high", b"[81]", JSON)
    return await anext(client.events())


class TestTls:
    @pytest.mark.parametrize(("protocol", "websocket"), [("hsp", False), ("yamp", False), ("yamp", True)])
    async def test_a_peer_whose_certificate_we_trust_is_talked_to(
        self, authority: Authority, protocol: str, websocket: bool
    ) -> None:
        async with loopback(protocol, tls=authority.server(), websocket=websocket) as mesh:
            scheme = "wss" if websocket else "tls"
            tls = tls_context(authority.ca)
            async with connect(protocol, f"{scheme}://127.0.0.1:{mesh.port}", tls=tls) as client:
                event = await says_something(client)
        assert event.body == b"[81]"

    async def test_one_whose_certificate_nobody_vouches_for_is_not(self, authority: Authority) -> None:
        async with loopback("hsp", tls=authority.server()) as mesh:
            with pytest.raises(UnreachableError) as refused:
                async with connect("hsp", f"tls://127.0.0.1:{mesh.port}"):
                    pass
        assert "its certificate: " in str(refused.value)

    async def test_the_name_in_the_certificate_may_be_another_than_the_hosts(self, authority: Authority) -> None:
        async with loopback("hsp", tls=authority.server()) as mesh:
            url, tls = f"tls://127.0.0.1:{mesh.port}", tls_context(authority.ca)
            async with connect("hsp", url, tls=tls, server_name="mesh") as client:
                await says_something(client)
            with pytest.raises(UnreachableError) as refused:
                async with connect("hsp", url, tls=tls, server_name="another"):
                    pass
        assert "another" in str(refused.value)

    async def test_a_certificate_of_ours_is_shown_where_one_is_asked_for(self, authority: Authority) -> None:
        async with loopback("yamp", tls=authority.server(asks_for_certificate=True)) as mesh:
            url = f"tls://127.0.0.1:{mesh.port}"
            async with connect("yamp", url, tls=tls_context(authority.ca, *authority.sign("device"))) as client:
                await says_something(client)
            with pytest.raises(UnreachableError) as refused:
                async with connect("yamp", url, tls=tls_context(authority.ca)):
                    pass
        assert "certificate" in str(refused.value)

    def test_a_file_that_is_no_certificate_is_an_error_before_anything_is_sent(self, tmp_path: Path) -> None:
        (tmp_path / "ca.pem").write_text("nothing")
        with pytest.raises(ssl.SSLError):
            tls_context(tmp_path / "ca.pem")


class TestPeersThatDoNotWantUs:
    async def test_one_that_does_not_speak_our_format_says_so(self) -> None:
        async with loopback("yamp", {"formats": ["msgpack"]}) as mesh:
            with pytest.raises(UnreachableError) as refused:
                async with connect("yamp", "127.0.0.1", mesh.port):
                    pass
        assert "serializer 'json' is not supported here, these are: msgpack" in str(refused.value)

    async def test_options_of_the_protocol_can_be_given(self) -> None:
        async with loopback("yamp", {"formats": ["msgpack"]}) as mesh:
            async with connect("yamp", "127.0.0.1", mesh.port, options={"formats": ["msgpack"]}) as client:
                event = await says_something(client)
        assert (event.content_type, event.body) == ("application/msgpack", b"\x91\x51")

    async def test_one_that_says_nothing_is_given_up(self) -> None:
        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(listen, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            with pytest.raises(UnreachableError) as refused:
                async with connect("yamp", "127.0.0.1", port, connect_seconds=0.05):
                    pass
        assert str(refused.value) == f"tcp://127.0.0.1:{port}: no session within 0.05 s"

    async def test_one_that_is_no_websocket_is_named(self) -> None:
        async with loopback("yamp") as mesh:
            with pytest.raises(UnreachableError) as refused:
                async with connect("yamp", f"ws://127.0.0.1:{mesh.port}"):
                    pass
        assert str(refused.value).startswith(f"ws://127.0.0.1:{mesh.port}: no WebSocket: ")


@asynccontextmanager
async def redirecting(url: str) -> AsyncIterator[int]:
    """The port of a peer that sends everybody elsewhere before anything else."""

    async def redirect(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(encode(CloseRedirect(url)))
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(redirect, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


class TestRedirects:
    async def test_one_that_comes_in_place_of_the_handshake_is_followed_once(self) -> None:
        async with loopback("yamp") as mesh, redirecting(f"tcp://127.0.0.1:{mesh.port}") as port:
            async with connect("yamp", "127.0.0.1", port) as client:
                event = await says_something(client)
            assert client.peer == f"tcp://127.0.0.1:{mesh.port}"
        assert event.subject == "temp.high"

    async def test_a_second_one_is_not_followed(self) -> None:
        async with redirecting("tcp://127.0.0.1:1") as last, redirecting(f"tcp://127.0.0.1:{last}") as port:
            with pytest.raises(UnreachableError) as refused:
                async with connect("yamp", "127.0.0.1", port):
                    pass
        assert str(refused.value) == f"tcp://127.0.0.1:{last}: the session ended: redirect: tcp://127.0.0.1:1"

    async def test_one_to_where_anybody_can_read_along_is_not_followed(self) -> None:
        async with redirecting("tcp://192.0.2.1:5042") as port:
            with pytest.raises(UnreachableError, match="it sends us to tcp://192"):
                async with connect("yamp", "127.0.0.1", port):
                    pass
            options = PeerOptions(None, "yamp", f"127.0.0.1:{port}")
            with pytest.raises(UnreachableError, match="which has no TLS"):
                await options.open_stream("tcp://192.0.2.1:5042")

    async def test_one_that_ends_an_open_session_tells_where(self) -> None:
        async with loopback("yamp") as mesh, connect("yamp", "127.0.0.1", mesh.port) as client:
            mesh.peers[0].drain("tcp://127.0.0.1:1")
            with pytest.raises(EndedError) as ended:
                await anext(client.events())
        assert ended.value.redirect_url == "tcp://127.0.0.1:1"


class TestStaying:
    @pytest.fixture(autouse=True)
    def _without_pauses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(staying_module, "FIRST_PAUSE_SECONDS", 0.001)

    async def test_a_session_that_ends_is_opened_again(self) -> None:
        async with loopback("hsp") as mesh:
            sessions = 0

            async def use(client: StreamClient) -> str:
                nonlocal sessions
                sessions += 1
                if sessions < 3:
                    mesh.peers[-1].drain()
                    await anext(client.events())
                return "done"

            opened = parse_address(f"tcp://127.0.0.1:{mesh.port}")
            assert await stay(lambda _: open_client("hsp", opened), use, reconnect=True) == "done"
        assert sessions == 3

    async def test_unless_nobody_asked_for_it(self) -> None:
        async with loopback("hsp") as mesh:

            async def use(client: StreamClient) -> None:
                mesh.peers[-1].drain()
                await anext(client.events())

            opened = parse_address(f"tcp://127.0.0.1:{mesh.port}")
            with pytest.raises(EndedError) as ended:
                await stay(lambda _: open_client("hsp", opened), use, reconnect=False)
        assert ended.value.reason == "eof"

    async def test_a_redirect_is_followed_in_any_case(self) -> None:
        async with loopback("yamp") as first, loopback("yamp") as second:
            used: list[str] = []

            async def use(client: StreamClient) -> None:
                used.append(client.peer)
                if len(used) == 1:
                    first.peers[0].drain(f"tcp://127.0.0.1:{second.port}")
                    await anext(client.events())

            begin = f"tcp://127.0.0.1:{first.port}"
            await stay(lambda url: open_client("yamp", parse_address(url or begin)), use, reconnect=False)
        assert used == [f"tcp://127.0.0.1:{mesh.port}" for mesh in (first, second)]

    async def test_a_peer_that_is_not_there_yet_is_waited_for(self) -> None:
        async with loopback("hsp") as mesh:
            addresses = ["tcp://127.0.0.1:1", "tcp://127.0.0.1:1", f"tcp://127.0.0.1:{mesh.port}"]

            async def use(client: StreamClient) -> str:
                return client.peer

            async def next_one(_: str | None) -> StreamClient:
                return await open_client("hsp", parse_address(addresses.pop(0)))

            assert await stay(next_one, use, reconnect=True) == f"tcp://127.0.0.1:{mesh.port}"


class TestLogins:
    """Returns the protocol's own options."""

    MESH: ClassVar[dict[str, Any]] = {"auth": {"cluster_key": "00ff00ff"}, "require_trust": 3}

    async def test_what_the_peer_asks_for_is_proven_first(self) -> None:
        options = {"auth": {"cluster_key": "00ff00ff"}, "login": ["encrypt", "cluster"]}
        async with loopback("wolpertinger", self.MESH) as mesh:
            async with connect("wolpertinger", "127.0.0.1", mesh.port, options=options) as client:
                event = await says_something(client)
        assert event.body == b"[81]"

    async def test_a_proof_that_is_refused_is_told(self) -> None:
        options = {"auth": {"cluster_key": "00ff00fe"}, "login": ["encrypt", "cluster"]}
        async with loopback("wolpertinger", self.MESH) as mesh:
            with pytest.raises(UnreachableError) as refused:
                async with connect("wolpertinger", "127.0.0.1", mesh.port, options=options):
                    pass
        assert "the session ended: unauthenticated" in str(refused.value)
