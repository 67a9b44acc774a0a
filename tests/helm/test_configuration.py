"""The configuration that pods get is one that the package takes; and a change restarts only those it must restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.config import Config, load
from gateway.config.watch import BOUND, RELOADED, restart_needed
from tests.helm.chart import Object, configuration, find, of_kind, pod_specs, render, render_exactly

ENVIRONMENT = {
    "MESHGATE_EDGE_ID": "demo-meshgate-edge-1", "MESHGATE_KAFKA_USER": "mesh", "OPERATOR_PASSWORD": "from a Secret",
}  # fmt: skip
MOUNTED = Path("/etc/meshgate")


def loaded(objects: list[Object], folder: Path, name: str = "demo-meshgate", **environment: str) -> Config:
    """Loads it as a pod does: the file where it is mounted, and beside it what the pod's other volumes hold."""
    for _, spec in pod_specs(objects):
        for volume in spec["volumes"]:
            lay_out(volume, folder, spec)
    path = folder / "config" / "meshgate.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(find(objects, "ConfigMap", name)["data"]["meshgate.yaml"])
    return load(path, ENVIRONMENT | environment)


def lay_out(volume: Object, folder: Path, spec: Object) -> None:
    """A Secret's files: those that are named, or two that a test's configurations name."""
    if "secret" not in volume:
        return
    mounts = [mount for container in spec["containers"] for mount in container["volumeMounts"]]
    at = next(mount["mountPath"] for mount in mounts if mount["name"] == volume["name"])
    place = folder / Path(at).relative_to(MOUNTED)
    place.mkdir(parents=True, exist_ok=True)
    items = volume["secret"].get("items") or [{"path": "cluster-key"}, {"path": "ca.crt"}]
    for item in items:
        (place / item["path"]).write_text("00112233445566778899aabbccddeeff")


def test_the_package_takes_it(values: Path, tmp_path: Path) -> None:
    given = yaml.safe_load(values.read_text())
    config = loaded(render_exactly(given), tmp_path)
    assert config.mesh == given.get("mesh", "demo")
    assert config.edge.id == "demo-meshgate-edge-1"
    assert config.edge_ordinal == 1
    assert config.trust == tmp_path / "config" / ".." / "trust" / given["trust"].get("key", "keys.yaml")
    assert not config.kafka.is_embedded


def test_the_topics_job_reads_the_same(values: Path) -> None:
    objects = render_exactly(yaml.safe_load(values.read_text()))
    if of_kind(objects, "Job"):
        assert configuration(objects, "-topics") == configuration(objects)


def test_every_secret_file_it_names_is_mounted_where_it_is_read(values: Path) -> None:
    """What edges read: all but the trust store. The router has no sockets, so no certificates, and reads none."""
    objects = render_exactly(yaml.safe_load(values.read_text()))
    named = {str(MOUNTED / Path(name).parent) for name in files_in(configuration(objects))}
    edge = find(objects, "StatefulSet", "-edge")["spec"]["template"]["spec"]
    mounts = {mount["mountPath"] for mount in edge["containers"][0]["volumeMounts"]}
    assert named - mounts == {str(MOUNTED / "trust")}


def test_only_who_judges_packets_has_the_trust_store(values: Path) -> None:
    """The trust store lets its reader sign as the gateway, and as every device that shares a secret with it."""
    given = yaml.safe_load(values.read_text())
    holders = set()
    for each in pods_in(render_exactly(given)):
        volumes = each["spec"]["volumes"]
        if given["trust"]["secret"] in [volume.get("secret", {}).get("secretName") for volume in volumes]:
            holders.add(each["metadata"]["labels"]["app.kubernetes.io/component"])
    assert {"router", "test-listeners"} <= holders <= {"router", "executor", "test-listeners"}


FILES: list[Any] = [{"name": "all", "secret": "of-edges"}, {"name": "some", "secret": "of-rules", "parts": ["rules"]}]
EXECUTORS = {"executors": {"count": 2}, "checkpoint": {"accessMode": "ReadWriteMany"}}
RULES = [{"name": "hot", "sql": "SELECT 'a' AS subject"}]


def test_secret_files_are_mounted_where_they_are_used_and_nowhere_else() -> None:
    for router in ({}, EXECUTORS, {"kind": "sparkapplication", **EXECUTORS}):
        holders = {}
        for each in pods_in(render(secretFiles=FILES, rules=RULES, router=router)):
            held = [volume.get("secret", {}).get("secretName") for volume in each["spec"]["volumes"]]
            mounted = [mount["name"] for mount in each["spec"]["containers"][0]["volumeMounts"]]
            mine = [name for name in ("all", "some") if f"secret-{name}" in mounted]
            assert len(mine) == len({"of-edges", "of-rules"}.intersection(held))
            holders[each["metadata"]["labels"]["app.kubernetes.io/component"]] = mine
        assert {part: names for part, names in holders.items() if names} == {"edge": ["all"], "rules": ["some"]}


def test_parts_without_the_secrets_read_the_same_file(tmp_path: Path) -> None:
    """A router that wanted an edge's password would not start."""
    keys = {"auth": {"cluster_key": "${file:../secrets/all/key}", "users": {"operator": "${OPERATOR}"}}}
    lab = {"name": "lab", "protocol": "wolpertinger", "transport": "tcp", "port": 5044, "options": keys}
    objects = render(secretFiles=FILES, rules=RULES, listeners=[lab])
    path = tmp_path / "meshgate.yaml"
    path.write_text(find(objects, "ConfigMap", "demo-meshgate")["data"]["meshgate.yaml"])
    for each in pods_in(objects):
        if each["metadata"]["labels"]["app.kubernetes.io/component"] in ("router", "rules", "topics"):
            own = {one["name"]: one.get("value", "") for one in each["spec"]["containers"][0]["env"]}
            assert load(path, {"POD_NAME": "edge-0", **own}).listeners[0].name == "lab"


def pods_in(value: Any) -> Iterator[Object]:
    """Pods, and templates of pods, wherever they stand; also in the text of a ConfigMap, where Spark's is."""
    if isinstance(value, str) and "kind: Pod" in value:
        value = yaml.safe_load(value)
    if isinstance(value, dict) and "containers" in value.get("spec", {}):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from pods_in(inner)


def files_in(value: Any) -> list[str]:
    """`../tls/plc/tls.crt` and `${file:../kafka-password/password}` both name a file beside the configuration's."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return [name for each in inner for name in files_in(each)]
    text = str(value).removeprefix("${file:").removesuffix("}")
    return [text.removeprefix("../")] if text.startswith("../") else []


def test_edges_have_certificates_and_the_router_does_not() -> None:
    listener = {"name": "plc", "protocol": "hsp", "transport": "tls", "port": 5141, "tls": {"secret": "plc"}}
    objects = render(listeners=[listener])
    for part, has in (("edge", True), ("router", False)):
        spec = find(objects, "StatefulSet", f"-{part}")["spec"]["template"]["spec"]
        assert ("tls-plc" in {volume["name"] for volume in spec["volumes"]}) is has


def test_listeners_become_addresses_with_their_options(tmp_path: Path) -> None:
    listeners = [
        {"name": "web", "protocol": "yamp", "transport": "ws", "port": 5043, "path": "/mesh"},
        {
            "name": "plc",
            "protocol": "hsp",
            "transport": "tls",
            "port": 5141,
            "tls": {"secret": "plc", "clientCa": {"secret": "ca", "key": "root.pem"}, "nodeFrom": "cn"},
            "options": {"types": {"17": "temp.high"}, "idle_seconds": 9},
        },
    ]
    config = loaded(render(listeners=listeners, bindHost="::"), tmp_path)
    web, plc = config.listeners
    assert str(web.listen) == "ws://[::]:5043/mesh"
    assert plc.tls is not None
    assert plc.tls.client_ca == tmp_path / "config" / ".." / "client-ca" / "plc" / "ca.crt"
    assert plc.tls.node_from == "cn"
    assert config.listener_limits("plc").idle_seconds == 9


def test_management_is_where_the_probes_ask(tmp_path: Path) -> None:
    config = loaded(render(edge={"managementPort": 9001}, router={"managementPort": 9002}), tmp_path)
    assert str(config.edge.management) == "0.0.0.0:9001"
    assert str(config.router.management) == "0.0.0.0:9002"


def test_the_kafka_of_our_own_brings_its_certificate(tmp_path: Path) -> None:
    objects = render(kafka={"bootstrap": "", "manageTopics": "strimzi", "strimzi": {"enabled": True}})
    assert loaded(objects, tmp_path).kafka.security.protocol == "SASL_SSL"
    cluster = find(objects, "Kafka")["metadata"]["name"]
    assert configuration(objects)["kafka"]["bootstrap"] == f"{cluster}-kafka-bootstrap.mesh.svc:9093"


def user_of(objects: list[Object], kind: str, part: str) -> tuple[str, str]:
    """Returns who a part is to Kafka, and the Secret with its password."""
    spec = find(objects, kind, f"-{part}")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    names = {each["name"]: each.get("value") for each in container["env"]}
    secrets = {each["name"]: each["secret"]["secretName"] for each in spec["volumes"] if "secret" in each}
    return str(names["MESHGATE_KAFKA_USER"]), secrets["kafka-password"]


ALL_PARTS = [("StatefulSet", "edge"), ("StatefulSet", "router"), ("StatefulSet", "rules"), ("Job", "topics")]
RULES = [{"name": "all", "sql": "SELECT * FROM events"}]


@pytest.mark.parametrize(("kind", "part"), ALL_PARTS)
def test_a_part_may_be_a_user_of_its_own_and_is_else_the_one_for_all(kind: str, part: str, tmp_path: Path) -> None:
    one = {"protocol": "SASL_SSL", "username": "mesh", "passwordSecret": {"name": "mesh-kafka"}}
    own = {part: {"username": f"mesh-{part}", "passwordSecret": {"name": f"secret-{part}", "key": "password"}}}
    shared, apart = (render(rules=RULES, kafka={"security": each}) for each in (one, one | {"users": own}))
    assert user_of(shared, kind, part) == ("mesh", "mesh-kafka")
    assert user_of(apart, kind, part) == (f"mesh-{part}", f"secret-{part}")
    others = [each for each in ALL_PARTS if each[1] != part]
    assert {user_of(apart, *each) for each in others} == {("mesh", "mesh-kafka")}
    config = loaded(apart, tmp_path, MESHGATE_KAFKA_USER=f"mesh-{part}")
    assert config.kafka.security.username == f"mesh-{part}"


# What running parts take over, and how values change it. The keys are the package's own list.
TAKEN_OVER: dict[str, dict[str, Any]] = {
    "peers": {"peers": [{"name": "plant", "protocol": "emp", "connect": "tcp://10.0.0.1:5040"}]},
    "permissions": {"permissions": [{"nodes": ["*"], "publish": {"deny": ["admin.>"]}}]},
    "auth": {"settings": {"auth": {"tokens": {"audience": "mesh", "jwks": "../secrets/issuer/jwks.json"}}}},
    "rules": {"rules": [{"name": "all", "sql": "SELECT * FROM events"}]},
    "limits": {"limits": {"connections": 5}},
    "request_timeout_seconds": {"settings": {"request_timeout_seconds": 5}},
    "edge.redirect_url": {"edge": {"redirectUrl": "tcp://elsewhere:5042"}},
    "edge.notice_seconds": {"edge": {"noticeSeconds": 4}},
    "edge.graceful_shutdown_limit_seconds": {"edge": {"gracefulShutdownSeconds": 30}},
    "edge.operators": {"edge": {"operators": {"alice": "a-token-that-is-long-enough"}}},
}


def restarts(part: str, before: list[Object], after: list[Object]) -> bool:
    old, new = (find(objects, "StatefulSet", f"-{part}")["spec"]["template"] for objects in (before, after))
    return bool(old != new)


class TestRestarts:
    def test_this_is_all_that_is_taken_over(self) -> None:
        assert set(TAKEN_OVER) == set(RELOADED)
        assert set(BOUND) == {"protocol", "listen", "proxy_protocol"}

    @pytest.mark.parametrize("setting", RELOADED)
    def test_what_running_parts_take_over_restarts_nobody(self, setting: str, tmp_path: Path) -> None:
        before, after = render(), render(**TAKEN_OVER[setting])
        old, new = loaded(before, tmp_path / "old"), loaded(after, tmp_path / "new")
        assert [changed for changed in restart_needed(old, new) if changed != "trust"] == []
        assert configuration(before) != configuration(after)
        for part in ("edge", "router"):
            assert not restarts(part, before, after)

    def test_options_of_a_listener_restart_nobody(self) -> None:
        listener = {"name": "devices", "protocol": "emm", "transport": "udp", "port": 5050}
        before = render(listeners=[listener])
        after = render(listeners=[listener | {"options": {"lease_seconds": 5}}])
        assert configuration(before) != configuration(after)
        assert not restarts("edge", before, after)
        assert not restarts("router", before, after)

    @pytest.mark.parametrize(
        "values",
        [
            {"mesh": "other"},
            {"kafka": {"partitions": 8}},
            {"kafka": {"bootstrap": "elsewhere:9092"}},
            {"settings": {"replay_window_seconds": 60}},
            {"listeners": [{"name": "devices", "protocol": "emm", "transport": "udp", "port": 5051}]},
            {"bindHost": "::"},
        ],
        ids=str,
    )
    def test_what_they_cannot_take_over_restarts_both(self, values: dict[str, Any]) -> None:
        for part in ("edge", "router"):
            assert restarts(part, render(), render(**values))
