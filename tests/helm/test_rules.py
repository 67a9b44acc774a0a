"""The second streaming job: there where there are rules, and bothered by nothing that it takes over itself."""

from __future__ import annotations

from tests.helm.chart import Object, find, of_kind, render

RULES = [{"name": "hot", "sql": "SELECT 'alarm' AS subject FROM events"}]


def job(**values: object) -> Object:
    spec: Object = find(render(**{"rules": RULES, **values}), "StatefulSet", "-rules")["spec"]
    return spec


def test_without_rules_there_is_none() -> None:
    names = [each["metadata"]["name"] for each in of_kind(render(), "StatefulSet")]
    assert names == ["demo-meshgate-edge", "demo-meshgate-router"]


def test_it_runs_the_packages_verb_on_a_spark_of_its_own() -> None:
    (container,) = job(rulesJob={"taskSlots": 3})["template"]["spec"]["containers"]
    assert container["args"][:3] == ["rules", "run", "--master=local[3]"]
    assert container["image"].startswith("meshgate/router:")


def test_it_is_ready_when_all_rules_run() -> None:
    (container,) = job()["template"]["spec"]["containers"]
    (ready,) = [each.partition("=")[2] for each in container["args"] if each.startswith("--ready-file=")]
    assert container["readinessProbe"]["exec"]["command"] == ["test", "-e", ready]


def test_one_that_never_gets_ready_is_replaced_by_what_mends_it() -> None:
    assert job()["podManagementPolicy"] == "Parallel"


def test_its_state_is_its_own_and_stays() -> None:
    spec = job(rulesJob={"storage": "7Gi", "storageClass": "fast"})
    (claim,) = spec["volumeClaimTemplates"]
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "7Gi"}},
    }
    (container,) = spec["template"]["spec"]["containers"]
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == claim["metadata"]["name"]]
    assert mount["mountPath"] == "/var/lib/meshgate"  # rules keep their state beside the router's checkpoint


def test_a_changed_rule_restarts_nothing() -> None:
    changed = [{"name": "hot", "sql": "SELECT 'alarm.hot' AS subject FROM events"}]
    assert job()["template"] == job(rules=changed)["template"]


def test_it_takes_no_connections_and_has_no_rights() -> None:
    policy = find(render(rules=RULES), "NetworkPolicy", "-rules")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in policy
    assert job()["template"]["spec"]["automountServiceAccountToken"] is False
