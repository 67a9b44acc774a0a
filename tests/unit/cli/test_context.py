"""Contexts: kept for their owner only, and used by the verbs that speak to a mesh."""

from __future__ import annotations

import socket
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from gateway.cli.console import Exit
from tests.unit.cli.running import run, said


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to stand in, which is the user's configuration folder too."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_here(*arguments: str, **environment: str) -> Result:
    return run(*arguments, XDG_CONFIG_HOME=str(Path.cwd()), **environment)


def kept() -> Any:
    return yaml.safe_load(Path("meshgate/contexts.yaml").read_text())


def dead_port() -> str:
    """An address where nobody listens; errors name it, so they tell which address was taken."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


class TestKeeping:
    def test_only_its_owner_can_read_them(self) -> None:
        assert run_here("context", "add", "plant", "--to", "a:1").exit_code == Exit.OK
        assert stat.S_IMODE(Path("meshgate/contexts.yaml").stat().st_mode) == 0o600

    def test_options_are_kept_as_they_were_written_and_files_by_their_whole_paths(self) -> None:
        Path("secret").write_text("hunter2")
        Path("ca.pem").write_text("")
        run_here("context", "add", "plant", "--to", "tls://a:1", "--via", "hsp", "--tls-ca", "ca.pem",
                 "--token-file", "secret", "-o", "content_type=${file:secret}")  # fmt: skip
        assert kept()["contexts"]["plant"] == {
            "via": "hsp",
            "to": "tls://a:1",
            "tls_ca": str(Path("ca.pem").absolute()),
            "protocol_options": ["content_type=${file:secret}"],
            "token_file": str(Path("secret").absolute()),
        }

    def test_one_without_an_address_and_a_configuration_is_refused(self) -> None:
        result = run_here("context", "add", "plant", "--via", "hsp")
        assert result.exit_code == Exit.USAGE
        assert "a context needs --to, or a configuration with -c" in result.stderr

    def test_the_first_is_selected_until_another_one_is(self) -> None:
        for name in ("plant", "office"):
            run_here("context", "add", name, "--to", f"{name}:1")
        assert [row["selected"] for row in said(run_here("context", "list", "--json"))] == [True, False]
        run_here("context", "select", "office")
        assert said(run_here("context", "show", "--json"))["to"] == "office:1"
        run_here("context", "remove", "office")
        assert kept() == {"current": None, "contexts": {"plant": {"to": "plant:1"}}}

    def test_one_that_is_not_there_is_told_with_those_that_are(self) -> None:
        assert "there are none: meshgate context add" in run_here("context", "select", "plant").stderr
        run_here("context", "add", "office", "--to", "a:1")
        assert run_here("context", "show", "plant").stderr == "meshgate: there is no context plant: expected office\n"

    def test_secrets_in_options_are_not_shown(self) -> None:
        run_here(
            "context", "add", "plant", "--to", "a:1", "--via", "wolpertinger", "-o", "auth={users: {bob: hunter2}}"
        )
        shown = run_here("context", "show")
        assert "auth=(not shown)" in shown.stdout
        assert "hunter2" not in shown.stdout

    def test_a_file_that_is_broken_is_named(self, home: Path) -> None:
        (home / "meshgate").mkdir()
        (home / "meshgate/contexts.yaml").write_text("[")
        result = run_here("context", "list")
        assert result.exit_code == Exit.FAILURE
        assert result.stderr.startswith(f"meshgate: {home}/meshgate/contexts.yaml: no contexts can be read from it (")
        assert result.stderr.endswith("): mend it, or remove it\n")

    def test_their_names_are_completed(self) -> None:
        run_here("context", "add", "plant", "--to", "a:1")
        for words in ("meshgate context select pl", "meshgate pub x --context pl"):
            asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
            assert run_here(_MESHGATE_COMPLETE="bash_complete", **asked).stdout == "plain,plant\n"


class TestUse:
    """Tells a context by the address that a verb could not reach."""

    @pytest.fixture
    def addresses(self) -> dict[str, str]:
        made = {name: dead_port() for name in ("plant", "office", "said")}
        for name in ("plant", "office"):
            run_here("context", "add", name, "--to", made[name], "--via", "hsp")
        return made

    @pytest.mark.parametrize(
        ("arguments", "environment", "taken"),
        [
            ((), {}, "plant"),
            ((), {"MESHGATE_CONTEXT": "office"}, "office"),
            (("--context", "plant"), {"MESHGATE_CONTEXT": "office"}, "plant"),
            (("--context", "plant", "--to", "SAID"), {}, "said"),
        ],
    )
    def test_the_one_that_is_named_goes_before_the_environments_and_that_before_the_selected(
        self, addresses: dict[str, str], arguments: tuple[str, ...], environment: dict[str, str], taken: str
    ) -> None:
        line = [addresses["said"] if argument == "SAID" else argument for argument in arguments]
        result = run_here("pub", "x", "1", *line, **environment)
        assert result.exit_code == Exit.UNAVAILABLE
        assert addresses[taken] in result.stderr

    def test_what_is_said_goes_before_what_the_context_says(self, addresses: dict[str, str]) -> None:
        result = run_here("req", "x", "--context", "plant", "--via", "emm")
        assert "emm has no requests" in result.stderr

    def test_an_address_that_is_said_gets_no_credentials_of_a_selected_context(self, addresses: dict[str, str]) -> None:
        Path("device.json").write_text("no key")
        run_here("context", "add", "plant", "--to", addresses["plant"], "--via", "emm", "--key", "device.json")
        refused = run_here("pub", "x", "1", "--context", "plant")
        assert "--key: expected node" in refused.stderr
        other = run_here("pub", "x", "1", "--to", f"udp://{addresses['said']}", "--via", "emm")
        assert "--key" not in other.stderr.replace("a key with --key", "")
        assert "not signed" in other.stderr

    def test_a_context_elsewhere_signs_with_no_key_of_a_configuration_that_lies_here(self) -> None:
        run_here("init")
        run_here("context", "add", "far", "--to", f"udp://{dead_port()}", "--via", "emm")
        assert "not signed" in run_here("pub", "x", "1").stderr
        assert "not signed" not in run_here("pub", "x", "1", "-c", "meshgate.yaml").stderr
        Path("keys.yaml").write_text("nodes: {}")
        nameless = run_here("pub", "x", "1", "-c", "meshgate.yaml", "--via", "emm")
        assert "keys.yaml has no keys of the gateway" in nameless.stderr

    @pytest.mark.parametrize("verb", [("pub", "x"), ("sub", "x"), ("req", "x"), ("serve", "x", "--", "true")])
    def test_each_verb_that_speaks_to_a_mesh_takes_one(self, verb: tuple[str, ...]) -> None:
        result = run_here(verb[0], "--context", "nowhere", *verb[1:])
        assert result.exit_code == Exit.FAILURE
        assert "there is no context nowhere" in result.stderr
