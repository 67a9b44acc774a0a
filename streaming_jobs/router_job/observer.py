"""Collects the router's slow metrics on a thread of its own.

These are Kafka's end offsets, the interests that hold, the JVM, the keys in force, and the router's own latency.

The probe is a frame of the mesh in the raw log, one for each lane; it goes through the Python pass, the dedup and the
sink like every frame, and comes back in the compacted topic `interests`, which is read here anyway. It also gives an
idle lane under micro-batch something to commit. Until the probe of each lane has come back once, the router is not
ready.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from gateway.auth.trust_store import TrustStore
from gateway.config import Config
from gateway.core.clock import now_us
from gateway.interests.interest import Verb
from gateway.interests.records import apply_record, read_probe
from gateway.interests.table import InterestTable
from gateway.kafka.interest_reader import InterestReader
from streaming_jobs.router_job.jvm import JvmMetrics
from streaming_jobs.router_job.key_times import KEY_STATES, key_state, next_key_end, next_node_end
from streaming_jobs.router_job.metrics import RouterMetrics
from streaming_jobs.router_job.probes import new_token, probe_record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
PROBE_SECONDS = 15.0
"""Four records a minute and lane."""
POLL_MILLISECONDS = 500
RETRY_SECONDS = 5.0


class Observer:
    """Observes the router. Call `start` when the lanes run, and `stop` before Spark ends.

    A thread of its own asks the JVM: one that stands still must not hide what piles up meanwhile.
    """

    def __init__(self, config: Config, metrics: RouterMetrics, spark: SparkSession, jvm: JvmMetrics) -> None:
        self._config, self._metrics = config, metrics
        self._spark, self._jvm = spark, jvm
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch, name="observer", daemon=True),
            threading.Thread(target=self._look_inside, name="jvm", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(RETRY_SECONDS)

    def _watch(self) -> None:
        """Whatever fails is tried again: the router goes on without us."""
        while not self._stopping.is_set():
            try:
                with _Clients(self._config) as clients:
                    _Watch(self._config, self._metrics, clients).run(self._stopping)
            except Exception as failed:
                log.warning("not observed for %.0f s: %s: %s", RETRY_SECONDS, type(failed).__name__, failed)
                self._stopping.wait(RETRY_SECONDS)

    def _look_inside(self) -> None:
        while not self._stopping.is_set():
            try:
                self._jvm.sample(self._spark)
            except Exception as failed:
                log.warning("the JVM does not answer: %s: %s", type(failed).__name__, failed)
            self._stopping.wait(LOOK_SECONDS)


class _Clients:
    def __init__(self, config: Config) -> None:
        settings = config.kafka.client_settings()
        self.consumer = KafkaConsumer(**settings, enable_auto_commit=False, auto_offset_reset="earliest")
        self.producer = KafkaProducer(**settings, acks="all", metrics_enabled=False)

    def __enter__(self) -> _Clients:
        return self

    def __exit__(self, *_: object) -> None:
        self.consumer.close()
        self.producer.close(0)


class _Watch:
    """One life of the clients. The interests are read anew in each."""

    def __init__(self, config: Config, metrics: RouterMetrics, clients: _Clients) -> None:
        self._config, self._metrics, self._clients = config, metrics, clients
        self._raw = config.topic("raw")
        self._interests = InterestReader(config, lambda _: clients.consumer)
        self._trust = TrustStore(config.trust, time.monotonic, entry=config.identity.key)
        self._table = InterestTable()
        self._probes: dict[str, tuple[str, float]] = {}
        self._looked_at = self._probed_at = float("-inf")

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self._read()
            now = time.monotonic()
            if now - self._looked_at >= LOOK_SECONDS:
                self._looked_at = now
                self._look()
            if now - self._probed_at >= PROBE_SECONDS:
                self._probed_at = now
                self._send_probes()

    def _read(self) -> None:
        for key, value in self._interests.poll(POLL_MILLISECONDS):
            token = read_probe(key, value)
            if token is None:
                apply_record(self._table, key, value)
            elif (sent := self._probes.pop(token, None)) is not None:
                lane, at = sent
                self._metrics.probed(lane, time.monotonic() - at)

    def _look(self) -> None:
        every = {lane.partition for lane in self._metrics.lanes.values()}
        ends = self._clients.consumer.end_offsets([TopicPartition(self._raw, partition) for partition in every])
        self._metrics.raw_ends = {partition.partition: end for partition, end in ends.items()}
        self._count_interests()
        self._count_keys()

    def _count_interests(self) -> None:
        now = now_us()
        alive = Counter(interest.verb for interest in self._table if interest.alive_at(now))
        limit = self._config.limits.subscriptions_per_mesh
        self._metrics.interests_limit.labels(self._metrics.mesh).set(limit)
        for verb in Verb:
            self._metrics.interests.labels(self._metrics.mesh, verb.value).set(alive[verb])

    def _follow_keys(self) -> None:
        """Says what became of a change of the trust store. Each worker takes it over itself; it is logged here once."""
        error_before = self._trust.error
        if self._trust.changed():
            log.info("the trust store has changed and is in force")
        elif self._trust.error not in (None, error_before):
            log.warning("the trust store has changed and cannot be used; the old keys hold: %s", self._trust.error)

    def _count_keys(self) -> None:
        self._follow_keys()
        now, metrics, nodes = time.time(), self._metrics, self._trust.keys.nodes
        states: Counter[str] = Counter()
        for key in (key for keys in nodes.values() for key in keys.values()):
            states[key_state(key.not_before, key.not_after, now)] += 1
        for state in KEY_STATES:
            metrics.keys.labels(metrics.mesh, state).set(states[state])
        metrics.next_key_expiry.labels(metrics.mesh).set(next_key_end(nodes, now))
        metrics.next_node_expiry.labels(metrics.mesh).set(next_node_end(nodes, now))

    def _send_probes(self) -> None:
        for lane, state in dict(self._metrics.lanes).items():
            self._send_probe(lane, state.partition)
        self._clients.producer.flush(RETRY_SECONDS)

    def _send_probe(self, lane: str, partition: int) -> None:
        """Sends a lane's probe. Only its last one is waited for; an earlier one that is late counts for nothing."""
        token = new_token()
        self._probes = {other: sent for other, sent in self._probes.items() if sent[0] != lane}
        self._probes[token] = lane, time.monotonic()
        self._clients.producer.send(self._raw, value=probe_record(token), partition=partition)
