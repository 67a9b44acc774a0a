"""Values: the schema is closed, what cannot work is refused with its reason, and the README says what there is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import ModuleType
from typing import Any, get_args

import pytest
import yaml
from jsonschema import Draft7Validator

from gateway.config.kafka import ProducerSettings, TopicSettings
from gateway.config.settings import (
    GrantSettings,
    IdentitySettings,
    Limits,
    PermissionSettings,
    RecordSettings,
    RuleSettings,
)
from gateway.config.topics import TopicName
from gateway.protocols import protocols
from tests.helm.chart import CHART, LEAST, Refused, merged, module_at, refusal, render, render_exactly

VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
INJECTED = {"global"}  # by Helm, where the chart is another one's part


def schema_faults(values: dict[str, Any]) -> list[str]:
    """Finds them as Helm does, without starting it."""
    return [error.message for error in Draft7Validator(SCHEMA).iter_errors(values)]


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        found: dict[str, Any] = SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]]
        return found
    return schema


def schema_at(path: str) -> dict[str, Any]:
    schema = SCHEMA
    for name in path.split("."):
        schema = resolved(schema["properties"][name])
    return schema


def objects_in(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every place of the values that holds keys."""
    schema = resolved(schema)
    if schema.get("type") == "object" and "properties" in schema:
        yield path, schema
        for name, inner in schema["properties"].items():
            yield from objects_in(inner, f"{path}.{name}")
    elif "items" in schema:
        yield from objects_in(schema["items"], f"{path}[]")


def keys_in(values: Any, schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, set[str], set[str]]]:
    """Returns by place the keys that values.yaml has, and those that the schema knows."""
    schema = resolved(schema)
    if isinstance(values, dict) and "properties" in schema:
        yield path, set(values), set(schema["properties"])
        for name, value in values.items():
            yield from keys_in(value, schema["properties"][name], f"{path}.{name}")


class TestSchema:
    def test_every_place_that_holds_keys_is_closed(self) -> None:
        places = dict(objects_in(SCHEMA))
        assert {".edge", ".kafka.security.caSecret", ".listeners[]", ".permissions[].publish"} <= places.keys()
        assert [path for path, schema in places.items() if schema.get("additionalProperties") is not False] == []

    def test_values_and_schema_know_the_same_keys(self) -> None:
        optional = {  # places of which values.yaml shows nothing, or an example
            ".limits", ".settings", ".kafka.producer", ".kafka.topics", ".kafka.topics.egress", ".edge.record",
        }  # fmt: skip
        for path, there, known in keys_in(VALUES, SCHEMA):
            assert there <= known, path
            assert path in optional or known - there <= INJECTED, path

    def test_a_misspelt_key_is_an_error_wherever_it_stands(self) -> None:
        for path, _, _ in keys_in(VALUES, SCHEMA):
            values: dict[str, Any] = {"misspelt": 1}
            for name in reversed([name for name in path.split(".") if name]):
                values = {name: values}
            assert any("misspelt" in fault for fault in schema_faults(values)), path

    def test_helm_reads_the_schema(self) -> None:
        assert "replica" in refusal(edge={"replica": 3})

    @pytest.mark.parametrize(
        "values",
        [
            {"mesh": "a.b"},
            {"mesh": ""},
            {"kafka": {"bootstrap": "kafka"}},
            {"kafka": {"bootstrap": "embedded"}},
            {"kafka": {"partitions": 0}},
            {"kafka": {"partitions": "4"}},
            {"kafka": {"manageTopics": "yes"}},
            {"kafka": {"security": {"protocol": "TLS"}}},
            {"kafka": {"topics": {"raw": {"partitions": 4}}}},  # said in kafka.partitions
            {"kafka": {"topics": {"interests": {"retention_hours": 1}}}},  # compacted
            {"kafka": {"topics": {"other": {}}}},
            {"edge": {"replicas": -1}},
            {"edge": {"replicas": 1.5}},
            {"edge": {"managementPort": 80}},
            {"edge": {"updateStrategy": {"type": "Recreate"}}},
            {"edge": {"autoscaling": {"kind": "vpa"}}},
            {"edge": {"resources": {"limits": {"memory": "1 GB"}}}},
            {"router": {"mode": "fast"}},
            {"router": {"kind": "deployment"}},
            {"router": {"spark": {"driver.memory": "2g"}}},
            {"router": {"executors": {"memory": "2Gi"}}},  # Java writes 2g
            {"service": {"type": "ExternalName"}},
            {"images": {"edge": {"digest": "sha256:abc"}}},
            {"limits": {"connection": 5}},
            {"permissions": [{"node": ["*"]}]},
            {"env": [{"value": "x"}]},
        ],
        ids=str,
    )
    def test_a_value_of_the_wrong_kind_is_refused(self, values: dict[str, Any]) -> None:
        assert schema_faults(merged(VALUES, LEAST)) == []
        assert schema_faults(merged(merged(VALUES, LEAST), values))

    @pytest.mark.parametrize(
        "changes",
        [
            {"name": "Devices"},
            {"name": "a-name-of-16-chs"},
            {"name": "1234"},  # Kubernetes wants a letter in the name of a port
            {"name": "management"},
            {"transport": "sctp"},
            {"port": 80},
            {"port": 70000},
            {"listen": "udp://0.0.0.0:5050"},
            {"path": "mesh"},
            {"tls": {"cert": "x"}},
            {"options": {"listen": "udp://0.0.0.0:1"}},
            {"options": {"tls": {}}},
        ],
        ids=str,
    )
    def test_a_listener_that_is_none_is_refused(self, changes: dict[str, Any]) -> None:
        listener = {"name": "devices", "protocol": "emm", "transport": "udp", "port": 5050}
        assert schema_faults({"listeners": [listener]}) == []
        assert schema_faults({"listeners": [listener | changes]})

    @pytest.mark.parametrize(
        ("path", "model", "elsewhere"),
        [
            ("limits", Limits, set()),
            ("edge.record", RecordSettings, set()),
            ("kafka.producer", ProducerSettings, set()),
            ("kafka.topics.egress", TopicSettings, set()),
            ("kafka.topics.raw", TopicSettings, {"partitions"}),
            ("kafka.topics.interests", TopicSettings, {"retention_hours", "retention_bytes"}),
            ("settings.identity", IdentitySettings, set()),
        ],
    )
    def test_keys_that_go_into_the_configuration_are_the_packages_own(
        self, path: str, model: Any, elsewhere: set[str]
    ) -> None:
        assert schema_at(path)["properties"].keys() == model.model_fields.keys() - elsewhere

    @pytest.mark.parametrize(
        ("name", "model"), [("permission", PermissionSettings), ("grant", GrantSettings), ("rule", RuleSettings)]
    )
    def test_parts_of_lists_that_go_into_the_configuration_are_too(self, name: str, model: Any) -> None:
        assert SCHEMA["definitions"][name]["properties"].keys() == model.model_fields.keys()

    def test_topics_and_transports_are_the_packages_own(self) -> None:
        assert schema_at("kafka.topics")["properties"].keys() == set(get_args(TopicName))
        transports = {transport for spec in protocols().values() for transport in spec.transports}
        listened = set(SCHEMA["definitions"]["listener"]["properties"]["transport"]["enum"])
        assert transports - listened <= {"xmpp"}  # dialled: it stands among the peers


TLS_LISTENER = {"name": "plc", "protocol": "hsp", "transport": "tls", "port": 5141}


class TestGuards:
    @pytest.mark.parametrize(
        ("values", "reason"),
        [
            ({"trust": {"secret": ""}}, "trust.secret: name the Secret"),
            ({"kafka": {"bootstrap": ""}}, "kafka.bootstrap: say where Kafka is"),
            ({"kafka": {"strimzi": {"enabled": True}, "manageTopics": "strimzi"}}, "leave it empty with"),
            ({"kafka": {"bootstrap": "", "strimzi": {"enabled": True}}}, "`job` runs before anything else"),
            ({"kafka": {"minInsyncReplicas": 4}}, "4 copies of 3 can never be had"),
            (
                {"kafka": {"bootstrap": "", "manageTopics": "none", "strimzi": {"enabled": True, "brokers": 1}}},
                "3 copies need as many brokers, and there are 1",
            ),
            (
                {"kafka": {"security": {"protocol": "SASL_SSL"}}},
                "SASL_SSL needs username and passwordSecret.name, or users.edge",
            ),
            ({"edge": {"replicas": 0}}, "never zero"),
            ({"edge": {"autoscaling": {"kind": "hpa", "minReplicas": 0}}}, "never zero"),
            ({"edge": {"autoscaling": {"kind": "hpa", "minReplicas": 9}}}, "minReplicas is more than maxReplicas"),
            ({"edge": {"autoscaling": {"kind": "keda"}}}, "say which Prometheus"),
            ({"edge": {"podDisruptionBudget": {"maxUnavailable": 2}}}, "2 of 2 edges away at once would leave none"),
            (
                {
                    "edge": {
                        "autoscaling": {"kind": "hpa", "minReplicas": 3},
                        "podDisruptionBudget": {"maxUnavailable": 3},
                    }
                },
                "3 of 3 edges away at once",
            ),
            ({"edge": {"replicas": 17}}, "17 edges need as many, and there are 16"),
            ({"edge": {"autoscaling": {"kind": "hpa", "maxReplicas": 17}}}, "17 edges need as many"),
            ({"edge": {"terminationGraceSeconds": 79}}, "noticeSeconds + gracefulShutdownSeconds + 15 is 80"),
            ({"edge": {"gracefulShutdownSeconds": 61}}, "would kill an edge that still drains"),
            ({"router": {"taskSlots": 4}}, "real time needs 5 task slots"),
            ({"router": {"mode": "realtime", "taskSlots": 4}}, "and one more) and there are 4"),
            ({"kafka": {"partitions": 5}, "router": {"executors": {"count": 1, "taskSlots": 5}}}, "needs 6 task slots"),
            ({"router": {"executors": {"count": 2}}}, "this needs ReadWriteMany"),
            ({"router": {"kind": "sparkapplication"}}, "a SparkApplication needs executors"),
            (
                {"router": {"standby": True, "executors": {"count": 2}, "checkpoint": {"accessMode": "ReadWriteMany"}}},
                "a second pod that waits",
            ),
            (
                {"router": {"standby": True, "checkpoint": {"accessMode": "ReadWriteOncePod"}}},
                "both pods mount the checkpoint",
            ),
            ({"listeners": [TLS_LISTENER]}, "plc needs a certificate"),
            ({"certManager": {"enabled": True}, "listeners": [TLS_LISTENER]}, "say who signs"),
            (
                {"certManager": {"enabled": True, "issuer": {"name": "mesh"}, "durationHours": 720}},
                "720 before the end of 720 would be at once",
            ),
            ({"listeners": [TLS_LISTENER | {"transport": "tcp", "tls": {"secret": "x"}}]}, "plc has no TLS over tcp"),
            (
                {"metrics": {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}}},
                "would count everything twice",
            ),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_what_cannot_work_is_refused_with_its_reason(self, values: dict[str, Any], reason: str) -> None:
        assert reason in refusal(**values)

    @pytest.mark.parametrize(
        "values",
        [
            {"edge": {"replicas": 16}},
            {"edge": {"terminationGraceSeconds": 80}},
            {"edge": {"replicas": 1}},
            {"edge": {"replicas": 3, "podDisruptionBudget": {"maxUnavailable": 2}}},
            {"router": {"lanes": 9}},
            {"router": {"taskSlots": 5}},
            {"router": {"mode": "microbatch", "taskSlots": 1}},
            {
                "kafka": {"partitions": 5},
                "router": {
                    "executors": {"count": 2, "taskSlots": 3},
                    "checkpoint": {"accessMode": "ReadWriteMany"},
                },
            },
        ],
        ids=str,
    )
    def test_what_just_works_is_let_through(self, values: dict[str, Any]) -> None:
        assert render(**values)

    def test_an_update_that_ends_all_edges_at_once_is_refused_even_without_the_schema(self) -> None:
        reason = refusal("--skip-schema-validation", edge={"updateStrategy": {"type": "Recreate"}})
        assert "Recreate would end all edges at once" in reason

    def test_all_faults_are_told_at_once(self) -> None:
        with pytest.raises(Refused) as refused:
            render_exactly({"edge": {"replicas": 0, "terminationGraceSeconds": 10}})
        for reason in ("trust.secret", "kafka.bootstrap", "never zero", "would kill an edge"):
            assert reason in str(refused.value)

    @pytest.mark.parametrize(
        ("second", "reason"),
        [
            ({"name": "devices", "port": 5051}, "devices stands there twice"),
            ({"port": 5050}, "wants port UDP 5050, which is taken"),
            ({"servicePort": 50}, "wants port UDP 50 of the Service, which is taken"),
            ({"transport": "tcp", "port": 9640}, "wants port TCP 9640, which is taken"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_listeners_that_get_in_each_others_way_are_refused(self, second: dict[str, Any], reason: str) -> None:
        first = {"name": "devices", "protocol": "emm", "transport": "udp", "port": 5050, "servicePort": 50}
        other = {"name": "other", "protocol": "emm", "transport": "udp", "port": 5051} | second
        assert reason in refusal(listeners=[first, other])

    def test_udp_and_tcp_may_share_a_port(self) -> None:
        ports = [("one", "udp", "emm"), ("two", "tcp", "yamp")]
        listeners = [{"name": name, "transport": way, "protocol": spoken, "port": 5050} for name, way, spoken in ports]
        assert render(listeners=listeners)


@pytest.fixture(scope="module")
def readme() -> ModuleType:
    return module_at(CHART.parent / "readme.py")


class TestReadme:
    def test_it_is_what_the_values_say(self, readme: ModuleType) -> None:
        assert readme.main(["--check"]) == 0, "run python helm/readme.py"

    def test_a_value_without_a_comment_is_an_error(self, readme: ModuleType) -> None:
        with pytest.raises(readme.UndocumentedError) as silent:
            readme.values("edge:\n  # Edges.\n  replicas: 2\n  port: 1\n")
        assert str(silent.value) == "values.yaml: no comment above edge.port"

    def test_every_leaf_has_a_row_with_its_default(self, readme: ModuleType) -> None:
        rows = {value.path: value for value in readme.values((CHART / "values.yaml").read_text())}
        assert rows["edge.replicas"].default == "2"
        assert rows["kafka.topics"].default == '{"egress": {"partitions": 16}}'
        assert set(VALUES) == {path.partition(".")[0] for path in rows}

    def test_parts_of_a_value_become_lines_of_their_own(self, readme: ModuleType) -> None:
        (value,) = readme.values("# A list:\n#   name   what it is\n#   port   where | when\nlisteners: []\n")
        assert value.row() == r"| `listeners` | `[]` | A list:<br>`name`: what it is<br>`port`: where \| when |"

    def test_a_stale_table_is_noticed(self, readme: ModuleType) -> None:
        old = (CHART / "README.md").read_text()
        changed = (CHART / "values.yaml").read_text().replace("# Edges.", "# Many edges.")
        assert readme.written(old, changed) != old


def test_the_least_values_are_those_that_the_readme_says() -> None:
    assert merged(LEAST, {}) == {"trust": {"secret": "mesh-trust"}, "kafka": {"bootstrap": "kafka:9092"}}
    said = (CHART / "README.md").read_text()
    assert "--set trust.secret=mesh-trust" in said
    assert "--set kafka.bootstrap=" in said
