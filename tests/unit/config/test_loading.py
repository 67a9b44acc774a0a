"""Tests the way from a file to a Config, or to everything that is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config import ConfigError, find_config, load, parse
from gateway.config.loading import PART
from tests.unit.config.reading import FILE, NODE, WHOLE, expect_fault, faults, read


class TestWhatIsRead:
    def test_every_section_of_a_whole_file_is_read(self) -> None:
        config = read(WHOLE)
        assert config.topic("raw") == "demo.raw"
        assert str(config.identity.node) == NODE
        assert [listener.name for listener in config.listeners] == ["devices", "apps", "web", "plc"]
        assert [str(peer.connect) for peer in config.peers] == ["tls://10.1.0.5:5040"]
        assert config.router.mode == "auto"

    def test_only_the_name_of_the_mesh_must_be_given(self) -> None:
        config = read("mesh: demo")
        assert config.kafka.is_embedded
        assert config.replay_window_seconds == 300

    def test_relative_paths_start_from_the_file(self) -> None:
        config = read(WHOLE)
        assert config.trust == FILE.parent / "keys.yaml"
        assert config.listeners[3].tls is not None
        assert config.listeners[3].tls.cert == FILE.parent / "cert.pem"

    def test_an_absolute_path_stays(self) -> None:
        assert read("mesh: demo\ntrust: /run/keys.yaml").trust == Path("/run/keys.yaml")

    def test_state_goes_where_it_is_sent_and_files_stay(self, tmp_path: Path) -> None:
        (tmp_path / "meshgate.yaml").write_text(WHOLE)
        config = load(tmp_path / "meshgate.yaml", {}, state_dir=tmp_path / "elsewhere")
        assert config.router.checkpoint == tmp_path / "elsewhere/state/router"
        assert config.state_dir == tmp_path / "elsewhere"
        assert config.trust == tmp_path / "keys.yaml"

    @pytest.mark.parametrize(("identity", "ordinal"), [("edge-0", 0), ("edge-3", 3), ("demo-edge-02", 2), ("1", 1)])
    def test_the_number_at_the_end_of_an_edges_id_is_its_ordinal(self, identity: str, ordinal: int) -> None:
        assert read(f"mesh: demo\nedge: {{id: '{identity}'}}").edge_ordinal == ordinal

    @pytest.mark.parametrize("identity", ["edge", "edge0", "edge.0", "edge-0-", "-0", ""])
    def test_an_edges_id_without_a_number_of_its_own_is_refused(self, identity: str) -> None:
        expect_fault(f"mesh: demo\nedge: {{id: '{identity}'}}", "edge.id", "with a number at the end", line=2)

    @pytest.mark.parametrize("mesh", ["a.b", "_a", "", "-a", "a" * 64, "ä"])
    def test_a_mesh_name_that_cannot_begin_a_topics_name_is_refused(self, mesh: str) -> None:
        expect_fault(f"mesh: '{mesh}'", "mesh", "expected letters, digits, - and _, at most 63", line=1)

    @pytest.mark.parametrize("mesh", ["a" * 63, "my_mesh", "my-mesh_2"])
    def test_any_other_is_taken(self, mesh: str) -> None:
        assert read(f"mesh: {mesh}").topic("raw") == f"{mesh}.raw"


class TestPermissions:
    def test_what_rules_say_is_judged(self) -> None:
        judge = read(WHOLE).permissions_policy()
        assert judge.may_publish(NODE, "apps", "order.new")
        assert not judge.may_publish(NODE, "apps", "admin.off")
        assert not judge.may_serve(NODE, "apps", "order.new")
        assert not judge.may_receive("cn:plant-7", "apps", "admin.off")

    @pytest.mark.parametrize("written", [NODE.upper(), NODE.replace("-", ""), f"urn:uuid:{NODE}"])
    def test_a_node_id_is_the_same_however_it_is_written(self, written: str) -> None:
        judge = read(
            f"mesh: demo\npermissions: [{{nodes: ['{written}'], publish: {{allow: []}}}}]"
        ).permissions_policy()
        assert not judge.may_publish(NODE, "apps", "a")
        assert judge.may_subscribe(NODE, "apps", "a")

    def test_a_rule_that_names_nobody_is_for_all(self) -> None:
        assert (
            not read("mesh: demo\npermissions: [{publish: {deny: ['>']}}]")
            .permissions_policy()
            .may_publish("n", "l", "a")
        )


class TestReferences:
    def test_a_variable_of_the_environment_stands_for_its_value(self) -> None:
        assert read("mesh: ${NAME}", {"NAME": "demo"}).mesh == "demo"

    def test_a_variable_may_be_a_part_of_a_value(self) -> None:
        config = read("mesh: demo\nkafka: {listen: '${HOST}:${PORT}'}", {"HOST": "127.0.0.1", "PORT": "19092"})
        assert str(config.kafka.listen) == "127.0.0.1:19092"

    def test_a_number_may_come_from_the_environment(self) -> None:
        assert read("mesh: demo\nkafka: {partitions: '${N}'}", {"N": "8"}).kafka.partitions == 8

    def test_a_default_stands_in_for_a_variable_that_is_not_set(self) -> None:
        assert read("mesh: ${NAME:-plant-7}").mesh == "plant-7"

    def test_a_set_variable_wins_over_the_default_even_when_it_is_empty(self) -> None:
        expect = faults("mesh: ${NAME:-plant}", {"NAME": ""})
        assert [fault.path for fault in expect] == ["mesh"]

    def test_a_variable_that_is_not_set_is_named(self) -> None:
        expect_fault("mesh: demo\nkafka: {partitions: '${N}'}", "kafka.partitions", "the environment has no N", line=2)

    def test_a_doubled_dollar_is_a_dollar(self) -> None:
        config = read("mesh: demo\nrules: [{name: a, sql: 'SELECT $${x}'}]")
        assert config.rules[0].sql == "SELECT ${x}"

    def test_a_dollar_without_a_brace_is_left_alone(self) -> None:
        assert read('mesh: demo\nrules: [{name: a, sql: "$.celsius $$ $x"}]').rules[0].sql == "$.celsius $$ $x"

    @pytest.mark.parametrize("text", ["${}", "${1A}", "${A B}"])
    def test_a_reference_of_no_known_form_is_refused(self, text: str) -> None:
        expect_fault(f"mesh: '{text}'", "mesh", "expected ${NAME}", line=1)

    def test_a_file_stands_for_its_contents_without_the_last_line_end(self, tmp_path: Path) -> None:
        (tmp_path / "name").write_text("demo\n")
        config = read("mesh: ${file:name}", path=tmp_path / "meshgate.yaml")
        assert config.mesh == "demo"
        assert config.files == (tmp_path / "meshgate.yaml", tmp_path / "name")

    def test_a_file_that_is_missing_is_named(self, tmp_path: Path) -> None:
        (fault,) = faults("mesh: ${file:name}", path=tmp_path / "meshgate.yaml")
        assert (fault.path, fault.expected) == ("mesh", "cannot read name: No such file or directory")

    def test_a_file_that_is_no_text_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "name").write_bytes(b"\xff\xfe")
        (fault,) = faults("mesh: ${file:name}", path=tmp_path / "meshgate.yaml")
        assert fault.expected == "cannot read name: no UTF-8"


WITH_SECRETS = """
mesh: demo
listeners:
  - name: lab
    protocol: wolpertinger
    listen: tcp://127.0.0.1:5044
    auth: {cluster_key: "${file:key}", users: {operator: "${PASSWORD}"}}
auth: {tokens: {secret: "${file:shared}", audience: mesh}}
"""


class TestAPartWithoutSecrets:
    def test_it_reads_what_edges_read_without_their_secrets(self, tmp_path: Path) -> None:
        path = tmp_path / "meshgate.yaml"
        assert len(faults(WITH_SECRETS, path=path)) == 3
        config = parse(WITH_SECRETS, path, {PART: "router"})
        assert config.auth.tokens is not None
        assert config.auth.tokens.secret is not None
        assert len(config.auth.tokens.secret.get_secret_value()) == 64
        assert config.for_router() == parse(WITH_SECRETS, path, {PART: "router", "PASSWORD": "x"}).for_router()

    def test_what_it_does_need_must_be_there(self, tmp_path: Path) -> None:
        text = "mesh: demo\nkafka: {bootstrap: '${KAFKA}'}\nrules: [{name: a, sql: '${file:sql}'}]"
        with pytest.raises(ConfigError) as broken:
            parse(text, tmp_path / "meshgate.yaml", {PART: "router"})
        assert [fault.path for fault in broken.value.faults] == ["kafka.bootstrap", "rules[0].sql"]


class TestFaults:
    def test_every_fault_is_told_at_once_with_its_line(self) -> None:
        text = (
            "mesh: demo\n"
            "bogus: 1\n"
            "kafka:\n"
            "  partitions: none\n"
            "listeners:\n"
            "  - {name: a, protocol: emm, listen: udp://127.0.0.1:5050}\n"
            "  - name: a\n"
            "    protocol: emm\n"
            "    listen: tcp://127.0.0.1:5051\n"
            "    freshness: sometimes\n"
            "trust: ${file:/nowhere/at/all}\n"
        )
        assert [(fault.path, fault.line) for fault in faults(text)] == [
            ("bogus", 2),
            ("kafka.partitions", 4),
            ("listeners[1].name", 7),
            ("listeners[1].listen", 9),
            ("listeners[1].freshness", 10),
            ("trust", 11),
        ]

    def test_a_fault_is_one_line_that_editors_can_jump_to(self) -> None:
        (fault,) = faults("mesh: demo\nkafka: {partitions: 0}")
        assert str(fault) == f"{FILE}:2: kafka.partitions: expected greater than or equal to 1"

    def test_a_fault_never_holds_the_value(self) -> None:
        text = "mesh: demo\nkafka: {security: {protocol: SASL_SSL, mechanism: hunter2, password: [hunter2]}}"
        assert not any("hunter2" in str(fault) for fault in faults(text))

    @pytest.mark.parametrize(
        ("text", "path", "expected"),
        [
            ("mesh: demo\nlistners: []", "listners", "did you mean listeners?"),
            ("mesh: demo\nlimits: {conections: 1}", "limits.conections", "did you mean connections?"),
            ("mesh: demo\nkafka: {topics: {raw: {retention_hour: 1}}}", "kafka.topics.raw.retention_hour", "hours?"),
            (
                "mesh: demo\nedge: {record: {zzz: 1}}",
                "edge.record.zzz",
                "expected one of bytes, frames, linger_milliseconds",
            ),
            ("mesh: demo\npermissions: [{publish: {alow: []}}]", "permissions[0].publish.alow", "did you mean allow?"),
        ],
    )
    def test_an_unknown_key_is_a_fault_with_a_hint(self, text: str, path: str, expected: str) -> None:
        expect_fault(text, path, expected, line=2)

    def test_what_is_missing_is_told_at_the_section_it_belongs_to(self) -> None:
        text = "mesh: demo\nlisteners:\n  - name: a\n    protocol: emm"
        (fault,) = faults(text)
        assert (fault.path, fault.line, fault.expected) == ("listeners[0].listen", 3, "is missing")

    def test_a_key_that_stands_twice_is_a_fault(self) -> None:
        expect_fault("mesh: demo\nmesh: prod", "mesh", "this key stands here twice", line=2)

    @pytest.mark.parametrize("text", ["", "# nothing\n"])
    def test_an_empty_file_misses_the_mesh(self, text: str) -> None:
        expect_fault(text, "mesh", "is missing")

    @pytest.mark.parametrize("text", ["just text", "[a, b]", "17"])
    def test_a_file_of_something_else_is_refused(self, text: str) -> None:
        expect_fault(text, "", "expected keys and values", line=1)

    @pytest.mark.parametrize(
        ("text", "line"),
        [
            ("mesh: [demo\nkafka: {}", 2),
            ("mesh: demo\n  edge: x", 2),
            ("a: b\n---\nc: d", 2),
            ("mesh: *gone", 1),
            ("mesh: \t@", 1),
        ],
    )
    def test_a_file_that_is_no_yaml_is_refused_with_the_line(self, text: str, line: int) -> None:
        (fault,) = faults(text)
        assert fault.expected.startswith("no YAML: ")
        assert fault.line == line

    @pytest.mark.parametrize(
        "text", ["kafka:\n\tpartitions: 1", "mesh: a\n\tb: 2", "peers:\n  - x\n\t- y", "edge:\n  \tid: edge-0"]
    )
    def test_a_tab_is_called_by_its_name(self, text: str) -> None:
        (fault,) = faults(text)
        assert (fault.expected, fault.line) == (
            "no YAML: a tab: indent with spaces",
            1 + text.partition("\t")[0].count("\n"),
        )

    def test_control_characters_are_no_yaml(self) -> None:
        expect_fault("mesh: a\x00b", "", "no YAML")

    @pytest.mark.parametrize(
        "section", ["rules", "permissions", "listeners", "peers", "kafka", "edge", "limits", "router", "trust"]
    )
    def test_a_section_whose_entries_are_all_commented_out_is_as_if_it_were_not_there(self, section: str) -> None:
        assert read(f"mesh: demo\n{section}:\n#  - {{name: hot}}\n") == read("mesh: demo")

    def test_an_empty_section_that_is_unknown_is_an_error_still(self) -> None:
        expect_fault("mesh: demo\nrulse:\n", "rulse", "unknown key: did you mean rules?", line=2)

    def test_an_empty_name_of_the_mesh_is_one_that_is_missing(self) -> None:
        expect_fault("mesh:\n", "mesh", "is missing")

    @pytest.mark.parametrize(
        ("text", "path", "expected"),
        [
            ("listeners: {a: 1}", "listeners", "expected a list"),
            ("permissions: [{nodes: a}]", "permissions[0].nodes", "expected a list"),
            ("trust: [a]", "trust", "expected a path"),
            ("identity: {node: 5}", "identity.node", "expected a UUID"),
            ("rules: [{name: a, sql: ''}]", "rules[0].sql", "expected text that is not empty"),
            ("edge: {redirect_url: example.org}", "edge.redirect_url", "expected scheme://host:port"),
            ("rules: [{name: 'a b', sql: x}]", "rules[0].name", "expected letters, digits, - and _, at most 63"),
            ("telemetry: {traces: {endpoint: x}}", "telemetry.traces.endpoint", "expected an address such as http://"),
            (
                "listeners: [{name: a, protocol: yamp, listen: 'tcp://h:1', formats: [xml]}]",
                "listeners[0].formats[0]",
                "expected 'json' or 'msgpack'",
            ),
            ("peers: [{name: a, protocol: emm, connect: 'udp://h:1'}]", "peers[0].connect", "emm is a listener's"),
        ],
    )
    def test_what_was_expected_is_said_in_words_of_the_file(self, text: str, path: str, expected: str) -> None:
        expect_fault(f"mesh: demo\n{text}", path, expected, line=2)

    def test_an_alias_that_holds_itself_is_refused(self) -> None:
        assert "rules[0]" in [fault.path for fault in faults("mesh: demo\nrules: &a [*a]")]

    def test_a_missing_file_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError) as refused:
            load(tmp_path / "none.yaml")
        assert str(refused.value) == f"{tmp_path / 'none.yaml'}: cannot read it: No such file or directory"

    def test_a_file_that_is_no_text_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "meshgate.yaml").write_bytes(b"mesh: \xff")
        with pytest.raises(ConfigError) as refused:
            load(tmp_path / "meshgate.yaml")
        assert refused.value.faults[0].expected == "cannot read it: no UTF-8"


class TestYaml:
    def test_merge_keys_work_and_own_keys_win(self) -> None:
        text = (
            "mesh: demo\n"
            "listeners:\n"
            "  - &one {name: a, protocol: emm, listen: 'udp://127.0.0.1:1', lease_seconds: 7}\n"
            "  - {<<: *one, name: b, listen: 'udp://127.0.0.1:2'}\n"
        )
        config = read(text)
        assert [(one.name, one.address.port) for one in config.listeners] == [("a", 1), ("b", 2)]
        assert config.endpoint("a").options == config.endpoint("b").options

    def test_a_date_and_a_time_of_day_stay_text(self) -> None:
        config = read("mesh: demo\npermissions: [{nodes: [2026-01-01, 12:30]}]")
        assert config.permissions[0].nodes == ("2026-01-01", "12:30")

    @pytest.mark.parametrize("word", ["off", "OFF", "on", "yes", "no"])
    def test_a_word_that_older_yaml_takes_for_a_truth_value_stays_text(self, word: str) -> None:
        assert read(f"mesh: demo\npermissions: [{{nodes: [{word}]}}]").permissions[0].nodes == (word,)

    def test_a_setting_whose_value_is_off_needs_no_quotes(self) -> None:
        text = "mesh: demo\nlisteners: [{name: a, protocol: emm, listen: 'udp://127.0.0.1:1', freshness: off}]"
        assert read(text).endpoint("a").options.model_dump()["freshness"] == "off"

    def test_a_truth_value_is_no_number(self) -> None:
        expect_fault("mesh: demo\nkafka: {partitions: true}", "kafka.partitions", "got a truth value", line=2)
        text = "mesh: demo\nlimits: {connections_per_second: true}"
        expect_fault(text, "limits.connections_per_second", "got a truth value", line=2)

    @pytest.mark.parametrize("value", ["true", ".inf"])
    def test_neither_is_it_in_the_options_of_a_protocol(self, value: str) -> None:
        text = (
            f"mesh: demo\nlisteners: [{{name: a, protocol: hsp, listen: 'tcp://127.0.0.1:1', ping_seconds: {value}}}]"
        )
        assert [fault.path for fault in faults(text)] == ["listeners[0].ping_seconds"]

    @pytest.mark.parametrize("text", [".inf", ".nan", "-1", "0"])
    def test_a_time_without_end_is_refused(self, text: str) -> None:
        assert [fault.path for fault in faults(f"mesh: demo\nlimits: {{idle_seconds: {text}}}")] == [
            "limits.idle_seconds"
        ]


class TestWhichFile:
    def test_the_file_that_is_named_is_taken_as_it_is(self) -> None:
        assert find_config("/nowhere/x.yaml") == Path("/nowhere/x.yaml")

    def test_the_one_here_comes_before_the_one_that_up_writes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("mesh").mkdir()
        Path("mesh/meshgate.yaml").touch()
        assert find_config() == Path("mesh/meshgate.yaml")
        Path("meshgate.yaml").touch()
        assert find_config() == Path("meshgate.yaml")

    def test_where_there_is_none_it_is_said_how_to_get_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ConfigError) as refused:
            find_config()
        assert "write one: meshgate init (meshgate up does too)" in str(refused.value)
