"""Runs one edge as a process: its life, its health, and a configuration that it follows."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from prometheus_client import CollectorRegistry

from gateway.config import Config, ConfigWatch, Reloaded, redacted
from gateway.config.exposure import exposure_warnings
from gateway.core.errors import SetupError
from gateway.edge.connection import Connection
from gateway.edge.kafka_clients import Clients, KafkaClients
from gateway.edge.metrics import EdgeMetrics
from gateway.edge.operator_actions import ACTS, OperatorActions
from gateway.edge.pages import ExamplePage, PeersPage, describe
from gateway.edge.runtime import EdgeRuntime
from gateway.inspect.live.exposition import samples_in
from gateway.inspect.live.last_hour import FAMILIES, LastHour
from gateway.inspect.live.page import LivePage
from gateway.observability.management import Checks, Management, Served, json_answer

log = logging.getLogger(__name__)

TICK_SECONDS = 1.0
PROBE_SECONDS = 5.0
"""An edge that nobody sends anything asks Kafka this often whether it still acknowledges: one empty record."""
READY_SECONDS = 15.0
"""Ready means that something was acknowledged so lately."""


class Edge:
    """One edge. `run` serves until `stop` is set, and calls `on_ready` when it does. Raises SetupError."""

    def __init__(
        self, config: Config, clients: Clients | None = None, on_ready: Callable[[], None] = lambda: None
    ) -> None:
        self.config = config
        self._on_ready = on_ready
        self._watch = ConfigWatch(config, time.monotonic)
        self._registry = CollectorRegistry()
        self.life = EdgeRuntime(config, EdgeMetrics(config, self._registry), clients or KafkaClients())
        own = self._registry.restricted_registry(FAMILIES)
        self._hour = LastHour(lambda: samples_in(own))
        self._live = LivePage(
            lambda: self.config, lambda: samples_in(self._registry), self._described, self._away, self._hour
        )
        self._reread = asyncio.Event()
        self.management_port = 0
        self.is_draining = False

    async def run(self, stop: asyncio.Event) -> None:
        management = self._management()
        self.management_port = management.port
        management.start()
        for warning in [*self.config.warnings(), *exposure_warnings(self.config)]:
            log.warning("%s", warning)
        try:
            await self.life.begin()
            self._on_ready()
            await self._serve(stop)
        finally:
            await self.life.end()
            self._live.stop()
            management.stop()

    def listeners(self) -> dict[str, str]:
        """Returns the address that each listener is bound to, by its name; none before all are bound."""
        if not self.life.has_begun:
            return {}
        return {listener.name: str(self.life.endpoints.address(listener)) for listener in self.config.listeners}

    def reload(self) -> None:
        """Reads the configuration again, whatever its files' times say."""
        self._reread.set()

    async def _serve(self, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        ticking, stopped = loop.create_task(self._tick()), loop.create_task(self._leave(stop))
        failed = self.life.publisher.failed
        waited: set[asyncio.Future[Any]] = {ticking, stopped, failed}
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (ticking, stopped):
                task.cancel()
        if failed.done():
            raise SetupError(f"the edge and Kafka disagree, so the edge ends and is started again: {failed.result()!r}")
        config = self.config
        await self.life.drain(config.edge.redirect_url, config.edge.graceful_shutdown_limit_seconds)

    async def _leave(self, stop: asyncio.Event) -> None:
        """Returns when the time has come; everything goes on until then."""
        await stop.wait()
        self.is_draining = True
        await asyncio.sleep(self.config.edge.notice_seconds)

    # -- once a second -----------------------------------------------------------------------------------------

    async def _tick(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._reread.wait(), TICK_SECONDS)
            self.life.tick()
            if self.life.publisher.silent_seconds > PROBE_SECONDS:
                self.life.publisher.probe()
            await asyncio.to_thread(self._hour.tick)
            await self._follow_files()

    async def _follow_files(self) -> None:
        """A change holds within a few seconds; what cannot be taken over is told in one line."""
        look = self._watch.reread if self._reread.is_set() else self._watch.poll
        self._reread.clear()
        change = await asyncio.to_thread(look)
        if await asyncio.to_thread(self.life.endpoints.refresh_files):
            self.life.endpoints.judge_again()
        if isinstance(change, Reloaded):
            self.config = change.config
            self.life.reconfigure(change.config)
            log.info("the configuration has changed and is in force")
        elif change is not None:
            log.warning("%s", change)

    # -- health ------------------------------------------------------------------------------------------------

    def _management(self) -> Management:
        peers = PeersPage(self._sessions, asyncio.get_running_loop())
        return Management(
            self.config.edge.management,
            self._registry,
            Checks(self._missing_at_start, self._missing, lambda: {peer["what"]: peer["why"] for peer in self._away()}),
            config=lambda: redacted(self.config),
            served=Served(
                pages={
                    "/peers": peers.show,
                    "/away": lambda _query: json_answer(HTTPStatus.OK, self._away()),
                    "/listeners": lambda _query: json_answer(HTTPStatus.OK, self.listeners()),
                    "/example": ExamplePage(lambda: self.config, self.listeners).show,
                    **self._live.pages(),
                },
                commands={"/peers/": peers.command},
                acts={ACTS: OperatorActions(lambda: self.config, peers.kick).command},
            ),
            names=self.config.edge.management_hosts,
        )

    def _sessions(self) -> Iterable[Connection]:
        return self.life.sessions if self.life.has_begun else ()

    def _described(self) -> Iterable[dict[str, Any]]:
        return map(describe, self._sessions())

    def _away(self) -> list[dict[str, Any]]:
        return self.life.endpoints.away() if self.life.has_begun else []

    def _missing_at_start(self) -> dict[str, str]:
        return {} if self.life.has_begun else {"listeners": "not bound yet"}

    def _missing(self) -> dict[str, str]:
        missing = self._missing_at_start()
        if self.is_draining:
            missing["draining"] = "this edge is going away"
        if self.life.has_begun and self.life.publisher.silent_seconds > READY_SECONDS:
            missing["kafka"] = "no produce was acknowledged lately"
        return missing
