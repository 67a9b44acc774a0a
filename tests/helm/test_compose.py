"""gateway/compose.yaml: the format's own schema, closed to strangers, and every part finds the others."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema.validators import validator_for

from gateway import __version__
from gateway.config import Config, parse
from gateway.config.exposure import openings
from gateway.core.address import is_loopback
from gateway.demo.traffic import addresses_of
from gateway.protocols import protocols
from helm.dashboards.panels import DATASOURCE
from helm.dashboards.runbooks import READ_AT
from tests.helm.chart import CHART

FOLDER = CHART.parents[1] / "gateway"
TEXT = (FOLDER / "compose.yaml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
BUILT = {service["image"]: service for service in SERVICES.values() if "build" in service}
OURS = {"prepare", "broker", "edge", "router", "demo", "docs"}
MESH = "/etc/meshgate/config/meshgate.yaml"
EACH = pytest.mark.parametrize("name", SERVICES)


def compose_faults(document: Any) -> list[str]:
    schemas = resources.files("check_jsonschema").joinpath("builtin_schemas", "vendor")
    schema = json.loads(schemas.joinpath("compose-spec.json").read_text())
    return [error.message for error in validator_for(schema)(schema).iter_errors(document)]


def mounts(name: str) -> dict[str, str]:
    """Returns what is mounted into a service, by where: a file of ours, or a volume's name."""
    pairs = [each.removesuffix(":ro").rpartition(":") for each in SERVICES[name].get("volumes", ())]
    return {target: source for source, _, target in pairs}


def source(name: str, target: str) -> Path:
    return (FOLDER / mounts(name)[target]).resolve()


def config_of(name: str) -> Config:
    return parse(source(name, MESH).read_text(), Path(MESH))


def command_of(name: str) -> str:
    command = SERVICES[name]["command"]
    return command if isinstance(command, str) else " ".join(command)


class TestFile:
    def test_it_is_what_the_format_allows(self) -> None:
        assert compose_faults(COMPOSE) == []

    def test_a_misspelt_key_is_noticed(self) -> None:
        assert compose_faults({**COMPOSE, "services": {"edge": {**SERVICES["edge"], "comand": []}}})

    @EACH
    def test_every_file_that_is_mounted_is_there_and_every_volume_is_declared(self, name: str) -> None:
        for target, given in mounts(name).items():
            if given.startswith("."):
                assert source(name, target).exists(), given
            else:
                assert given in COMPOSE["volumes"]

    @EACH
    def test_images_are_pinned_and_ours_are_built_from_our_files(self, name: str) -> None:
        repository, _, tag = SERVICES[name]["image"].rpartition(":")
        assert re.fullmatch(r"v?\d+\.\d+\.\d+", tag), name
        if name in OURS:
            build = BUILT[SERVICES[name]["image"]]["build"]
            dockerfile = (FOLDER / build["context"] / build["dockerfile"]).resolve()
            assert tag == __version__
            assert f"-t {repository} " in f"{dockerfile.read_text()} "
            assert "target" not in build or f" AS {build['target']}\n" in dockerfile.read_text()

    def test_an_image_of_ours_is_built_once_and_never_fetched(self) -> None:
        """In a public registry, who has its name could be anybody."""
        builders = [name for name in OURS if "build" in SERVICES[name]]
        assert {SERVICES[name]["image"] for name in OURS} == set(BUILT)
        assert len(builders) == len(BUILT)
        for name in OURS:
            assert SERVICES[name]["pull_policy"] == ("build" if name in builders else "never")

    @EACH
    def test_no_service_has_more_rights_than_it_needs(self, name: str) -> None:
        service = SERVICES[name]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert not service.get("privileged")
        if name in OURS:
            assert service["read_only"] is True
        assert service.get("cap_add", []) == (["CHOWN", "DAC_OVERRIDE"] if name == "prepare" else [])
        assert service.get("user") == ("0:0" if name == "prepare" else None)

    @EACH
    def test_ports_are_published_on_this_machine_alone(self, name: str) -> None:
        assert [port for port in SERVICES[name].get("ports", ()) if not port.startswith("127.0.0.1:")] == []

    @EACH
    def test_whatever_a_service_waits_for_says_when_it_is_there(self, name: str) -> None:
        waits = SERVICES[name].get("depends_on", {})
        for other, how in waits.items() if isinstance(waits, dict) else ():
            assert other in SERVICES
            if how["condition"] == "service_healthy":
                assert SERVICES[other]["healthcheck"]["test"][0] == "CMD"


class TestMesh:
    def test_edge_router_and_demo_have_one_configuration(self) -> None:
        assert source("edge", MESH) == source("router", MESH) == source("demo", MESH)
        for name in ("edge", "router", "demo", "broker"):
            assert MESH in command_of(name)

    def test_clients_find_the_broker_where_it_listens(self) -> None:
        broker = config_of("broker").kafka
        assert broker.is_embedded
        assert str(broker.listen) == config_of("edge").kafka.bootstrap
        assert broker.listen.host == SERVICES["broker"]["hostname"] == "broker"

    def test_the_trust_store_is_made_before_anybody_reads_it(self) -> None:
        trust = config_of("router").trust.resolve()
        assert str(trust) in command_of("prepare")
        assert {mounts(name)[str(trust.parent)] for name in ("prepare", "router", "demo")} == {"trust"}
        assert str(trust.parent) not in mounts("edge")  # an edge judges nobody

    def test_the_router_keeps_its_checkpoint_in_a_volume(self) -> None:
        assert mounts("router")[str(config_of("router").router.checkpoint.parent)] == "router"

    @pytest.mark.parametrize("part", ["edge", "router"])
    def test_the_health_check_asks_where_the_part_listens(self, part: str) -> None:
        management = getattr(config_of(part), part).management
        (asked,) = re.findall(r"http://([^/']+)/healthz/ready", SERVICES[part]["healthcheck"]["test"][-1])
        assert asked in (str(management), str(management.reachable))

    def test_verbs_that_are_run_in_the_edge_find_the_configuration(self) -> None:
        assert SERVICES["edge"]["environment"] == {"MESHGATE_CONFIG": MESH}

    def test_the_edges_page_finds_the_router(self) -> None:
        assert config_of("edge").router.management.host == SERVICES["router"]["hostname"]

    def test_every_port_that_is_published_leads_to_a_listener_that_binds_all_addresses(self) -> None:
        config = config_of("edge")
        open_ports = {f"{each.address.port}/udp" if each.address.scheme == "udp" else str(each.address.port)
                      for each in config.listeners if each.is_exposed}  # fmt: skip
        open_ports.add(str(config.edge.management.port))
        published = [port.split(":") for port in SERVICES["edge"]["ports"]]
        assert {inside for _, _, inside in published} == open_ports
        # The page offers browsers the port that the listener has.
        assert all(outside == inside.removesuffix("/udp") for _, outside, inside in published)


class TestDemo:
    def test_it_reaches_a_listener_of_every_protocol_from_within_the_edges_network(self) -> None:
        assert SERVICES["demo"]["network_mode"] == "service:edge"
        addresses = addresses_of(config_of("demo"))
        assert addresses.keys() == protocols().keys()
        for address in addresses.values():
            assert is_loopback(address.partition("://")[2].rpartition(":")[0]), address

    def test_its_devices_may_add_their_keys(self) -> None:
        (mount,) = [each for each in SERVICES["demo"]["volumes"] if each.startswith("trust:")]
        assert not mount.endswith(":ro")

    def test_from_outside_strangers_may_watch_it_in_a_browser_and_do_nothing_else(self) -> None:
        config = config_of("edge")
        opened = {config.listeners[at].name: may for at, may in openings(config).items()}
        assert opened == {"public-browser": "subscribe"}
        (rule,) = [each for each in config.permissions if each.listeners == ("public-browser",)]
        assert rule.subscribe is not None
        assert rule.subscribe.allow == ("demo.>",)


class TestNumbers:
    def test_prometheus_asks_every_part_under_its_services_name(self) -> None:
        settings = yaml.safe_load(source("prometheus", "/etc/prometheus/prometheus.yml").read_text())
        (job,) = settings["scrape_configs"]
        (targets,) = [each["targets"] for each in job["static_configs"]]
        config = config_of("edge")
        ports = {"edge": config.edge.management.port, "router": config.router.management.port}
        assert targets == [f"{name}:{port}" for name, port in ports.items()]
        (rules,) = settings["rule_files"]
        assert source("prometheus", rules.rpartition("/")[0]) == CHART / "alerts"

    def test_grafana_has_the_charts_dashboards_and_finds_prometheus(self) -> None:
        provisioning = source("grafana", "/etc/grafana/provisioning")
        (sources,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yaml").read_text())["datasources"]
        assert sources["url"] == "http://prometheus:9090"
        assert sources["type"] == DATASOURCE["type"]
        (provider,) = yaml.safe_load((provisioning / "dashboards" / "meshgate.yaml").read_text())["providers"]
        assert source("grafana", provider["options"]["path"]) == CHART / "dashboards"
        home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
        assert (CHART / "dashboards" / Path(home).name).exists()

    def test_the_panels_lead_to_the_documentation_that_is_served(self) -> None:
        (port,) = SERVICES["docs"]["ports"]
        assert READ_AT.startswith(f"http://127.0.0.1:{port.split(':')[1]}/")
        assert f"http.server {port.split(':')[2]} " in command_of("docs")
        assert source("docs", SERVICES["docs"]["working_dir"]) == CHART.parents[1]

    def test_nobody_may_change_anything_in_grafana(self) -> None:
        environment = SERVICES["grafana"]["environment"]
        assert environment["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
        assert environment["GF_AUTH_DISABLE_LOGIN_FORM"] == "true"
