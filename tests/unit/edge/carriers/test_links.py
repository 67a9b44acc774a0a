"""Links: dialled, kept, dialled again, and who their peers are."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from gateway.core.event import Auth
from gateway.edge.carriers.links import MAX_REDIRECTS
from gateway.protocols.hsp.options import HspOptions
from gateway.protocols.hsp.session import HspSession
from gateway.records.raw_log.control_frames import SessionOpened
from gateway.records.raw_log.frames import LINK_FACT, REDELIVER_FACT, FrameSource
from tests.unit.edge.certificates import Authority
from tests.unit.edge.running import Peer, RunningEdge, configured, listener, running, until

HANDSHAKE = bytes.fromhex("00 0001 04 6a736f6e")
CLOSE = bytes.fromhex("03 0003 627965")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Peers here are plain sockets: they do not close when we do."""
    monkeypatch.setattr("gateway.edge.carriers.links.FIRST_REST_SECONDS", 0.02)
    monkeypatch.setattr("gateway.edge.carriers.carrier.LINGER_SECONDS", 0.02)


class Plant:
    """A peer that is dialled."""

    def __init__(self) -> None:
        self.met: asyncio.Queue[Peer] = asyncio.Queue()
        self.server: asyncio.Server | None = None

    async def listens(self, port: int = 0, tls: ssl.SSLContext | None = None) -> int:
        def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.met.put_nowait(Peer(reader, writer))

        self.server = await asyncio.start_server(meet, "127.0.0.1", port, ssl=tls)
        bound: int = self.server.sockets[0].getsockname()[1]
        return bound

    def closes(self) -> None:
        assert self.server is not None
        self.server.close()


@asynccontextmanager
async def plant(tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[Plant, int]]:
    there = Plant()
    port = await there.listens(tls=tls)
    try:
        yield there, port
    finally:
        there.closes()


def link(port: int, protocol: str = "yamp", scheme: str = "tcp", **settings: Any) -> dict[str, Any]:
    return {"name": "plant", "protocol": protocol, "connect": f"{scheme}://127.0.0.1:{port}", **settings}


async def source(edge: RunningEdge) -> FrameSource:
    await until(lambda: list(edge.life.sessions))
    return next(iter(edge.life.sessions)).source


async def meets(edge: RunningEdge, there: Plant) -> Peer:
    return edge.kept(await there.met.get())


async def test_a_link_speaks_first_and_its_session_is_the_configured_peers() -> None:
    async with plant() as (there, port):
        config = configured(peers=[link(port, subscribe=["order.>"], serve=["sum"])])
        async with running(config) as edge:
            peer = await meets(edge, there)
            assert await peer.reads(len(HANDSHAKE)) == HANDSHAKE
            peer.sends(HANDSHAKE)
            found = await source(edge)
            assert (found.node, found.auth, found.listener) == ("link:plant", Auth.SESSION, "plant")
            assert found.facts[LINK_FACT] is True
            await until(lambda: SessionOpened("yamp", ("order.>",), ("sum",)) in edge.kafka.mesh())
            assert edge.of("connections", "plant", state="open") == 1


async def test_a_link_that_ends_is_dialled_again() -> None:
    async with plant() as (there, port), running(configured(peers=[link(port)])) as edge:
        for _ in range(3):
            peer = await meets(edge, there)
            assert await peer.reads(len(HANDSHAKE)) == HANDSHAKE
            peer.hangs_up()
        await until(lambda: edge.of("connections_closed_total", "plant", reason="eof") == 3)


async def test_a_link_that_ends_with_open_requests_of_its_peer_is_dialled_again_at_once() -> None:
    async with plant() as (there, port):
        dialled = link(port, "hsp", types={17: {"subject": "sum", "kind": "request"}})
        async with running(configured(peers=[dialled], request_timeout_seconds=600)) as edge:
            peer = await meets(edge, there)
            peer.sends(bytes.fromhex("01 00000001 0011 00000000"))
            peer.says_no_more()
            await meets(edge, there)


async def test_a_session_is_spared_the_options_of_another_protocol_that_its_link_speaks_by_now() -> None:
    async with plant() as (there, port), running(configured(peers=[link(port, "hsp")])) as edge:
        await meets(edge, there)
        await source(edge)
        [connection] = edge.life.sessions
        assert isinstance(connection.session, HspSession)
        edge.life.reconfigure(configured(peers=[link(port, "emp")]))
        assert connection.session.options == HspOptions()


async def test_a_peer_that_is_not_there_yet_is_found_when_it_comes() -> None:
    there = Plant()
    port = await there.listens()
    there.closes()
    async with running(configured(peers=[link(port)])) as edge:
        await asyncio.sleep(0.05)
        await there.listens(port)
        assert await (await meets(edge, there)).reads(len(HANDSHAKE)) == HANDSHAKE
        assert edge.of("connections_opened_total", "plant") == 1
        there.closes()


async def test_a_peer_that_never_answers_the_handshake_is_left_and_dialled_again() -> None:
    async with plant() as (there, port), running(configured(peers=[link(port, handshake_seconds=0.05)])) as edge:
        first = await meets(edge, there)
        await first.reads_all()
        assert edge.of("connections_closed_total", "plant", reason="timeout") == 1
        await meets(edge, there)


def away(edge: RunningEdge) -> str:
    """Why the link is away; empty while it stands."""
    return next((one["why"] for one in edge.life.endpoints.away()), "")


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """The lines about links: level and text."""
    lines = [(one.levelname, one.message) for one in caplog.records if one.name.endswith("reachability")]
    return [(level, line) for level, line in lines if level != "DEBUG"]


class TestWhatIsToldOfIt:
    async def test_it_stands_when_its_session_is_open_and_not_before(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level("INFO")
        async with plant() as (there, port), running(configured(peers=[link(port)])) as edge:
            peer = await meets(edge, there)
            await peer.reads(len(HANDSHAKE))
            assert (told(caplog), away(edge)) == ([], "not connected yet")
            peer.sends(HANDSHAKE)
            await source(edge)
            stands = [("INFO", f"link plant stands: tcp://127.0.0.1:{port}")]
            assert (told(caplog), away(edge)) == (stands, "")

    async def test_a_handshake_that_fails_again_and_again_is_one_line(self, caplog: pytest.LogCaptureFixture) -> None:
        refused = bytes.fromhex("03 0003 6e6f21")
        async with plant() as (there, port), running(configured(peers=[link(port)])) as edge:
            for _ in range(3):
                (await meets(edge, there)).sends(refused)
            why = f"127.0.0.1:{port}: the handshake failed: peer_error: no!"
            await until(lambda: edge.of("connections_closed_total", "plant", reason="peer_error") == 3)
            await meets(edge, there)
            assert (told(caplog), away(edge)) == ([("WARNING", f"link plant: {why}")], why)

    async def test_a_peer_that_is_not_there_is_one_line_and_so_is_its_coming(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO")
        there = Plant()
        port = await there.listens()
        there.closes()
        async with running(configured(peers=[link(port)])) as edge:
            await until(lambda: [one for one in edge.life.endpoints.away() if "refused" in one["why"]])
            await until(lambda: sum("does not answer" in one.message for one in caplog.records) >= 1)
            await there.listens(port)
            (await meets(edge, there)).sends(HANDSHAKE)
            await source(edge)
            address = f"tcp://127.0.0.1:{port}"
            assert told(caplog) == [
                ("WARNING", f"link plant: {address} does not answer: Connection refused"),
                ("INFO", f"link plant stands: {address}"),
            ]
            there.closes()


@pytest.mark.parametrize(("said", "owed"), [({}, 300), ({"redeliver_seconds": 7}, 7), ({"redeliver_seconds": 0}, None)])
async def test_an_hsp_links_peer_is_owed_what_it_misses(said: dict[str, Any], owed: int | None) -> None:
    async with plant() as (there, port), running(configured(peers=[link(port, "hsp", **said)])) as edge:
        await meets(edge, there)
        assert (await source(edge)).facts.get(REDELIVER_FACT) == owed


class TestTls:
    @pytest.mark.parametrize(("node_from", "node"), [("san", "urn:plant:7"), ("cn", "cn:plant-7")])
    async def test_the_node_is_what_the_servers_certificate_says(
        self, authority: Authority, node_from: str, node: str
    ) -> None:
        mine = authority.signs("plant", x509.UniformResourceIdentifier("urn:plant:7"), common="plant-7")
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        serving.load_cert_chain(mine["cert"], mine["key"])
        async with plant(serving) as (there, port):
            tls = {"ca": str(authority.ca), "node_from": node_from}
            async with running(configured(peers=[link(port, "hsp", "tls", tls=tls)])) as edge:
                await meets(edge, there)
                found = await source(edge)
                assert (found.node, found.auth) == (node, Auth.TLS)

    async def test_a_peer_with_a_certificate_of_nobody_we_trust_gets_no_session(
        self, authority: Authority, tmp_path: Path
    ) -> None:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        mine = Authority(elsewhere).signs("plant")
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        serving.load_cert_chain(mine["cert"], mine["key"])
        async with plant(serving) as (_, port):
            config = configured(peers=[link(port, "hsp", "tls", tls={"ca": str(authority.ca)})])
            async with running(config) as edge:
                await until(lambda: edge.of("connections_closed_total", "plant", reason="tls") >= 2)
                assert list(edge.life.sessions) == []
                assert edge.of("connections", "plant", state="closing") == 0

    async def test_two_edges_know_each_other_by_their_certificates(self, authority: Authority) -> None:
        def named(name: str) -> dict[str, str]:
            return authority.signs(name, x509.DNSName(f"{name}.example"))

        serving = named("server") | {"client_ca": str(authority.ca)}
        async with running(configured(listener("mesh", "emp", "tls", tls=serving))) as server:
            tls = named("client") | {"ca": str(authority.ca)}
            async with running(configured(peers=[link(server.port("mesh"), "emp", "tls", tls=tls)])) as client:
                assert (await source(client)).node == "server.example"
                assert (await source(server)).node == "client.example"


@asynccontextmanager
async def two_plants() -> AsyncIterator[tuple[Plant, Plant, int, RunningEdge]]:
    """The one a link knows, another and its port, and the edge that has the link."""
    async with plant() as (first, port), plant() as (second, other):
        async with running(configured(peers=[link(port)])) as edge:
            yield first, second, other, edge


def redirect(url: str) -> bytes:
    return b"\x04" + len(url).to_bytes(2, "big") + url.encode()


class TestRedirects:
    async def test_a_link_goes_where_its_peer_sends_it_and_comes_back_when_that_ends(self) -> None:
        async with (
            plant() as (first, port),
            plant() as (second, other),
            running(configured(peers=[link(port)])) as edge,
        ):
            peer = await meets(edge, first)
            peer.sends(HANDSHAKE + redirect(f"tcp://127.0.0.1:{other}"))
            there = await meets(edge, second)
            assert await there.reads(len(HANDSHAKE)) == HANDSHAKE
            there.sends(HANDSHAKE + CLOSE)
            await meets(edge, first)

    async def test_it_may_be_sent_on_before_the_handshake_is_done(self) -> None:
        async with (
            plant() as (first, port),
            plant() as (second, other),
            running(configured(peers=[link(port)])) as edge,
        ):
            (await meets(edge, first)).sends(redirect(f"tcp://127.0.0.1:{other}"))
            await meets(edge, second)

    async def test_it_asks_for_the_path_and_the_query_that_it_is_sent_to(self) -> None:
        """The url is the text's own example."""
        async with two_plants() as (first, second, other, edge):
            (await meets(edge, first)).sends(
                HANDSHAKE + redirect(f"ws://127.0.0.1:{other}/hello/world?msg=goodmorning")
            )
            request = b"GET /hello/world?msg=goodmorning HTTP/1.1\r\n"
            assert await (await meets(edge, second)).reads(len(request)) == request

    @pytest.mark.parametrize("url", ["nonsense", "udp://127.0.0.1:9", "tcp://127.0.0.1:99999", "xmpp://127.0.0.1:5222"])
    async def test_where_it_cannot_go_it_does_not_go(self, url: str) -> None:
        async with plant() as (first, port), running(configured(peers=[link(port)])) as edge:
            (await meets(edge, first)).sends(HANDSHAKE + redirect(url))
            await meets(edge, first)

    async def test_a_long_address_is_not_gone_to_and_stands_in_no_log(self, caplog: pytest.LogCaptureFixture) -> None:
        async with plant() as (first, port), running(configured(peers=[link(port)])) as edge:
            (await meets(edge, first)).sends(HANDSHAKE + redirect(f"ws://127.0.0.1:{port}/".ljust(60_000, "x")))
            await meets(edge, first)
            assert "redirect" in caplog.text
            assert max(map(len, caplog.messages)) < 200

    @pytest.mark.parametrize(("hosts", "goes"), [((), False), (("*.example.org",), False), (("LOCAL*",), True)])
    async def test_to_another_host_it_goes_only_where_it_may(self, hosts: tuple[str, ...], *, goes: bool) -> None:
        async with (
            plant() as (first, port),
            plant() as (second, other),
            running(configured(peers=[link(port, redirect_hosts=hosts)])) as edge,
        ):
            (await meets(edge, first)).sends(HANDSHAKE + redirect(f"tcp://localhost:{other}"))
            await meets(edge, second if goes else first)
            assert second.met.empty()

    async def test_it_never_goes_from_tls_to_a_connection_without(self, authority: Authority) -> None:
        mine = authority.signs("plant")
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        serving.load_cert_chain(mine["cert"], mine["key"])
        async with plant(serving) as (first, port), plant() as (bare, other):
            config = configured(peers=[link(port, "yamp", "tls", tls={"ca": str(authority.ca)})])
            async with running(config) as edge:
                (await meets(edge, first)).sends(HANDSHAKE + redirect(f"tcp://127.0.0.1:{other}"))
                await meets(edge, first)
                assert bare.met.empty()

    async def test_edges_that_send_it_round_in_a_circle_are_left_alone_for_a_while(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("gateway.edge.carriers.links.FIRST_REST_SECONDS", 60.0)
        async with plant() as (there, port), running(configured(peers=[link(port)])) as edge:
            for _ in range(MAX_REDIRECTS + 1):
                (await meets(edge, there)).sends(HANDSHAKE + redirect(f"tcp://127.0.0.1:{port}"))
            await until(lambda: edge.of("connections", "plant", state="closing") == 0)
            assert there.met.empty()
