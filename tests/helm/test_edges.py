"""Edges: their set, their Services, and how many of them there are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helm.chart import (
    CHART,
    LEAST,
    NAMESPACE,
    RELEASE,
    Object,
    configuration,
    find,
    merged,
    of_kind,
    render,
    template,
)
from tests.helm.kubernetes_api import api_with
from tests.helm.tools import helm_3

LISTENERS = [
    {"name": "devices", "protocol": "emm", "transport": "udp", "port": 5050, "servicePort": 50, "nodePort": 30050},
    {"name": "apps", "protocol": "yamp", "transport": "tcp", "port": 5042},
    {"name": "quic", "protocol": "emm", "transport": "quic", "port": 5044, "tls": {"secret": "quic"}},
    {"name": "hidden", "protocol": "emp", "transport": "tcp", "port": 5040, "expose": False},
]


def edges(objects: list[Object]) -> Object:
    spec: Object = find(objects, "StatefulSet", "-edge")["spec"]
    return spec


def edge_pod(objects: list[Object]) -> Object:
    spec: Object = edges(objects)["template"]["spec"]
    return spec


def ports_of(service: Object) -> dict[str, tuple[int, str, str]]:
    return {each["name"]: (each["port"], each["protocol"], each["targetPort"]) for each in service["spec"]["ports"]}


class TestSet:
    def test_an_edges_id_is_its_pods_name_whose_number_is_its_partition(self) -> None:
        (identity,) = [
            each for each in edge_pod(render())["containers"][0]["env"] if each["name"] == "MESHGATE_EDGE_ID"
        ]
        assert identity["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}

    def test_each_listener_is_a_port_of_the_pod_under_its_own_name(self) -> None:
        ports = edge_pod(render(listeners=LISTENERS))["containers"][0]["ports"]
        assert {each["name"]: (each["containerPort"], each.get("protocol")) for each in ports} == {
            "management": (9640, None),
            "devices": (5050, "UDP"),
            "apps": (5042, "TCP"),
            "quic": (5044, "UDP"),
            "hidden": (5040, "TCP"),
        }

    def test_an_edge_is_given_the_time_it_needs_to_say_goodbye(self) -> None:
        given = {"noticeSeconds": 7, "gracefulShutdownSeconds": 100, "terminationGraceSeconds": 130}
        objects = render(edge=given)
        edge = configuration(objects)["edge"]
        assert (edge["notice_seconds"], edge["graceful_shutdown_limit_seconds"]) == (7, 100)
        assert edge_pod(objects)["terminationGracePeriodSeconds"] == 130

    def test_one_that_leaves_is_found_not_ready_within_its_notice(self) -> None:
        objects = render()
        probe = edge_pod(objects)["containers"][0]["readinessProbe"]
        found = probe["periodSeconds"] * (probe["failureThreshold"] + 1)
        assert found < configuration(objects)["edge"]["notice_seconds"]

    def test_probes_ask_the_edge_itself(self) -> None:
        container = edge_pod(render())["containers"][0]
        asked = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "readiness", "liveness")}
        assert asked == {
            "startup": "/healthz/started",
            "readiness": "/healthz/ready",
            "liveness": "/healthz/live",  # never depends on Kafka
        }

    def test_edges_start_together_and_are_updated_one_by_one(self) -> None:
        spec = edges(render())
        assert spec["podManagementPolicy"] == "Parallel"
        assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
        assert spec["minReadySeconds"] == 5

    def test_edges_can_be_held_back_from_an_update(self) -> None:
        assert edges(render(edge={"updateStrategy": {"partition": 1000}}))["updateStrategy"] == {
            "type": "RollingUpdate",
            "rollingUpdate": {"partition": 1000},
        }
        assert edges(render(edge={"updateStrategy": {"type": "OnDelete"}}))["updateStrategy"] == {"type": "OnDelete"}

    def test_edges_spread_over_nodes_and_zones(self) -> None:
        spread = edge_pod(render())["topologySpreadConstraints"]
        assert [each["topologyKey"] for each in spread] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
        for each in spread:
            assert each["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == "edge"

    def test_no_token_of_kubernetes_reaches_an_edge(self) -> None:
        objects = render()
        pod = edge_pod(objects)
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        account = find(objects, "ServiceAccount", "demo-meshgate")
        assert account["metadata"]["name"] == pod["serviceAccountName"]
        assert account["automountServiceAccountToken"] is False


class TestServices:
    def test_nobody_outside_the_cluster_reaches_it_unless_asked(self) -> None:
        for service in of_kind(render(listeners=LISTENERS), "Service"):
            assert service["spec"].get("type", "ClusterIP") == "ClusterIP"

    def test_one_load_balancer_carries_udp_and_tcp(self) -> None:
        objects = render(listeners=LISTENERS, service={"type": "LoadBalancer"})
        service = find(objects, "Service", "demo-meshgate")
        assert ports_of(service) == {
            "devices": (50, "UDP", "devices"),
            "apps": (5042, "TCP", "apps"),
            "quic": (5044, "UDP", "quic"),
        }
        assert service["spec"]["type"] == "LoadBalancer"
        assert service["spec"]["externalTrafficPolicy"] == "Local"  # the peer's own address reaches the edge

    def test_or_two_of_them_do(self) -> None:
        balancing = {"split": True, "annotations": {"a": "1", "b": "1"}, "udpAnnotations": {"b": "2"}}
        objects = render(listeners=LISTENERS, service=balancing)
        tcp, udp = find(objects, "Service", "-tcp"), find(objects, "Service", "-udp")
        assert ports_of(tcp).keys() == {"apps"}
        assert ports_of(udp).keys() == {"devices", "quic"}
        assert tcp["metadata"]["annotations"] == {"a": "1", "b": "1"}
        assert udp["metadata"]["annotations"] == {"a": "1", "b": "2"}

    def test_a_service_without_ports_is_none(self) -> None:
        objects = render(listeners=[LISTENERS[1]], service={"split": True})
        assert not [each for each in of_kind(objects, "Service") if each["metadata"]["name"].endswith("-udp")]

    def test_a_service_inside_the_cluster_says_nothing_of_outside(self) -> None:
        spec = find(render(service={"type": "ClusterIP"}), "Service", "demo-meshgate")["spec"]
        assert "externalTrafficPolicy" not in spec
        assert "loadBalancerSourceRanges" not in spec

    def test_a_load_balancer_can_be_closed_and_chosen(self) -> None:
        chosen = {"loadBalancerClass": "example.org/lb", "loadBalancerSourceRanges": ["10.0.0.0/8"]}
        spec = find(render(service={"type": "LoadBalancer", **chosen}), "Service", "demo-meshgate")["spec"]
        assert chosen.items() <= spec.items()

    def test_a_node_port_is_the_one_that_was_asked_for(self) -> None:
        service = find(render(listeners=LISTENERS, service={"type": "NodePort"}), "Service", "demo-meshgate")
        assert {each["name"]: each.get("nodePort") for each in service["spec"]["ports"]} == {
            "devices": 30050, "apps": None, "quic": None,
        }  # fmt: skip

    def test_every_edge_has_a_name_of_its_own(self) -> None:
        service = find(render(), "Service", "-edge")
        assert service["spec"]["clusterIP"] == "None"
        assert edges(render())["serviceName"] == service["metadata"]["name"]

    def test_the_management_port_is_no_peers_business(self) -> None:
        for service in of_kind(render(listeners=LISTENERS), "Service"):
            public = service["spec"].get("clusterIP") != "None"
            assert ("management" not in [each["name"] for each in service["spec"]["ports"]]) is public


class TestNumber:
    def test_a_fixed_number_is_the_sets(self) -> None:
        assert edges(render(edge={"replicas": 3}))["replicas"] == 3

    @pytest.mark.parametrize("kind", ["hpa", "keda"])
    def test_a_scaler_has_the_number_to_itself(self, kind: str) -> None:
        scaling = {"kind": kind, "keda": {"prometheusUrl": "http://prometheus:9090"}}
        assert "replicas" not in edges(render(edge={"autoscaling": scaling}))

    @pytest.mark.parametrize(("there", "wanted"), [(5, 5), (1, 3), (0, 3)])
    def test_turning_a_scaler_on_ends_no_edge(self, there: int, wanted: int, tmp_path: Path) -> None:
        """An upgrade that no longer says the number sets it to what Kubernetes takes for none, which is one."""
        scaling = {"kind": "hpa", "minReplicas": 3, "maxReplicas": 9}
        values = merged(LEAST, {"edge": {"autoscaling": scaling}})
        with api_with(NAMESPACE, f"{RELEASE}-meshgate-edge", {"replicas": there}, tmp_path) as kubeconfig:
            asking = ["--dry-run=server", "--kubeconfig", str(kubeconfig), "--values", "-"]
            text = template(helm_3(), CHART, *asking, values=json.dumps(values))
        assert edges(list(yaml.safe_load_all(text)))["replicas"] == wanted

    def test_cpu_makes_more_edges_quickly_and_fewer_slowly(self) -> None:
        scaling = {"kind": "hpa", "minReplicas": 3, "maxReplicas": 9, "cpuPercent": 60}
        spec = find(render(edge={"autoscaling": scaling}), "HorizontalPodAutoscaler")["spec"]
        assert (spec["minReplicas"], spec["maxReplicas"]) == (3, 9)
        assert spec["scaleTargetRef"]["kind"] == "StatefulSet"
        assert spec["metrics"][0]["resource"]["target"]["averageUtilization"] == 60
        down = spec["behavior"]["scaleDown"]
        assert down["stabilizationWindowSeconds"] == 900
        assert down["policies"] == [{"type": "Pods", "value": 1, "periodSeconds": 80}]  # the time one needs to drain

    @pytest.mark.parametrize("kind", ["hpa", "keda"])
    def test_an_edge_that_may_drain_for_long_is_scaled_by_a_period_that_kubernetes_takes(self, kind: str) -> None:
        scaling = {"kind": kind, "keda": {"prometheusUrl": "http://prometheus:9090"}}
        long = {"gracefulShutdownSeconds": 3600, "terminationGraceSeconds": 3700, "autoscaling": scaling}
        scaler = "HorizontalPodAutoscaler" if kind == "hpa" else "ScaledObject"
        spec = find(render(edge=long), scaler)["spec"]
        behavior = spec["behavior"] if kind == "hpa" else spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
        assert behavior["scaleDown"]["policies"][0]["periodSeconds"] == 1800

    def test_lag_makes_more_edges_with_keda(self) -> None:
        keda = {"prometheusUrl": "http://prometheus:9090", "lagRecords": 250}
        spec = find(render(mesh="m", edge={"autoscaling": {"kind": "keda", "keda": keda}}), "ScaledObject")["spec"]
        lag = spec["triggers"][1]
        assert lag["metadata"] == {
            "serverAddress": "http://prometheus:9090",
            "query": 'sum(meshgate_egress_lag_records{mesh="m"})',
            "threshold": "250",
        }
        assert lag["metricType"] == "AverageValue"

    @pytest.mark.parametrize("enabled", [True, False])
    def test_nodes_are_emptied_one_edge_at_a_time(self, enabled: bool) -> None:
        objects = render(edge={"podDisruptionBudget": {"enabled": enabled}})
        budgets = of_kind(objects, "PodDisruptionBudget")
        assert [each["spec"]["maxUnavailable"] for each in budgets] == ([1] if enabled else [])

    def test_edges_without_a_kafka_keep_no_node_from_being_emptied(self) -> None:
        budget = find(render(), "PodDisruptionBudget")["spec"]
        assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


class TestCertificates:
    WANTED = {"enabled": True, "issuer": {"name": "mesh", "kind": "ClusterIssuer"}}  # noqa: RUF012

    def certificates(self, **tls: Any) -> list[Object]:
        listener = {"name": "plc", "protocol": "hsp", "transport": "tls", "port": 5141, "tls": tls}
        return of_kind(render(certManager=self.WANTED, listeners=[listener]), "Certificate")

    def test_a_listener_gets_one_for_its_service_and_the_names_it_adds(self) -> None:
        (certificate,) = self.certificates(dnsNames=["mesh.example.org"])
        assert certificate["spec"]["dnsNames"] == [
            "mesh.example.org", "demo-meshgate", "demo-meshgate.mesh", "demo-meshgate.mesh.svc",
        ]  # fmt: skip
        assert certificate["spec"]["issuerRef"]["name"] == "mesh"
        assert certificate["spec"]["privateKey"]["rotationPolicy"] == "Always"

    def test_it_is_the_one_that_edges_mount(self) -> None:
        (certificate,) = self.certificates()
        listener = {"name": "plc", "protocol": "hsp", "transport": "tls", "port": 5141}
        pod = edge_pod(render(certManager=self.WANTED, listeners=[listener]))
        (volume,) = [each for each in pod["volumes"] if each["name"] == "tls-plc"]
        assert volume["secret"]["secretName"] == certificate["spec"]["secretName"]

    def test_one_that_is_there_already_is_left_alone(self) -> None:
        assert self.certificates(secret="mine") == []


class TestHostNetwork:
    def test_an_edge_on_its_nodes_ports_still_finds_the_clusters_names(self) -> None:
        pod = edge_pod(render(edge={"hostNetwork": True}))
        assert pod["hostNetwork"] is True
        assert pod["dnsPolicy"] == "ClusterFirstWithHostNet"

    def test_it_keeps_its_number_and_so_its_egress_partition(self) -> None:
        objects = render(edge={"hostNetwork": True})
        assert edges(objects)["serviceName"] == "demo-meshgate-edge"
        names = [each["name"] for each in edge_pod(objects)["containers"][0]["env"]]
        assert "MESHGATE_EDGE_ID" in names

    def test_no_other_pod_leaves_the_clusters_network(self) -> None:
        objects = render(edge={"hostNetwork": True})
        assert "hostNetwork" not in find(objects, "StatefulSet", "-router")["spec"]["template"]["spec"]
        assert not {"hostNetwork", "dnsPolicy"} & edge_pod(render()).keys()
