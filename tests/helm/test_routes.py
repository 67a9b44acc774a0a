"""Routes of the Gateway API: one for each listener that the Services carry, to the port that they carry it on."""

from __future__ import annotations

from typing import Any

import yaml

from tests.helm.chart import CHART, Object, find, merged, refusal, render, render_exactly
from tests.helm.schemas import faults

VALUES: dict[str, Any] = yaml.safe_load((CHART / "ci" / "routes-values.yaml").read_text())
KINDS = ("UDPRoute", "TCPRoute", "HTTPRoute")


def routes(**values: Any) -> dict[str, Object]:
    objects = render_exactly(merged(VALUES, values))
    return {each["metadata"]["name"]: each for each in objects if each["kind"] in KINDS}


def test_each_listener_of_the_service_has_a_route_of_its_kind() -> None:
    assert {name: each["kind"] for name, each in routes().items()} == {
        "demo-meshgate-devices": "UDPRoute",
        "demo-meshgate-apps": "TCPRoute",
        "demo-meshgate-web": "HTTPRoute",
        "demo-meshgate-plc": "TCPRoute",  # the edge ends its TLS itself
    }
    assert {each["apiVersion"] for each in routes().values()} == {"gateway.networking.k8s.io/v1"}


def test_quic_is_carried_by_datagrams_and_a_websocket_with_tls_by_a_stream() -> None:
    tls = {"secret": "certificate"}
    listeners = [
        {"name": "quic", "protocol": "emm", "transport": "quic", "port": 5051, "tls": tls},
        {"name": "wss", "protocol": "yamp", "transport": "wss", "port": 8443, "tls": tls},
    ]
    assert {each["kind"] for each in routes(listeners=listeners).values()} == {"UDPRoute", "TCPRoute"}
    assert routes(listeners=listeners)["demo-meshgate-quic"]["kind"] == "UDPRoute"


def test_a_route_leads_to_a_port_that_its_service_has() -> None:
    objects = render_exactly(VALUES)
    for name, route in routes().items():
        ((backend,),) = [rule["backendRefs"] for rule in route["spec"]["rules"]]
        service = find(objects, "Service", backend["name"])
        (port,) = [each for each in service["spec"]["ports"] if each["port"] == backend["port"]]
        assert name == f"demo-meshgate-{port['name']}"


def test_a_route_attaches_to_the_gateways_listener_of_the_same_name_unless_another_is_named() -> None:
    parent = {"name": "mesh", "namespace": "gateways"}
    assert routes()["demo-meshgate-apps"]["spec"]["parentRefs"] == [{**parent, "sectionName": "apps"}]
    named = routes(routes={"parentRefs": [{**parent, "sectionName": "all"}]})
    assert [each["spec"]["parentRefs"][0]["sectionName"] for each in named.values()] == ["all"] * 4


def test_a_websocket_is_found_by_name_and_path_and_never_times_out() -> None:
    spec = routes()["demo-meshgate-web"]["spec"]
    assert spec["hostnames"] == ["mesh.example.org"]
    assert spec["rules"][0]["matches"] == [{"path": {"type": "Exact", "value": "/mesh"}}]
    assert spec["rules"][0]["timeouts"] == {"request": "0s"}
    (port,) = [
        each for each in find(render_exactly(VALUES), "Service", "-tcp")["spec"]["ports"] if each["name"] == "web"
    ]
    assert port["appProtocol"] == "kubernetes.io/ws"


def test_only_a_route_for_http_has_host_names() -> None:
    assert [name for name, each in routes().items() if "hostnames" in each["spec"]] == ["demo-meshgate-web"]


def test_there_are_none_unless_asked_for() -> None:
    assert not [each for each in render() if each["kind"] in KINDS]


def test_routes_without_a_gateway_are_refused() -> None:
    assert "routes.parentRefs: say which Gateway" in refusal(routes={"enabled": True})


def test_a_field_that_no_route_has_is_noticed() -> None:
    route = routes()["demo-meshgate-devices"]
    assert faults(route) == []
    assert "matches" in faults(merged(route, {"spec": {"rules": [{"backendRefs": [], "matches": []}]}}))[0]
