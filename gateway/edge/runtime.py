"""Runs one life of an edge: an epoch, from its announcement in the raw log to the last commit."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from gateway.config import Config
from gateway.core.errors import SetupError
from gateway.edge.delivery.dispatch import DeliveryBooks, Dispatch, Peers
from gateway.edge.delivery.egress_delivery import OutcomeRecorder
from gateway.edge.delivery.migration import QueueMigration
from gateway.edge.delivery.offset_tracker import OffsetTracker
from gateway.edge.delivery.outcomes import MOST_OWED_OUTCOMES, KnownOutcomes, OutcomeLog
from gateway.edge.delivery.previous_run import PreviousRun
from gateway.edge.delivery.redelivery import Later, RedeliveryQueues
from gateway.edge.delivery.session_deliveries import SessionDeliveries
from gateway.edge.edge_log import EdgeLog
from gateway.edge.endpoints import Endpoints
from gateway.edge.kafka_clients import Clients
from gateway.edge.metrics import EdgeMetrics, EdgeReadings
from gateway.edge.publisher import EdgeLife, RawPublisher, RawTopic
from gateway.edge.sessions import Sessions, patience
from gateway.edge.traces import EdgeTraces
from gateway.observability.lag import Lag

log = logging.getLogger(__name__)

FIRST_ACKNOWLEDGEMENT_SECONDS = 30.0
FLUSH_SECONDS = 10.0
LAST_FLUSH_SECONDS = 1.0
"""The time for what sessions that were cut leave to be logged. A Kafka that is away was waited for before."""


class EdgeRuntime:
    """One life of an edge. Call `begin`, then `tick` once a second, then `drain`; and `end` in any case.

    Raises SetupError if it cannot begin.
    """

    def __init__(self, config: Config, metrics: EdgeMetrics, clients: Clients) -> None:
        self._config = config
        self._metrics = metrics
        self._clients = clients
        self._undo = contextlib.AsyncExitStack()
        self._closed = False
        self.has_begun = False
        self.epoch = 0
        self._egress = Lag()
        self._egress_age_seconds = 0.0
        self._is_flushed = False
        """The producer has waited for Kafka at the end already."""

    publisher: RawPublisher
    sessions: Sessions
    endpoints: Endpoints

    async def begin(self) -> None:
        config, edge, clients = self._config, self._config.edge.id, self._clients
        self._traces = EdgeTraces.of(config)
        if self._traces is not None:
            self._undo.push_async_callback(asyncio.to_thread, self._traces.stop)
        await asyncio.to_thread(clients.prepare, config)
        self._producer = await asyncio.to_thread(clients.producer, config)
        self._undo.push_async_callback(self._close_producer)
        self._reader = await asyncio.to_thread(clients.reader, config)
        self._undo.push_async_callback(asyncio.to_thread, self._reader.stop)
        resumption = self._reader.resumption
        self.epoch = max(time.time_ns() // 1_000_000, resumption.epoch + 1)
        self._make_publisher(EdgeLife(edge, self.epoch))
        outcomes = KnownOutcomes()
        if resumption.epoch:
            outcomes = await asyncio.to_thread(clients.look_back, config, resumption)
        books = self._make_books()
        deliveries = SessionDeliveries(books.queues, books.outcomes)
        self.sessions = Sessions(config, self.publisher, deliveries, self._metrics)
        self.endpoints = Endpoints(self.sessions, self._metrics)
        self._undo.callback(self.sessions.abort)
        self._undo.callback(self._close_datagrams)
        self._undo.callback(self._close)
        self._dispatch = Dispatch(
            books,
            self._edge_log,
            Peers(
                self.sessions.outbox, self.endpoints.datagrams, self.sessions.drop_requests, self.endpoints.slow_down
            ),
            PreviousRun(self._reader.end, resumption.sessions_to, outcomes),
            confirm_seconds=lambda: self._config.request_timeout_seconds,
            on_batch_handled=self._reader.batch_handled,
        )
        self._watch()
        await self._announce()
        if not resumption.epoch:  # killed before its first commit, this life would leave no trace of what it owes
            await asyncio.to_thread(self._reader.commit_now, self._offsets.checkpoint(time.time_ns() // 1_000_000))
        await self.endpoints.open(config)
        self._reader.start(self._dispatch.take, self._failed)
        if resumption.epoch:
            self._abandoning = asyncio.create_task(self._abandon_orphaned_requests())
            self._undo.callback(self._abandoning.cancel)
        self.has_begun = True
        log.info("edge %s is ready, epoch %x", edge, self.epoch)

    def _make_publisher(self, life: EdgeLife) -> None:
        config = self._config
        topic = RawTopic(config.topic("raw"), config.kafka.topic("raw").partitions, config.kafka.largest_frame)
        self.publisher = RawPublisher(
            self._producer,
            life,
            topic,
            config.edge.record,
            bound_bytes=config.limits.in_flight_bytes,
            observe=self._metrics.produced,
            traces=self._traces,
        )
        self._edge_log = EdgeLog(self.publisher)

    def _make_books(self) -> DeliveryBooks:
        config, loop = self._config, asyncio.get_running_loop()
        self._offsets = OffsetTracker(self.epoch, self._reader.resumption.checkpoint)
        self._outcomes = OutcomeLog(config, self._producer, self._offsets, self._failed)
        outcomes = OutcomeRecorder(self._outcomes, self._metrics, self._traces)
        later: Later = loop.call_later
        self._queues = RedeliveryQueues(
            outcomes.end_owed,
            lambda name: patience(self._config, name),
            loop.time,
            later,
            node_bytes=config.limits.queue_bytes,
            total_bytes=config.limits.in_flight_bytes,
        )
        largest = config.kafka.largest_frame
        migration = QueueMigration(
            self._queues, outcomes.end_owed, self._edge_log, self._offsets, loop.time, largest_frame=largest
        )
        return DeliveryBooks(self._offsets, outcomes, self._queues, migration)

    def _watch(self) -> None:
        self._metrics.watch(
            EdgeReadings(
                in_flight_bytes=lambda: self.publisher.in_flight.bytes,
                held_bytes=lambda: self.sessions.memory.seen_bytes,
                waiting_streams=lambda: len(self.sessions.reads),
                requests_held=lambda: self.sessions.requests.open_requests,
                queue_frames=lambda: self.sessions.pending + len(self._queues),
                egress_lag=lambda: self._reader.lag(self._offsets.handled_to),
                egress_age=lambda: self._egress_age_seconds,
                open_requests=self.sessions.open_requests,
            )
        )

    async def _announce(self) -> None:
        """A new epoch, in every raw partition: whatever sessions this edge had before are over."""
        self._edge_log.announce()
        if not await self.publisher.drained(FIRST_ACKNOWLEDGEMENT_SECONDS):
            servers = self._config.kafka.bootstrap_servers
            raise SetupError(f"kafka {servers} acknowledged nothing in {FIRST_ACKNOWLEDGEMENT_SECONDS:.0f} s")

    async def _abandon_orphaned_requests(self) -> None:
        """Abandons the requests that earlier lives were asked. Nobody waits for them here."""
        try:
            for reply in await asyncio.to_thread(self._clients.orphaned_requests, self._config, self.epoch):
                self._edge_log.abandon(reply)
        except SetupError as error:
            log.warning("requests to earlier sessions end by their timeouts: %s", error)

    def _failed(self, error: BaseException) -> None:
        if not self.publisher.failed.done():
            self.publisher.failed.set_result(error)

    # -- while it lasts ----------------------------------------------------------------------------------------

    def reconfigure(self, config: Config) -> None:
        self._config = config
        self.publisher.in_flight.reconfigure(config.limits.in_flight_bytes)
        self.endpoints.reconfigure(config)

    def tick(self) -> None:
        self._reader.commit(self._offsets.checkpoint(time.time_ns() // 1_000_000))
        self.sessions.memory.look()
        self._queues.expire()
        if before := self._offsets.owed_too_long(MOST_OWED_OUTCOMES):
            self._queues.give_up_before(before)
        self._dispatch.expire()
        handled_to = self._offsets.handled_to
        end = handled_to + self._reader.lag(handled_to)
        self._egress_age_seconds = self._egress.observe(time.monotonic(), end, self._offsets.ended_to)
        self.endpoints.count_kernel_drops()

    # -- the end -----------------------------------------------------------------------------------------------

    async def drain(self, redirect_url: str | None, seconds: float) -> None:
        """Drains the edge: it takes no new peers, says goodbye to all, and finishes what is under way."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        self._close()
        await self.sessions.drain(redirect_url, seconds)
        await self.publisher.drained(max(deadline - loop.time(), 1.0))
        await _until(lambda: self.endpoints.are_gone, deadline)
        self._dispatch.stop()
        self._close_datagrams()
        self._outcomes.flush()
        await asyncio.to_thread(self._producer.flush, FLUSH_SECONDS)  # what is too late is open, and found again
        self._is_flushed = True
        await asyncio.sleep(0)  # what the flush has settled is told to the tracker
        self.tick()

    async def end(self) -> None:
        """Releases whatever has begun, without a word to any peer. After a drain nothing is lost by it."""
        await self._undo.aclose()

    async def _close_producer(self) -> None:
        await asyncio.to_thread(self._producer.close, LAST_FLUSH_SECONDS if self._is_flushed else FLUSH_SECONDS)

    def _close_datagrams(self) -> None:
        """Sockets that still sent what the router wrote, for as long as any of it was handled."""
        for listener in self.endpoints.datagrams.values():
            listener.close()

    def _close(self) -> None:
        if not self._closed:
            self._closed = True
            self.endpoints.close()


async def _until(condition: Callable[[], bool], deadline: float) -> None:
    loop = asyncio.get_running_loop()
    while not condition() and loop.time() < deadline:  # noqa: ASYNC110 - sockets end one by one, and tell others
        await asyncio.sleep(0.02)
