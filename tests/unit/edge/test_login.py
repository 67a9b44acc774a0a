"""Logins by a token: who a session is from then on, what it may not do before, and when that is over."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from gateway.client import EndedError, RefusedError, StreamClient, UnreachableError
from gateway.client import connect as connect_client
from gateway.core.event import Auth
from gateway.core.reasons import Rejected
from gateway.core.subjects import LOGIN
from gateway.edge.admission import MAX_FAILED_LOGINS
from gateway.protocols.actions import CloseReason
from gateway.protocols.yamp.codec import encode
from gateway.protocols.yamp.frames import Close
from gateway.protocols.yamp.session import CLOSE_REASONS
from gateway.records.raw_log.control_frames import SessionOpened
from tests.unit.cli.running import run
from tests.unit.edge.certificates import Authority
from tests.unit.edge.issuing import Issuer
from tests.unit.edge.running import RunningEdge, configured, dialled, listener, running, until

STREAMS = ["emp", "hsp", "wolpertinger", "yamp"]
HANDSHAKE = bytes.fromhex("00 0001 04 6a736f6e")
PROXIED = bytes.fromhex("0d0a0d0a000d0a515549540a 21 11 000c c0000201 c6336402 d431 13b2")


@pytest.fixture(params=STREAMS)
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    return Issuer(tmp_path)


def apps(issuer: Issuer, protocol: str = "yamp", scheme: str = "tcp", **settings: Any) -> Any:
    return configured(listener("apps", protocol, scheme, **settings), auth=issuer.settings)


@asynccontextmanager
async def client_of(edge: RunningEdge, **settings: Any) -> AsyncIterator[StreamClient]:
    protocol = edge.config.endpoint("apps").protocol
    async with connect_client(protocol, "127.0.0.1", edge.port("apps"), **settings) as client:
        yield client


def nodes(edge: RunningEdge) -> list[str]:
    """Returns sessions as the raw log knows them, each with the last record of it."""
    said = {frame.source.session: frame.source.node for frame in edge.kafka.raw() if frame.source.session}
    return [node if node.startswith("token:") else node.partition(":")[0] for node in said.values()]


def nodes_in_the_log(edge: RunningEdge) -> set[str]:
    return {frame.source.node for frame in edge.kafka.raw() if frame.source.session}


class TestByARequest:
    async def test_a_good_token_makes_the_session_its_node(self, issuer: Issuer, protocol: str) -> None:
        async with running(apps(issuer, protocol)) as edge, client_of(edge) as client:
            await client.log_in(issuer.token())
            await until(lambda: nodes(edge) == ["token:alice"])
            [session] = edge.life.sessions
            assert (session.source.node, session.source.auth) == ("token:alice", Auth.SESSION)
            opened = [frame for frame in edge.kafka.mesh() if isinstance(frame, SessionOpened)]
            assert opened[-1].again

    async def test_no_token_ever_stands_in_the_raw_log(self, issuer: Issuer, protocol: str) -> None:
        async with running(apps(issuer, protocol)) as edge, client_of(edge) as client:
            token = issuer.token()
            await client.log_in(token)
            with pytest.raises(RefusedError):
                await client.log_in(token[:-4])
            signature = token.rpartition(".")[2][:16].encode()
            assert not any(signature in frame.data for frame in edge.kafka.raw())

    @pytest.mark.parametrize("protocol", ["emp", "hsp", "yamp"])  # every call of wolpertinger is a request
    async def test_a_token_that_is_no_request_is_refused_and_leaves_nothing_behind(
        self, issuer: Issuer, protocol: str
    ) -> None:
        async with running(apps(issuer, protocol)) as edge, client_of(edge) as client:
            token = issuer.token()
            client.post(LOGIN, json.dumps(token).encode(), "application/json")
            if protocol != "hsp":  # its client wants an acknowledgement, so this is a request there
                await until(lambda: edge.of("rejected_frames_total", "apps", reason="forbidden") == 1)
            client.post("temp.after", b"1", "application/json")
            await until(lambda: len(edge.kafka.frames()) == 1)
            assert not any(token[-16:].encode() in frame.data for frame in edge.kafka.raw())

    async def test_a_bad_token_is_forbidden_and_the_session_stays_who_it_was(
        self, issuer: Issuer, protocol: str
    ) -> None:
        async with running(apps(issuer, protocol)) as edge, client_of(edge) as client:
            with pytest.raises(RefusedError) as refused:
                await client.log_in(issuer.token(aud="another"))
            if protocol != "wolpertinger":  # its errors are numbers
                assert refused.value.code == "forbidden"
                assert "audience" in str(refused.value)
            await until(lambda: nodes(edge) == ["anon"])
            assert edge.of("rejected_frames_total", "apps", reason="unauthenticated") == 1

    async def test_a_body_that_is_no_token_is_answered_as_a_bad_one(self, issuer: Issuer, protocol: str) -> None:
        bodies = [b"", b"7", b'{"token": "x"}', json.dumps("x" * 100_000).encode()]
        async with running(apps(issuer, protocol)) as edge, client_of(edge) as client:
            for body in bodies:
                answer = await client.request(LOGIN, body, "application/json" if body else "")
                assert not answer.ok
            await client.log_in(issuer.token())
            assert edge.of("rejected_frames_total", "apps", reason="unauthenticated") == len(bodies)

    async def test_a_peer_that_only_tries_loses_its_session(self, issuer: Issuer, protocol: str) -> None:
        async with running(apps(issuer, protocol)) as edge, client_of(edge) as client:
            for _ in range(MAX_FAILED_LOGINS):
                with pytest.raises(RefusedError):
                    await client.log_in("no token")
            await until(lambda: edge.of("connections_closed_total", "apps", reason="login_required") == 1)

    async def test_what_was_sent_before_is_the_former_nodes_and_what_is_sent_after_the_new_ones(
        self, issuer: Issuer, protocol: str
    ) -> None:
        async with running(apps(issuer, protocol)) as edge, client_of(edge) as client:
            client.post("temp.before", b"81", "application/json")
            logged_in = asyncio.ensure_future(client.log_in(issuer.token()))
            await asyncio.sleep(0)
            client.post("temp.after", b"82", "application/json")
            await logged_in
            await until(lambda: len(edge.kafka.frames()) == 2)
            senders = [frame.source.node for frame in edge.kafka.raw() if frame.source.protocol == protocol]
            assert [node.partition(":")[0] for node in senders] == ["anon", "token"]

    async def test_a_session_that_logs_in_again_is_somebody_else(self, issuer: Issuer) -> None:
        async with running(apps(issuer)) as edge, client_of(edge) as client:
            await client.log_in(issuer.token())
            await client.log_in(issuer.token("ES256", sub="bob"))
            await until(lambda: nodes(edge) == ["token:bob"])

    async def test_where_tokens_are_not_configured_none_is_taken(self, issuer: Issuer) -> None:
        async with running(configured(listener("apps", "yamp"))) as edge, client_of(edge) as client:
            with pytest.raises(RefusedError, match=r"auth\.tokens"):
                await client.log_in(issuer.token())

    async def test_a_token_that_others_can_have_read_is_not_taken(self, issuer: Issuer) -> None:
        """A balancer speaks for the peer: how that one speaks to it, nobody here knows."""
        async with dialled(apps(issuer, "hsp", proxy_protocol=True), "apps") as (edge, peer):
            peer.sends(PROXIED)
            await until(lambda: list(edge.life.sessions))
            [session] = edge.life.sessions
            assert not session.is_confidential
            with pytest.raises(Rejected, match="only over TLS"):
                edge.life.sessions.logins.verify(issuer.token(), confidential=session.is_confidential)

    async def test_over_tls_a_token_is_taken_from_wherever_it_comes(self, issuer: Issuer, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        config = apps(issuer, scheme="tls", proxy_protocol=True, tls=authority.signs("edge"))
        async with dialled(config, "apps") as (edge, peer):
            peer.sends(PROXIED)
            await peer.writer.start_tls(authority.trusted_by(), server_hostname="127.0.0.1")
            peer.sends(HANDSHAKE)
            await until(lambda: list(edge.life.sessions))
            [session] = edge.life.sessions
            assert session.is_confidential


class TestTheEnd:
    async def test_a_session_ends_with_its_token(self, issuer: Issuer, protocol: str) -> None:
        async with running(apps(issuer, protocol)) as edge, client_of(edge) as client:
            await client.log_in(issuer.token(exp=int(time.time()) + 2))
            await until(lambda: edge.of("connections_closed_total", "apps", reason="expired") == 1)

    async def test_a_new_token_prolongs_the_session(self, issuer: Issuer) -> None:
        async with running(apps(issuer)) as edge, client_of(edge) as client:
            first_ends = int(time.time()) + 2
            await client.log_in(issuer.token(exp=first_ends))
            await client.log_in(issuer.token())
            await until(lambda: time.time() > first_ends + 0.1)
            await client.log_in(issuer.token())
            assert edge.of("connections", "apps", state="open") == 1

    async def test_keys_that_change_hold_for_the_next_login(self, issuer: Issuer) -> None:
        async with running(apps(issuer)) as edge, client_of(edge) as client:
            issuer.publishes("ES256")
            await asyncio.to_thread(edge.life.endpoints.refresh_files)
            with pytest.raises(RefusedError):
                await client.log_in(issuer.token("EdDSA"))
            await client.log_in(issuer.token("ES256"))


class TestWhereALoginIsRequired:
    async def test_nobody_reaches_the_mesh_before(self, issuer: Issuer, protocol: str) -> None:
        async with running(apps(issuer, protocol, require_login=True)) as edge, client_of(edge) as client:
            client.post("temp.high", b"81", "application/json")
            with pytest.raises((EndedError, UnreachableError)):
                await client.wait_ended()
            assert edge.of("connections_closed_total", "apps", reason="login_required") == 1
            assert edge.of("rejected_frames_total", "apps", reason="unauthenticated") == 1
            assert (nodes(edge), edge.kafka.frames()) == ([], [])

    async def test_who_logs_in_first_is_let_in_as_that_node(self, issuer: Issuer, protocol: str) -> None:
        async with running(apps(issuer, protocol, require_login=True)) as edge, client_of(edge) as client:
            await client.log_in(issuer.token())
            client.post("temp.high", b"81", "application/json")
            await until(edge.kafka.frames)
            assert nodes(edge) == ["token:alice"]
            await until(lambda: nodes_in_the_log(edge) == {"token:alice"})

    async def test_who_never_logs_in_is_cut_off(self, issuer: Issuer) -> None:
        config = apps(issuer, require_login=True, handshake_seconds=0.1)
        async with dialled(config, "apps") as (edge, peer):
            peer.sends(HANDSHAKE)
            await peer.reads_all()
            assert edge.of("connections_closed_total", "apps", reason="login_required") == 1

    async def test_a_certificate_is_a_login_too(self, issuer: Issuer, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        tls = authority.signs("edge") | {"client_ca": str(authority.ca), "node_from": "cn"}
        mine = authority.trusted_by(authority.signs("client"))
        async with running(apps(issuer, scheme="tls", tls=tls, require_login=True)) as edge:
            async with client_of(edge, tls=mine) as client:
                client.post("temp.high", b"81", "application/json")
                await until(edge.kafka.frames)
                assert {one.source.node for one in edge.life.sessions} == {"cn:client"}


class TestInTheHandshakeOfAWebSocket:
    @staticmethod
    @asynccontextmanager
    async def opened(edge: RunningEdge, **settings: Any) -> AsyncIterator[ClientConnection]:
        url = f"ws://127.0.0.1:{edge.port('apps')}"
        async with connect(url, proxy=None, compression=None, close_timeout=0.2, **settings) as socket:
            await socket.send(HANDSHAKE)
            assert await socket.recv() == HANDSHAKE
            yield socket

    async def test_the_header_of_programs_makes_the_session_its_node(self, issuer: Issuer) -> None:
        async with running(apps(issuer, scheme="ws", require_login=True)) as edge:
            async with self.opened(edge, additional_headers={"Authorization": f"Bearer {issuer.token()}"}):
                assert [one.source.node for one in edge.life.sessions] == ["token:alice"]

    async def test_a_subprotocol_is_the_header_of_browsers_and_is_never_repeated(self, issuer: Issuer) -> None:
        offered = [f"bearer.{issuer.token()}", "yamp"]
        async with running(apps(issuer, scheme="ws")) as edge, self.opened(edge, subprotocols=offered) as socket:
            assert socket.subprotocol == "yamp"
            assert [one.source.node for one in edge.life.sessions] == ["token:alice"]

    async def test_a_bad_token_opens_no_session(self, issuer: Issuer) -> None:
        async with running(apps(issuer, scheme="ws")) as edge:
            with pytest.raises(InvalidStatus) as refused:
                await self.opened(edge, additional_headers={"Authorization": "Bearer x.y.z"}).__aenter__()
            assert refused.value.response.status_code == 401

    async def test_where_tokens_are_not_configured_the_header_is_somebody_elses(self) -> None:
        async with running(configured(listener("apps", "yamp", "ws"))) as edge:
            async with self.opened(edge, additional_headers={"Authorization": "Bearer x.y.z"}):
                await until(lambda: nodes(edge) == ["anon"])

    async def test_such_a_session_ends_with_its_token_too(self, issuer: Issuer) -> None:
        token = issuer.token(exp=int(time.time()) + 2)
        async with running(apps(issuer, scheme="ws")) as edge:
            async with self.opened(edge, additional_headers={"Authorization": f"Bearer {token}"}) as socket:
                assert await socket.recv() == encode(Close(CLOSE_REASONS[CloseReason.EXPIRED]))
                with pytest.raises(ConnectionClosed) as ended:
                    await socket.recv()
                assert ended.value.rcvd is not None
                assert ended.value.rcvd.reason == "expired"


class TestAtTheCommandLine:
    @staticmethod
    async def publishes(edge: RunningEdge, *options: str, to: str = "tcp://127.0.0.1") -> Result:
        where = f"{to}:{edge.port('apps')}"
        return await asyncio.to_thread(run, "pub", "temp.high", "81", "--via", "yamp", "--to", where, *options)

    async def test_a_verb_logs_in_by_a_file(self, issuer: Issuer, tmp_path: Path) -> None:
        file = tmp_path / "token"
        file.write_text(f"{issuer.token()}\n")
        async with running(apps(issuer, require_login=True)) as edge:
            assert (await self.publishes(edge, "--token-file", str(file))).exit_code == 0
            await until(lambda: nodes_in_the_log(edge) == {"token:alice"})

    async def test_a_refused_token_is_an_error_that_says_why(self, issuer: Issuer, tmp_path: Path) -> None:
        file = tmp_path / "token"
        file.write_text(issuer.token(exp=1))
        async with running(apps(issuer)) as edge:
            said = await self.publishes(edge, "--token-file", str(file))
            assert (said.exit_code, "forbidden: the token has expired" in said.stderr) == (1, True)
            assert edge.kafka.frames() == []

    def test_a_token_never_leaves_this_machine_in_clear(self, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("secret")
        said = run("pub", "a", "1", "--to", "192.0.2.1:5042", "--token-file", str(tmp_path / "token"))
        assert (said.exit_code, "only over TLS" in said.stderr) == (1, True)
