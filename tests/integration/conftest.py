"""One mesh for the whole run: starting Kafka and Spark costs more than all the tests that use them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest
from cryptography import x509

from tests.collector import Collector, collecting
from tests.integration.emm_peer import Device
from tests.integration.mesh import Settings, TestMesh, running_mesh
from tests.integration.xmpp.prosody import Prosody
from tests.unit.edge.certificates import Authority

FOREIGN_TYPES = {
    17: "foreign.event",
    18: {"subject": "foreign.ask", "kind": "request", "reply_type": 19},
    20: "mesh.subscribe",
    21: {"subject": "foreign.serve", "kind": "request", "reply_type": 22},
}
DOMAIN, COMPONENT_SECRET = "mesh.localhost", "of the component"
LISTENERS: list[dict[str, object]] = [
    {"name": "devices", "protocol": "emm", "scheme": "udp"},
    {"name": "open", "protocol": "emm", "scheme": "udp", "unauthenticated": "accept", "encryption": "open"},
    {"name": "emp", "protocol": "emp"},
    {
        "name": "hsp",
        "protocol": "hsp",
        "types": {17: "temp.high", 18: {"subject": "orders.create", "kind": "request", "reply_type": 19}},
    },
    {"name": "careful", "protocol": "hsp", "ack": "delivered", "types": {17: "temp.high"}},
    {
        "name": "terminal",
        "protocol": "hsp",
        "types": FOREIGN_TYPES,
        "serve": ["foreign.serve"],
    },
    {"name": "yamp", "protocol": "yamp"},
    {"name": "web", "protocol": "yamp", "scheme": "ws"},
    {"name": "wolpertinger", "protocol": "wolpertinger"},
    {"name": "wolpertinger-web", "protocol": "wolpertinger", "scheme": "ws"},
    {
        "name": "xmpp",
        "protocol": "wolpertinger",
        "scheme": "xmpp",
        "xmpp": {"domain": DOMAIN, "secret": COMPONENT_SECRET},
    },
]
OPERATOR, OPERATOR_TOKEN = "alice", "the-token-of-alice-1"
TOKEN_SECRET = "0123456789abcdef0123456789abcdef"
EDGES_AT_MOST = 4
UNTRACED_SHARE = 1e-18


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker("integration")
    # kafka-python forgets a socket that it is connecting when it is closed.
    item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session", autouse=True)
def class_archive() -> Iterator[None]:
    """Writes the class archive: meshes start sooner with it, and none of these is at rest for long enough to do so."""
    with subprocess.Popen([sys.executable, "-m", "streaming_jobs.spark.image_cache", "connector"]):
        yield


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Returns who signs the certificates of this run."""
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def collector() -> Iterator[Collector]:
    """Collects the spans of this run."""
    with collecting() as running:
        yield running


@pytest.fixture(scope="session")
def mesh(tmp_path_factory: pytest.TempPathFactory, authority: Authority, collector: Collector) -> Iterator[TestMesh]:
    """What brings a trace context is traced, and nothing else."""
    tls = authority.signs("mesh") | {"client_ca": str(authority.ca)}
    listeners: list[dict[str, object]] = [
        *LISTENERS,
        {"name": "secret", "protocol": "emm", "scheme": "quic", "tls": tls},
        {"name": "wolpertinger-tls", "protocol": "wolpertinger", "scheme": "tls", "tls": tls},
        {"name": "plant", "protocol": "hsp", "scheme": "tls", "tls": tls, "redeliver_seconds": 60},
    ]
    settings: Settings = {
        "edge": {"operators": {OPERATOR: OPERATOR_TOKEN}},
        "auth": {"tokens": {"secret": TOKEN_SECRET, "audience": "test"}},
        "kafka": {"topics": {"egress": {"partitions": EDGES_AT_MOST}}},
        "telemetry": {"traces": {"endpoint": collector.endpoint, "share": UNTRACED_SHARE}},
    }
    with running_mesh(tmp_path_factory.mktemp("mesh"), listeners, settings) as running:
        yield running


@pytest.fixture(scope="session")
def prosody(mesh: TestMesh, authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prosody]:
    """It comes up long after the mesh, which has dialled it ever since."""
    folder, certificate = tmp_path_factory.mktemp("prosody"), authority.signs("prosody", x509.DNSName("localhost"))
    server = Prosody(folder, DOMAIN, COMPONENT_SECRET, mesh.ports["xmpp"], certificate)
    server.start()
    server.wait_for_component(1)
    yield server
    server.stop()


@pytest.fixture
def stranger(mesh: TestMesh) -> Iterator[Device]:
    """Returns a device that the mesh does not know."""
    with closing(Device(mesh.ports["devices"])) as one:
        yield one


@pytest.fixture
def device(mesh: TestMesh) -> Iterator[Device]:
    """Returns a device with a key that the mesh believes; it has not said hello."""
    with closing(Device(mesh.ports["devices"]).trusted_by(mesh)) as one:
        yield one
