"""`meshgate pub`, `sub`, `req` and `serve` as wolpertinger, over everything that carries it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.mesh import TestMesh
from tests.integration.xmpp.prosody import PASSWORD, PLAIN, Prosody
from tests.unit.edge.certificates import Authority

SECONDS = 60.0
Where = Callable[[str], list[str]]
"""What a program by that name says of where the mesh is, and who it is itself."""


def over_tcp(mesh: TestMesh) -> Where:
    return lambda _: ["--to", f"127.0.0.1:{mesh.ports['wolpertinger']}"]


def over_web(mesh: TestMesh) -> Where:
    return lambda _: ["--to", f"ws://127.0.0.1:{mesh.ports['wolpertinger-web']}"]


def over_tls(mesh: TestMesh, authority: Authority) -> Where:
    ours = authority.signs("verbs")
    files = ["--tls-ca", str(authority.ca), "--tls-cert", ours["cert"], "--tls-key", ours["key"]]
    return lambda _: ["--to", f"127.0.0.1:{mesh.ports['wolpertinger-tls']}", *files]


def over_xmpp(prosody: Prosody, authority: Authority, password: Path) -> Where:
    password.write_text(f"{PASSWORD}\n")
    files = ["--password-file", str(password), "--tls-ca", str(authority.ca)]
    return lambda name: ["--to", prosody.user(name), *files]


@pytest.fixture(params=["tcp", "ws", "tls", "xmpp"])
def where(request: pytest.FixtureRequest, mesh: TestMesh, authority: Authority, tmp_path: Path) -> Where:
    match request.param:
        case "tcp":
            return over_tcp(mesh)
        case "ws":
            return over_web(mesh)
        case "tls":
            return over_tls(mesh, authority)
        case _:
            return over_xmpp(request.getfixturevalue("prosody"), authority, tmp_path / "password")


@contextmanager
def verb(mesh: TestMesh, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """While the block runs, and until it has ended by itself."""
    with mesh.begin(*arguments) as running:
        try:
            yield running
            assert running.wait(SECONDS) == 0
        finally:
            running.kill()


def begun(running: subprocess.Popen[str]) -> str:
    """Returns what it says once the mesh has acknowledged what it wants."""
    assert running.stderr is not None
    return running.stderr.readline()


def test_each_verb_does_its_work(mesh: TestMesh, where: Where, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["where"]
    via = ["--via", "wolpertinger"]
    with (
        verb(mesh, "sub", f"verbs.{name}.event", "-n", "1", "--output", "json", *via, *where("sub")) as sub,
        verb(mesh, "serve", f"verbs.{name}.upper", "-n", "1", *via, *where("serve"), "--", "tr", "a-z", "A-Z") as serve,
    ):
        assert begun(sub).startswith(f"subscribed to verbs.{name}.event at {name}://")
        assert begun(serve).startswith(f"serving verbs.{name}.upper at {name}://")
        published = mesh.command("pub", f"verbs.{name}.event", '["hello"]', *via, *where("pub"))
        assert (published.returncode, published.stderr) == (0, "")
        answered = mesh.command("req", f"verbs.{name}.upper", "quiet", *via, *where("req"))
        assert (answered.returncode, json.loads(answered.stdout)) == (0, ["QUIET"]), answered.stderr
        assert sub.stdout is not None
        event = json.loads(sub.stdout.readline())
    assert (event["subject"], json.loads(event["body"])) == (f"verbs.{name}.event", ["hello"])


class TestSecrets:
    def test_the_password_may_stand_in_the_environment(
        self, mesh: TestMesh, prosody: Prosody, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MESHGATE_PASSWORD", PASSWORD)
        to = ["--via", "wolpertinger", "--to", prosody.user("env", PLAIN)]
        asked = mesh.command("req", "Mesh.Ping", '["there"]', *to)
        assert (asked.returncode, asked.stderr) == (0, "")

    def test_a_wrong_password_is_told_in_one_line_without_it(
        self, mesh: TestMesh, prosody: Prosody, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MESHGATE_PASSWORD", "guessed")
        to = prosody.user("env", PLAIN)
        asked = mesh.command("req", "Mesh.Ping", "--via", "wolpertinger", "--to", to)
        told = f"meshgate: {to}: it does not let us in: a wrong password, or it offers no TLS\n"
        assert (asked.returncode, asked.stderr) == (69, told)
