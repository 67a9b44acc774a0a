"""Disasters of k8s/OPERATE.md: which alert fires, whether the page's commands work as written, what the audit says.

    tests/cluster/run --game-day

Each disaster is done to a mesh that an operator's Prometheus watches. The page's commands are taken out of the page.
`steps.py` has the disasters that nobody watches.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from kafka import KafkaAdminClient

from streaming_jobs.router_job.checkpoint import FORMAT, VERSION_FILE
from tests.cluster.alarms import Alarms, watching
from tests.cluster.release import NAME, Release, until
from tests.cluster.steps import audit, broker, counts, install, kept, nothing_lost

ROUTER = f"{NAME}-router-0"
Disaster = Callable[[Release, Alarms], Iterator[str]]


def foreign_checkpoint(release: Release, alarms: Alarms) -> Iterator[str]:
    """The checkpoint is of another format. The page says: remove it, as one that is lost."""
    with release.load() as run:
        (checkpoint(release) / VERSION_FILE).write_text(json.dumps({"format": FORMAT + 1, "begun_by": "9.9.9"}))
        release.node.kubectl("delete", "pod", ROUTER, "--now")
        yield alarms.wait("MeshgateRouterDown")
        yield last_words(release, f"has format {FORMAT + 1}")
        release.as_written("The checkpoint is lost")
        release.ready(ROUTER)
        alarms.wait_over("MeshgateRouterDown")
    yield from nothing_lost(run)


def interests_lost(release: Release, alarms: Alarms) -> Iterator[str]:
    """The topic is gone. The router must go on, and peers that subscribe anew must be heard."""
    config = release.config()
    admin = KafkaAdminClient(**config.kafka.client_settings())
    admin.delete_topics([config.topic("interests")])
    admin.close()
    begun = time.monotonic()
    release.upgrade()
    release.node.kubectl("rollout", "restart", f"statefulset/{NAME}-edge")
    release.rolled_out("edge")
    with release.load() as run:
        pass
    yield from nothing_lost(run)
    yield f"went off: {', '.join(sorted(alarms.went_off(begun))) or 'nothing'}"


def kafka_away(release: Release, alarms: Alarms) -> Iterator[str]:
    """The page says that there is nothing to do: when Kafka is back, all goes on by itself."""
    begun = time.monotonic()
    with release.load() as run:
        release.node.kubectl("scale", "statefulset/kafka", "--replicas", "0")
        release.node.kubectl("wait", "--for=delete", "pod/kafka-0", "--timeout", "2m")
        yield alarms.wait("MeshgateKafkaSilent")
        release.node.kubectl("scale", "statefulset/kafka", "--replicas", "1")
        release.node.kubectl("rollout", "status", "statefulset/kafka", "--timeout", "5m")
        release.rolled_out("edge")
        release.ready(ROUTER)
        alarms.wait_over("MeshgateKafkaSilent")
    kept(run)
    yield counts(run)
    yield f"went off: {', '.join(sorted(alarms.went_off(begun))) or 'nothing'}"


def edge_killed(release: Release, alarms: Alarms) -> Iterator[str]:
    """Kills an edge as when its node dies, without a goodbye. Its peers reconnect to the other edge."""
    begun = time.monotonic()
    with release.load() as run:
        release.node.kubectl("delete", "pod", f"{NAME}-edge-0", "--grace-period", "0", "--force")
        release.ready(f"{NAME}-edge-0")
    kept(run)
    yield counts(run)
    yield f"went off: {', '.join(sorted(alarms.went_off(begun))) or 'nothing'}"


DISASTERS: tuple[Disaster, ...] = (edge_killed, foreign_checkpoint, kafka_away, interests_lost)


def checkpoint(release: Release) -> Path:
    """Returns the folder on the node that is the router's volume."""
    get = ("get", "pvc", f"{NAME}-checkpoint", "--output", "jsonpath={.spec.volumeName}")
    volume = release.node.kubectl(*get)
    folder = Path(release.node.kubectl("get", "pv", volume, "--output", "jsonpath={.spec.local.path}"))
    return next(path.parent for path in folder.rglob(VERSION_FILE))


def last_words(release: Release, words: str) -> str:
    """Returns the line of the router's log that says why it ended, by the commands of the runbook."""

    def line() -> str:
        logs = [
            release.node.kubectl("logs", ROUTER, "--container", "router", *previous, check=False)
            for previous in ([], ["--previous"])
        ]
        return next((each for log in logs for each in log.splitlines() if words in each), "")

    until(f"the router says that something {words}; {release.state()}", lambda: bool(line()), 120)
    return line()[-300:]


def steps(release: Release, prometheus: Path) -> Iterator[tuple[str, Callable[[], Iterator[str]]]]:
    """Yields what is done, in order: a mesh, a Prometheus, and an audit after each disaster."""
    release.values["router.standby"] = "false"  # its disasters are those of the only router
    for step in (broker, install):
        yield step.__name__, partial(step, release)
    with watching(release.node, prometheus) as alarms:
        for disaster in DISASTERS:
            yield disaster.__name__, partial(disaster, release, alarms)
            yield "audit", partial(audit, release)
