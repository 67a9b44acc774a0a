"""Proofs that hold no more: who stands by them loses the session, and nobody else does."""

from __future__ import annotations

import asyncio
import datetime
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.client import UnreachableError
from gateway.client import connect as connect_client
from gateway.config import Config
from tests.unit.config.reading import expect_fault
from tests.unit.edge.certificates import SOON, Authority
from tests.unit.edge.issuing import Issuer
from tests.unit.edge.running import RunningEdge, configured, listener, running, until


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def another_authority(folder: Path) -> Authority:
    (folder / "other").mkdir()
    return Authority(folder / "other")


def secured(authority: Authority, **tls: str) -> Config:
    files = authority.signs("edge") | {"client_ca": str(authority.ca), "node_from": "cn"} | tls
    return configured(listener("apps", "yamp", "tls", tls=files))


@asynccontextmanager
async def connected(edge: RunningEdge, authority: Authority, *names: str) -> AsyncIterator[None]:
    """Clients with certificates of these names, which the authority has signed before."""
    async with AsyncExitStack() as stack:
        for name in names:
            files = {"cert": str(authority.folder / f"{name}.pem"), "key": str(authority.folder / f"{name}.key")}
            mine = authority.trusted_by(files)
            await stack.enter_async_context(connect_client("yamp", "127.0.0.1", edge.port("apps"), tls=mine))
        yield


def nodes(edge: RunningEdge) -> set[str]:
    return {one.source.node for one in edge.life.sessions}


def closed(edge: RunningEdge, reason: str) -> float:
    return edge.of("connections_closed_total", "apps", reason=reason)


async def looks_at_files(edge: RunningEdge) -> None:
    """Does what the edge does once a second."""
    if await asyncio.to_thread(edge.life.endpoints.refresh_files):
        edge.life.endpoints.judge_again()


class TestCertificates:
    async def test_a_session_ends_with_its_certificate(self, authority: Authority) -> None:
        ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=2)
        authority.signs("brief", until=ends)
        authority.signs("long")
        async with running(secured(authority)) as edge, connected(edge, authority, "brief", "long"):
            assert nodes(edge) == {"cn:brief", "cn:long"}
            await until(lambda: closed(edge, "expired") == 1)
            assert nodes(edge) == {"cn:long"}

    async def test_a_revoked_certificate_ends_the_session_that_stands_by_it(self, authority: Authority) -> None:
        for name in ("kept", "stolen"):
            authority.signs(name)
        config = secured(authority, crl=str(authority.revokes()))
        async with running(config) as edge, connected(edge, authority, "kept", "stolen"):
            await looks_at_files(edge)
            assert nodes(edge) == {"cn:kept", "cn:stolen"}
            authority.revokes("stolen")
            await looks_at_files(edge)
            await until(lambda: closed(edge, "revoked") == 1)
            assert nodes(edge) == {"cn:kept"}

    async def test_a_revoked_certificate_opens_no_session(self, authority: Authority) -> None:
        authority.signs("stolen")
        async with running(secured(authority, crl=str(authority.revokes("stolen")))) as edge:
            with pytest.raises(UnreachableError):
                await connected(edge, authority, "stolen").__aenter__()
            assert nodes(edge) == set()

    async def test_a_metric_tells_when_the_first_list_runs_out(self, authority: Authority) -> None:
        ends = datetime.datetime(2090, 1, 1, tzinfo=datetime.UTC)
        lists = authority.revokes(until=ends)
        lists.write_bytes(lists.read_bytes() + authority.revokes().read_bytes())
        async with running(secured(authority, crl=str(lists))) as edge:
            told = {"listener": "apps", "protocol": "yamp"}
            assert edge.sample("revocation_list_expiry_timestamp_seconds", **told) == ends.timestamp()
            authority.revokes()
            await looks_at_files(edge)
            assert edge.sample("revocation_list_expiry_timestamp_seconds", **told) == SOON.timestamp()

    async def test_a_list_that_a_reload_brings_holds_for_sessions_that_stand(self, authority: Authority) -> None:
        authority.signs("stolen")
        config = secured(authority)
        async with running(config) as edge, connected(edge, authority, "stolen"):
            tls = {"tls": config.listeners[0].tls.model_dump() | {"crl": authority.revokes("stolen")}}  # type: ignore[union-attr]
            edge.life.reconfigure(configured(listener("apps", "yamp", "tls", **tls)))
            await until(lambda: closed(edge, "revoked") == 1)

    async def test_an_authority_that_is_believed_no_more_takes_its_sessions_along(
        self, authority: Authority, tmp_path: Path
    ) -> None:
        authority.signs("client")
        other = another_authority(tmp_path)
        both = authority.ca.read_bytes() + other.ca.read_bytes()
        async with running(secured(authority)) as edge, connected(edge, authority, "client"):
            authority.ca.write_bytes(both)
            await looks_at_files(edge)
            assert nodes(edge) == {"cn:client"}
            authority.ca.write_bytes(other.ca.read_bytes())
            await looks_at_files(edge)
            await until(lambda: closed(edge, "revoked") == 1)

    async def test_who_logs_in_by_a_token_still_stands_by_the_certificate(
        self, authority: Authority, tmp_path: Path
    ) -> None:
        ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=2)
        issuer, files = Issuer(tmp_path), authority.signs("brief", until=ends)
        tls = authority.signs("edge") | {"client_ca": str(authority.ca), "crl": str(authority.revokes())}
        config = configured(listener("apps", "yamp", "tls", tls=tls), auth=issuer.settings)
        stolen = authority.trusted_by(authority.signs("stolen"))
        async with running(config) as edge, AsyncExitStack() as stack:
            for mine in (authority.trusted_by(files), stolen):
                dialled = connect_client("yamp", "127.0.0.1", edge.port("apps"), tls=mine)
                client = await stack.enter_async_context(dialled)
                await client.log_in(issuer.token())
            await until(lambda: closed(edge, "expired") == 1)
            authority.revokes("stolen")
            await looks_at_files(edge)
            await until(lambda: closed(edge, "revoked") == 1)

    def test_a_list_without_an_authority_is_a_fault(self) -> None:
        text = "mesh: demo\nlisteners: [{name: a, protocol: yamp, listen: 'tls://h:1', tls: {cert: a, key: b, crl: c}}]"
        expect_fault(text, "listeners[0].tls", "crl needs client_ca")


class TestTokens:
    async def test_a_key_that_is_withdrawn_takes_its_sessions_along(self, tmp_path: Path) -> None:
        issuer = Issuer(tmp_path)
        config = configured(listener("apps", "yamp"), auth=issuer.settings)
        async with running(config) as edge, AsyncExitStack() as stack:
            for algorithm in ("EdDSA", "ES256"):
                client = await stack.enter_async_context(connect_client("yamp", "127.0.0.1", edge.port("apps")))
                await client.log_in(issuer.token(algorithm, sub=algorithm))
            await stack.enter_async_context(connect_client("yamp", "127.0.0.1", edge.port("apps")))
            issuer.publishes("ES256")
            await looks_at_files(edge)
            await until(lambda: closed(edge, "revoked") == 1)
            assert "token:ES256" in nodes(edge)
            assert len(nodes(edge)) == 2

    async def test_another_audience_in_the_configuration_ends_sessions_of_the_former(self, tmp_path: Path) -> None:
        issuer = Issuer(tmp_path)
        apps = listener("apps", "yamp")
        async with running(configured(apps, auth=issuer.settings)) as edge:
            async with connect_client("yamp", "127.0.0.1", edge.port("apps")) as client:
                await client.log_in(issuer.token())
                changed = {"tokens": issuer.settings["tokens"] | {"audience": "another"}}
                edge.life.reconfigure(configured(apps, auth=changed))
                await until(lambda: closed(edge, "revoked") == 1)

    async def test_a_configuration_without_tokens_ends_all_their_sessions(self, tmp_path: Path) -> None:
        issuer = Issuer(tmp_path)
        apps = listener("apps", "yamp")
        async with running(configured(apps, auth=issuer.settings)) as edge:
            async with connect_client("yamp", "127.0.0.1", edge.port("apps")) as client:
                await client.log_in(issuer.token(exp=int(time.time()) + 600))
                edge.life.reconfigure(configured(apps))
                await until(lambda: closed(edge, "revoked") == 1)


class TestReloads:
    async def test_a_listener_that_begins_to_ask_for_a_login_ends_sessions_without_one(self) -> None:
        async with running(configured(listener("apps", "yamp"))) as edge:
            async with connect_client("yamp", "127.0.0.1", edge.port("apps")):
                edge.life.reconfigure(configured(listener("apps", "yamp", require_login=True)))
                await until(lambda: closed(edge, "login_required") == 1)

    @pytest.mark.parametrize(
        ("changed", "stands"),
        [
            ({"cluster_key": "00ff", "users": {"alice": "pass", "bob": "new"}}, True),
            ({"cluster_key": "00ff", "users": {"alice": "another"}}, False),
            ({"cluster_key": "00ff", "users": {}}, False),
            ({"cluster_key": "ff00", "users": {"alice": "pass"}}, False),
            ({}, False),
        ],
        ids=str,
    )
    async def test_a_password_that_holds_no_more_ends_the_sessions_of_its_user(
        self, changed: dict[str, Any], stands: bool
    ) -> None:
        auth = {"cluster_key": "00ff", "users": {"alice": "pass"}}
        async with running(configured(listener("apps", "wolpertinger", auth=auth))) as edge:
            login = {"login": ["cluster", "user"], "login_user": "alice", "auth": auth}
            async with connect_client("wolpertinger", "127.0.0.1", edge.port("apps"), options=login):
                await until(lambda: nodes(edge) == {"user:alice"})
                edge.life.reconfigure(configured(listener("apps", "wolpertinger", auth=changed)))
                if stands:
                    assert nodes(edge) == {"user:alice"}
                else:
                    await until(lambda: closed(edge, "revoked") == 1)
