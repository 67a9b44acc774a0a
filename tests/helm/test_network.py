"""Network policies: what is let in and out, and that nothing else is."""

from __future__ import annotations

from typing import Any

from tests.helm.chart import Object, find, of_kind, render

MONITORING = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]


def policy(objects: list[Object], part: str) -> Object:
    spec: Object = find(objects, "NetworkPolicy", f"-{part}")["spec"]
    return spec


def ports(rules: list[Object]) -> set[tuple[str, Any]]:
    return {(port["protocol"], port.get("port")) for rule in rules for port in rule.get("ports", [])}


def rule_for(rules: list[Object], port: int | str) -> Object:
    (found,) = [rule for rule in rules if port in {each.get("port") for each in rule.get("ports", [])}]
    return found


def components(rule: Object) -> list[str]:
    """Returns those of the chart's own pods that a rule names."""
    labels = [each.get("podSelector", {}).get("matchLabels", {}) for each in rule.get("from", [])]
    return [each["app.kubernetes.io/component"] for each in labels if each]


def test_edges_take_peers_at_their_listeners_and_nothing_else() -> None:
    ingress = policy(render(), "edge")["ingress"]
    assert ports(ingress) == {("TCP", "management"), ("UDP", "devices"), ("TCP", "apps")}
    assert "from" not in rule_for(ingress, "devices")


def test_who_may_connect_can_be_said_of_each_listener() -> None:
    private = [{"ipBlock": {"cidr": "10.0.0.0/8"}}]
    listener = {"name": "apps", "protocol": "yamp", "transport": "tcp", "port": 5042, "from": private}
    rule = rule_for(policy(render(listeners=[listener]), "edge")["ingress"], "apps")
    assert rule["from"][0] == private[0]
    assert components(rule) == ["test-listeners"]  # and the chart's own test


def test_management_ports_are_for_the_health_test_and_whoever_is_named() -> None:
    objects = render(networkPolicy={"monitoringFrom": MONITORING})
    for part, port in (("edge", "management"), ("router", 9641)):
        rule = rule_for(policy(objects, part)["ingress"], port)
        assert components(rule) == ["test-health"]
        assert MONITORING[0] in rule["from"]
        nobody = rule_for(policy(render(), part)["ingress"], port)
        assert len(nobody["from"]) == 1


def test_pods_reach_names_and_brokers_and_nothing_else() -> None:
    objects = render(kafka={"bootstrap": "a:9092,b:9093,c:9092"}, listeners=[])
    for part in ("edge", "router"):
        egress = policy(objects, part)["egress"]
        assert ports(egress) == {("UDP", 53), ("TCP", 53), ("TCP", 9092), ("TCP", 9093)}
        assert policy(objects, part)["policyTypes"] == ["Ingress", "Egress"]


def test_brokers_can_be_pinned_to_where_they_are() -> None:
    brokers = [{"ipBlock": {"cidr": "10.2.0.0/16"}}]
    objects = render(networkPolicy={"kafkaTo": brokers})
    for part in ("edge", "router"):
        assert rule_for(policy(objects, part)["egress"], 9092)["to"] == brokers


def test_edges_may_send_datagrams_to_peers_that_spoke_long_ago() -> None:
    assert ("UDP", None) in ports(policy(render(), "edge")["egress"])
    tcp = {"name": "apps", "protocol": "yamp", "transport": "tcp", "port": 5042}
    assert ("UDP", None) not in ports(policy(render(listeners=[tcp]), "edge")["egress"])


def test_edges_may_dial_their_links() -> None:
    links = [
        {"name": "a", "protocol": "emp", "connect": "tls://10.1.0.5:5040"},
        {"name": "b", "protocol": "yamp", "connect": "wss://[2001:db8::1]:8443/mesh"},
        {"name": "c", "protocol": "emm", "connect": "quic://peer.example.org:5044"},
    ]
    egress = ports(policy(render(peers=links), "edge")["egress"])
    assert {("TCP", 5040), ("TCP", 8443), ("UDP", 5044)} <= egress
    assert not {("TCP", 5040), ("TCP", 8443)} & ports(policy(render(peers=links), "router")["egress"])


def test_driver_and_executors_talk_among_themselves_and_to_kubernetes() -> None:
    executors = {"executors": {"count": 2}, "checkpoint": {"accessMode": "ReadWriteMany"}}
    spec = policy(render(router=executors), "router")
    members = spec["podSelector"]
    assert members["matchExpressions"][1]["values"] == ["router", "executor"]
    assert {"from": [{"podSelector": members}]} in spec["ingress"]
    assert {"to": [{"podSelector": members}]} in spec["egress"]
    assert {("TCP", 443), ("TCP", 6443)} <= ports(spec["egress"])


def test_a_router_without_executors_does_not_reach_kubernetes() -> None:
    assert not {("TCP", 443), ("TCP", 6443)} & ports(policy(render(), "router")["egress"])


def test_nobody_reaches_a_pod_that_has_no_business_with_peers() -> None:
    objects = render(rules=[{"name": "hot", "sql": "SELECT 'a' AS subject FROM events"}])
    policies = [each["spec"] for each in of_kind(objects, "NetworkPolicy")]
    for each in [*of_kind(objects, "Job"), *of_kind(objects, "Pod"), *of_kind(objects, "StatefulSet")]:
        labels = (each if each["kind"] == "Pod" else each["spec"]["template"])["metadata"]["labels"]
        (own,) = [one for one in policies if selects(one["podSelector"], labels)]
        assert "Ingress" in own["policyTypes"]
        assert ("ingress" in own) == (labels["app.kubernetes.io/component"] in ("edge", "router"))


def selects(selector: Object, labels: dict[str, str]) -> bool:
    terms = selector.get("matchExpressions", [])
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        labels.get(term["key"]) in term["values"] for term in terms
    )


def test_policies_can_be_left_to_somebody_else() -> None:
    assert of_kind(render(networkPolicy={"enabled": False}), "NetworkPolicy") == []


def test_spans_get_to_their_collector_and_to_no_other_port() -> None:
    for endpoint, port in (("http://otel:4318/v1/traces", 4318), ("https://otel/v1/traces", 443)):
        traced = render(settings={"telemetry": {"traces": {"endpoint": endpoint}}}, listeners=[])
        for part in ("edge", "router"):
            more = ports(policy(traced, part)["egress"]) - ports(policy(render(listeners=[]), part)["egress"])
            assert more == {("TCP", port)}
