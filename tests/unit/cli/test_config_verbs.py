"""init, validate, config and schema."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
import yaml

from gateway.cli.console import Exit
from gateway.config import load
from tests.unit.cli.running import run, said

SECRET = "hunter2"


@pytest.fixture
def mesh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to stand in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


class TestInit:
    def test_it_writes_a_configuration_and_keys_that_are_good(self, mesh: Path) -> None:
        result = run("init")
        assert result.exit_code == Exit.OK
        assert "wrote meshgate.yaml" in result.stdout
        assert run("validate").exit_code == Exit.OK
        assert stat.S_ISREG((mesh / "keys.yaml").stat().st_mode)

    def test_keys_and_configuration_name_one_node(self, mesh: Path) -> None:
        result = said(run("init", "--output", "json"))
        keys = yaml.safe_load((mesh / "keys.yaml").read_text())
        assert result["node"] == keys["gateway"]["node"] == str(load(mesh / "meshgate.yaml").identity.node)

    def test_keys_that_are_there_are_kept_and_their_node_is_taken(self, mesh: Path) -> None:
        run("init")
        before = (mesh / "keys.yaml").read_text()
        node = load(mesh / "meshgate.yaml").identity.node
        assert run("init", "--force", "--mesh", "prod").exit_code == Exit.OK
        assert (mesh / "keys.yaml").read_text() == before
        assert load(mesh / "meshgate.yaml").identity.node == node
        assert load(mesh / "meshgate.yaml").mesh == "prod"

    def test_a_configuration_that_is_there_is_kept(self, mesh: Path) -> None:
        (mesh / "meshgate.yaml").write_text("mesh: mine")
        made = run("init")
        assert (made.exit_code, run("check", "--only", "trust").exit_code) == (Exit.OK, Exit.OK)
        assert made.stdout.startswith("meshgate.yaml is kept as it was; the gateway's keys are in ")
        result = run("init")
        assert result.exit_code == Exit.FAILURE
        assert result.stderr == "meshgate: meshgate.yaml is there already: --force overwrites it\n"
        assert (mesh / "meshgate.yaml").read_text() == "mesh: mine"

    @pytest.mark.parametrize(
        ("arguments", "path"), [(("--dir", "a/b"), "a/b/meshgate.yaml"), (("-c", "a/other.yaml"), "a/other.yaml")]
    )
    def test_it_writes_where_it_is_told(self, mesh: Path, arguments: tuple[str, str], path: str) -> None:
        assert run("init", *arguments).exit_code == Exit.OK
        assert (mesh / path).is_file()
        assert (mesh / path).with_name("keys.yaml").is_file()

    def test_a_mesh_name_that_cannot_be_is_refused_before_anything_is_written(self, mesh: Path) -> None:
        result = run("init", "--mesh", "a.b")
        assert result.exit_code == Exit.USAGE
        assert "expected letters, digits, - and _" in result.stderr
        assert list(mesh.iterdir()) == []


class TestValidate:
    @pytest.mark.usefixtures("mesh")
    def test_a_good_one_is_summed_up(self) -> None:
        run("init")
        result = run("validate")
        assert result.exit_code == Exit.OK
        assert result.stdout.startswith("meshgate.yaml: valid: mesh demo, ")
        assert said(run("validate", "--output", "json")) == {"valid": True, "faults": []}

    def test_a_number_of_lanes_is_valid_and_has_no_effect(self, mesh: Path) -> None:
        (mesh / "meshgate.yaml").write_text("mesh: demo\nkafka: {partitions: 4}\nrouter: {lanes: 4}")
        assert run("validate", "--skip-files").stderr == ""
        (mesh / "meshgate.yaml").write_text("mesh: demo\nkafka: {partitions: 4}\nrouter: {lanes: 5}")
        result = run("validate", "--skip-files", "--output", "json")
        assert said(result) == {"valid": True, "faults": []}
        told = "router.lanes: it has no effect: each of the 4 raw partitions has a lane of its own"
        (line,) = result.stderr.splitlines()
        assert line.endswith(f"meshgate.yaml: {told}")

    def test_a_limit_of_the_edge_as_a_whole_that_stands_in_a_listener_is_valid_and_told(self, mesh: Path) -> None:
        listener = "{name: apps, protocol: yamp, listen: 'tcp://127.0.0.1:5042', idle_seconds: 9, in_flight_bytes: 99}"
        link = "{name: plant, protocol: emp, connect: 'tcp://127.0.0.1:5040', in_flight_bytes: 99}"
        (mesh / "meshgate.yaml").write_text(f"mesh: demo\nlisteners: [{listener}]\npeers: [{link}]")
        result = run("validate", "--skip-files")
        assert result.exit_code == Exit.OK
        told = [line.split(": ", 1)[1] for line in result.stderr.splitlines()]
        why = "all of an edge wait for Kafka together: only limits.in_flight_bytes holds"
        assert told == [f"listeners[0].in_flight_bytes: {why}", f"peers[0].in_flight_bytes: {why}"]

    @pytest.mark.parametrize("limit", ["in_flight_bytes", "held_bytes", "open_requests", "subscriptions_per_mesh"])
    def test_every_limit_that_a_listener_cannot_have_alone_is_told(self, mesh: Path, limit: str) -> None:
        listener = f"{{name: apps, protocol: yamp, listen: 'tcp://127.0.0.1:5042', {limit}: 99}}"
        (mesh / "meshgate.yaml").write_text(f"mesh: demo\nlisteners: [{listener}]")
        result = run("validate", "--skip-files")
        assert result.exit_code == Exit.OK
        assert f"listeners[0].{limit}: " in result.stderr
        assert f"only limits.{limit} holds" in result.stderr

    def test_every_fault_is_a_line_and_the_code_says_configuration(self, mesh: Path) -> None:
        (mesh / "meshgate.yaml").write_text("mesh: demo\nbogus: 1\nkafka: {partitions: 0}\n")
        result = run("validate")
        assert result.exit_code == Exit.CONFIG
        assert [line.split(": ")[:3] for line in result.stderr.splitlines()] == [
            ["meshgate", "meshgate.yaml:2", "bogus"],
            ["meshgate", "meshgate.yaml:3", "kafka.partitions"],
        ]

    def test_programs_get_the_faults_as_json(self, mesh: Path) -> None:
        (mesh / "meshgate.yaml").write_text("mesh: demo\nkafka: {partitions: 0}\n")
        result = run("validate", "--output", "json")
        assert result.exit_code == Exit.CONFIG
        assert said(result) == {
            "valid": False,
            "faults": [
                {
                    "file": "meshgate.yaml",
                    "path": "kafka.partitions",
                    "expected": "expected greater than or equal to 1",
                    "line": 2,
                }
            ],
        }

    def test_files_that_are_not_there_are_faults_unless_they_are_not_asked_for(self, mesh: Path) -> None:
        kafka = "kafka: {bootstrap: 'a:1', security: {protocol: SSL, ca: kafka.pem}}"
        (mesh / "meshgate.yaml").write_text(f"mesh: demo\n{kafka}")
        result = run("validate")
        assert result.exit_code == Exit.CONFIG
        assert "kafka.security.ca: cannot read" in result.stderr
        assert run("validate", "--skip-files").exit_code == Exit.OK

    def test_a_trust_store_that_up_will_make_is_told_and_the_configuration_is_valid(self, mesh: Path) -> None:
        (mesh / "meshgate.yaml").write_text("mesh: demo")
        result = run("validate", "--output", "json")
        assert (result.exit_code, said(result)) == (Exit.OK, {"valid": True, "faults": []})
        assert result.stderr.endswith(f"meshgate.yaml: trust: there is no {mesh / 'keys.yaml'}: up and init make it\n")
        assert run("validate", "--skip-files").stderr == ""

    def test_a_trust_store_that_is_there_and_cannot_be_read_is_a_fault(self, mesh: Path) -> None:
        (mesh / "meshgate.yaml").write_text("mesh: demo")
        (mesh / "keys.yaml").mkdir()
        result = run("validate")
        assert result.exit_code == Exit.CONFIG
        assert "trust: cannot read" in result.stderr

    def test_tls_files_that_an_edge_would_not_start_with_are_faults(self, mesh: Path) -> None:
        run("init")
        tls = "tls: {cert: meshgate.yaml, key: keys.yaml}"
        listener = f"{{name: a, protocol: emp, listen: 'tls://127.0.0.1:5999', {tls}}}"
        (mesh / "meshgate.yaml").write_text(f"mesh: demo\nlisteners: [{listener}]")
        result = run("validate")
        assert result.exit_code == Exit.CONFIG
        assert "listeners[0].tls: the files cannot be used: " in result.stderr

    def test_a_broken_trust_store_is_told_with_its_places(self, mesh: Path) -> None:
        run("init")
        with (mesh / "keys.yaml").open("a") as keys:
            keys.write("\nbogus: 1\n")
        result = run("validate")
        assert result.exit_code == Exit.CONFIG
        assert "keys.yaml:" in result.stderr
        assert "bogus: unknown key" in result.stderr

    def test_another_nodes_trust_store_is_told(self, mesh: Path) -> None:
        run("init")
        text = (mesh / "meshgate.yaml").read_text()
        node = str(load(mesh / "meshgate.yaml").identity.node)
        (mesh / "meshgate.yaml").write_text(text.replace(node, "9a1f4c3e-1111-4222-8333-000000000001"))
        result = run("validate")
        assert result.exit_code == Exit.CONFIG
        assert result.stderr.endswith(f"identity.node: the trust store's gateway is node {node}\n")

    def test_a_trust_store_without_the_gateways_keys_is_told(self, mesh: Path) -> None:
        (mesh / "meshgate.yaml").write_text("mesh: demo")
        (mesh / "keys.yaml").write_text("nodes: {}")
        result = run("validate")
        assert result.exit_code == Exit.OK
        assert "identity.key: the trust store has no entry gateway: up and init make it" in result.stderr

    @pytest.mark.usefixtures("mesh")
    def test_where_there_is_none_it_is_said_how_to_get_one(self) -> None:
        result = run("validate")
        assert result.exit_code == Exit.CONFIG
        assert "write one: meshgate init (meshgate up does too)" in result.stderr

    def test_the_one_that_up_writes_is_found(self, mesh: Path) -> None:
        run("init", "--dir", "mesh")
        assert run("validate").exit_code == Exit.OK
        assert (mesh / "mesh/meshgate.yaml").is_file()


class TestWhichOne:
    """Runs the verbs that take -c, by the mesh that each configuration names."""

    @pytest.fixture(autouse=True)
    def configurations(self, mesh: Path) -> None:
        for name in ("meshgate", "named", "other"):
            (mesh / f"{name}.yaml").write_text(f"mesh: {name}")

    @pytest.mark.parametrize(
        ("arguments", "environment", "taken"),
        [
            ((), None, "meshgate"),
            ((), "", "meshgate"),
            ((), "named.yaml", "named"),
            (("-c", "other.yaml"), "named.yaml", "other"),
        ],
    )
    def test_the_environment_goes_before_what_lies_here_and_after_what_is_said(
        self, arguments: tuple[str, ...], environment: str | None, taken: str
    ) -> None:
        for line in (("config", "print", *arguments), ("config", *arguments, "print")):
            shown = run(*line, MESHGATE_CONFIG=environment)
            assert yaml.safe_load(shown.stdout)["mesh"] == taken

    def test_one_that_the_environment_names_has_to_be_there(self) -> None:
        result = run("validate", MESHGATE_CONFIG="gone.yaml")
        assert result.exit_code == Exit.CONFIG
        assert "gone.yaml: cannot read it" in result.stderr

    def test_a_peer_s_listener_is_that_one_s_too(self, mesh: Path) -> None:
        (mesh / "named.yaml").write_text(
            "mesh: named\nlisteners: [{name: a, protocol: yamp, listen: 'tcp://127.0.0.1:1'}]"
        )
        assert "tcp://127.0.0.1:1: connection refused" in run("pub", "x", MESHGATE_CONFIG="named.yaml").stderr


class TestConfigPrint:
    TEXT = f"mesh: demo\nkafka: {{bootstrap: 'a:1', security: {{protocol: SASL_SSL, username: u, password: {SECRET}}}}}"

    @pytest.mark.parametrize("arguments", [(), ("--output", "json")])
    def test_what_holds_is_shown_with_defaults_and_secrets(self, mesh: Path, arguments: tuple[str, ...]) -> None:
        (mesh / "meshgate.yaml").write_text(self.TEXT)
        shown = yaml.safe_load(run("config", "print", *arguments).stdout)
        assert shown["limits"]["connections"] == 10_000
        assert shown["kafka"]["security"]["password"] == SECRET

    @pytest.mark.parametrize("arguments", [(), ("--output", "json")])
    def test_redacted_no_secret_is_shown(self, mesh: Path, arguments: tuple[str, ...]) -> None:
        (mesh / "meshgate.yaml").write_text(self.TEXT)
        result = run("config", "print", "--redacted", *arguments)
        assert result.exit_code == Exit.OK
        assert SECRET not in result.stdout
        assert yaml.safe_load(result.stdout)["kafka"]["security"]["username"] == "u"

    def test_state_is_shown_where_it_will_be(self, mesh: Path) -> None:
        (mesh / "meshgate.yaml").write_text(self.TEXT)
        shown = yaml.safe_load(run("config", "print", "--dir", "elsewhere").stdout)
        assert shown["router"]["checkpoint"] == str(mesh / "elsewhere/state/router")

    def test_a_broken_one_is_not_shown(self, mesh: Path) -> None:
        (mesh / "meshgate.yaml").write_text("mesh: [")
        result = run("config", "print")
        assert (result.exit_code, result.stdout) == (Exit.CONFIG, "")


def test_the_schema_is_printed_for_editors() -> None:
    result = run("schema")
    assert result.exit_code == Exit.OK
    assert json.loads(result.stdout)["title"] == "meshgate.yaml"
