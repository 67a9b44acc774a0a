"""The steps that are done to the mesh, in this order, and what must hold.

A step says what it found, or raises AssertionError.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import yaml
from kafka import KafkaAdminClient

from tests.cluster.images import NEXT
from tests.cluster.load import FIXED, FRESH, TCP, longest_silence
from tests.cluster.node import Node
from tests.cluster.programs import definitions
from tests.cluster.release import CHART, NAME, Release, Run, until

FRESH_LOST, FIXED_LOST = 0, 2
"""Datagrams that a rolling restart may cost: none from new ports, a few from a port that the network remembers."""
PRIORITY = "mesh"
ROUTERS = (f"{NAME}-router-0", f"{NAME}-router-1")
CONFIG = "/etc/meshgate/config/meshgate.yaml"
Step = Callable[[Release], Iterator[str]]


UNDEFINED = {"Kafka", "KafkaNodePool", "KafkaTopic", "KafkaUser", "SparkApplication"}
"""Of operators whose definitions are in no registry."""


def accepted(release: Release) -> Iterator[str]:
    """Everything that the chart can make, by the API server itself and by what operators define."""
    kubectl = release.node.kubectl
    kubectl("apply", "--server-side", "--recursive", "--filename", str(definitions()))
    kubectl("create", "priorityclass", PRIORITY, "--value", "1000")  # examples name it; the chart makes none
    count = 0
    for values in sorted((CHART / "ci").glob("*-values.yaml")):
        made = [one for one in yaml.safe_load_all(release.rendered(values)) if one and one["kind"] not in UNDEFINED]
        kubectl("apply", "--dry-run=server", "--validate=strict", "--filename", "-", text=yaml.safe_dump_all(made))
        count += len(made)
    yield f"{count} objects, also those for cert-manager, KEDA, Prometheus and the Gateway API"


def broker(release: Release) -> Iterator[str]:
    release.prepare()
    yield "namespace under Pod Security `restricted`, a broker, the trust store"


def install(release: Release) -> Iterator[str]:
    release.install()
    yield pods(release.node)


def helm_test(release: Release) -> Iterator[str]:
    said = release.test()
    checks = [line for line in said.splitlines() if line.startswith(("ok ", "FAILED "))]
    yield f"{len(checks)} checks ok"


def traffic(release: Release) -> Iterator[str]:
    with release.load() as run:
        pass
    yield from nothing_lost(run)


def rolling_restart(release: Release) -> Iterator[str]:
    with release.load() as run:
        release.node.kubectl("rollout", "restart", f"statefulset/{NAME}-edge")
        release.rolled_out("edge")
    yield from restarted(run)


def driver_deleted(release: Release) -> Iterator[str]:
    """At once: it has a second to say goodbye. The standby takes over, and the successor stands by."""
    with release.load() as run:
        active = release.active_router()
        release.node.kubectl("delete", "pod", active, "--now")
        for pod in ROUTERS:
            release.ready(pod)
        if (now := release.active_router()) == active:
            raise AssertionError(f"{active} routes again, and not the standby")
    yield from nothing_lost(run)
    yield f"{now} routes instead of {active}"


def upgrade(release: Release) -> Iterator[str]:
    with release.load() as run:
        release.upgrade(images__edge__tag=NEXT, images__router__tag=NEXT)
    yield from restarted(run)


def more_partitions(release: Release) -> Iterator[str]:
    """The two commands of k8s/OPERATE.md."""
    with release.load() as run:
        release.upgrade(wait=False, kafka__partitions=4, edge__updateStrategy__partition=1000)
        release.rolled_out("router")
        release.upgrade(wait=False, kafka__partitions=4, edge__updateStrategy__partition=0)
        release.rolled_out("edge")
    yield from restarted(run)
    with release.load() as run:
        pass
    yield from nothing_lost(run)


def more_edges(release: Release) -> Iterator[str]:
    with release.load() as run:
        release.upgrade(edge__replicas=3)
        release.upgrade(edge__replicas=2)
        release.node.kubectl("wait", "--for=delete", f"pod/{NAME}-edge-2", "--timeout", "5m")
    yield from restarted(run)


def audit(release: Release) -> Iterator[str]:
    """Where k8s/OPERATE.md says that questions are asked: in the router's pod, beside its own work."""
    in_the_pod = ("exec", f"{NAME}-router-0", "--container", "router", "--", "meshgate")
    said = json.loads(release.node.kubectl(*in_the_pod, "audit", "-c", CONFIG, "--output", "json"))
    yield f"balanced: {said['events']} events of {said['frames']} frames, {said['destinations']} deliveries"


def checkpoint_lost(release: Release) -> Iterator[str]:
    """The commands of k8s/OPERATE.md."""
    before = release.events()
    with release.load() as run:
        lose_checkpoint(release)
        release.upgrade()
        release.rolled_out("router")
    yield from nothing_lost(run)
    after = release.events()
    gone = [(name, stream) for name in before for stream in before[name] if before[name][stream] - after[name][stream]]
    if gone:
        raise AssertionError(f"no longer among the events: {gone}")
    yield "events of before are all there"


def raw_topic_lost(release: Release) -> Iterator[str]:
    config = release.config()
    admin = KafkaAdminClient(**config.kafka.client_settings())
    admin.delete_topics([config.topic("raw")])
    admin.close()
    lose_checkpoint(release)
    release.upgrade()
    release.rolled_out("router")
    with release.load() as run:
        pass
    yield from nothing_lost(run)


def lose_checkpoint(release: Release) -> None:
    kubectl = release.node.kubectl
    kubectl("delete", "pvc", f"{NAME}-checkpoint", "--wait=false")
    kubectl("delete", "pod", "-l", f"app.kubernetes.io/instance={NAME},app.kubernetes.io/component=router")
    kubectl("wait", "--for=delete", f"pvc/{NAME}-checkpoint", "--timeout", "5m")


def uninstall(release: Release) -> Iterator[str]:
    release.uninstall()
    parts = f"app.kubernetes.io/instance={NAME},app.kubernetes.io/component in (edge,router)"
    release.node.kubectl("wait", "--for=delete", "pod", "-l", parts, "--timeout", "5m")
    left = release.node.kubectl(
        "get",
        "all,configmap,pvc,networkpolicy,pdb,serviceaccount",
        "-l",
        f"app.kubernetes.io/instance={NAME}",
        "-o",
        "name",
    )
    kept = [f"persistentvolumeclaim/{NAME}-checkpoint"]
    tests = [line for line in left.split() if "-test-" in line or line.endswith("-tests")]
    if sorted(left.split()) != sorted([*kept, *tests]):
        raise AssertionError(f"left behind: {left}")
    yield "left: the checkpoint's claim"


def executors(release: Release) -> Iterator[str]:
    """Installed anew, with the work in a pod of its own; its claim is another's to share."""
    release.node.kubectl("delete", "pvc", f"{NAME}-checkpoint")
    release.values |= {
        "router.standby": "false", "router.checkpoint.accessMode": "ReadWriteMany",
        "router.executors.count": 1, "router.executors.taskSlots": 8, "router.executors.cpu": "250m",
        "router.executors.memory": "1g", "router.executors.memoryOverhead": "1g",
    }  # fmt: skip
    release.install()
    yield pods(release.node)
    yield from helm_test(release)
    with release.load() as run:
        release.node.kubectl("delete", "pod", "-l", "app.kubernetes.io/component=executor", "--now")
        until("another executor is there", lambda: "1 executor" in pods(release.node))
    yield from nothing_lost(run)


STEPS: tuple[Step, ...] = (
    broker, accepted, install, helm_test, traffic, rolling_restart, driver_deleted, upgrade, more_edges,
    more_partitions, audit, checkpoint_lost, raw_topic_lost, uninstall, executors,
)  # fmt: skip


def nothing_lost(run: Run) -> Iterator[str]:
    """No edge was touched: everything that was sent has come, once, on one session."""
    kept(run)
    lost = {stream: run.lost(stream) for stream in (FRESH, FIXED, TCP) if run.lost(stream)}
    if lost:
        raise AssertionError(f"lost: {lost}")
    if run.record.subscriptions == 1 and (missing := run.undelivered()):
        raise AssertionError(f"accepted, and not delivered: {missing[:20]}")
    yield counts(run)


def restarted(run: Run) -> Iterator[str]:
    """Edges were replaced: who connects again has lost nothing."""
    kept(run)
    for stream, allowed in ((FRESH, FRESH_LOST), (FIXED, FIXED_LOST)):
        if len(run.lost(stream)) > allowed:
            raise AssertionError(f"{stream}: lost {run.lost(stream)} of {run.record.sent[stream]}\n{counts(run)}")
    yield counts(run)


def kept(run: Run) -> None:
    if unkept := run.unkept():
        raise AssertionError(f"acknowledged, and lost: {unkept[:20]}")
    if doubled := run.doubled():
        raise AssertionError(f"delivered twice: {doubled[:20]}")


def counts(run: Run) -> str:
    record = run.record
    lost = ", ".join(
        f"{stream} {len(run.lost(stream))} of {record.sent[stream]} lost" for stream in (FRESH, FIXED, TCP)
    )
    silences = f"{longest_silence(record.acknowledged_at):.1f} s without an acknowledgement"
    silences += f", {longest_silence(record.received_at):.1f} s without an event"
    return f"{lost}; {record.sessions} sessions, {record.refused} ended or refused; at most {silences}"


def pods(node: Node) -> str:
    """Those that run, by what they are."""
    found: dict[str, int] = {}
    for pod in node.get("pods"):
        labels = pod["metadata"]["labels"]
        if pod["status"]["phase"] == "Running":
            part = labels.get("app.kubernetes.io/component", labels.get("app.kubernetes.io/name", "?"))
            found[part] = found.get(part, 0) + 1
    return ", ".join(f"{count} {part}" for part, count in sorted(found.items()))
