"""The state that the row functions use: configuration, keys, interests. It has no clock and no I/O of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.auth.keyring import GatewayIdentity, KeyRing, trusting
from gateway.config import Config
from gateway.core.event import Event
from gateway.core.reasons import Reason, Rejected
from gateway.interests.table import InterestTable
from gateway.protocols import protocols
from gateway.protocols.spec import CodecContext, Lease, Options, ProtocolSpec
from streaming_jobs.routing.frame_counters import FrameCounters
from streaming_jobs.routing.known_ids import repeat_horizon_seconds
from streaming_jobs.routing.output_records import Topics
from streaming_jobs.routing.plain_routes import PlainRoutes
from streaming_jobs.routing.traces import RouterTraces

LISTENERS_REMEMBERED = 1_024
"""Names of listeners that are gone come from the raw log, as many as there ever were."""


@dataclass(frozen=True, slots=True)
class ListenerProtocol:
    """A protocol as one listener speaks it."""

    protocol: ProtocolSpec[Any]
    options: Options

    def dedup_key(self, event: Event) -> str | None:
        return self.protocol.dedup_key(event, self.options)

    def asked_lease(self, event: Event) -> Lease | None:
        asked = self.protocol.asked_lease
        return None if asked is None else asked(event, self.options)

    def awaits_confirmation(self, event: Event) -> bool:
        awaits = self.protocol.awaits_confirmation
        return awaits is not None and awaits(event, self.options)


class MeshState:
    """The state of one worker process. `reconfigure` and `use_keys` put new settings and keys in force between records.

    `now_us` only answers a peer that asks for the time. It decides nothing.
    """

    def __init__(
        self, config: Config, keys: KeyRing, identity: GatewayIdentity | None, now_us: Callable[[], int] = lambda: 0
    ) -> None:
        self.now_us = now_us
        self.protocols: Mapping[str, ProtocolSpec[Any]] = protocols()
        self.table = InterestTable()
        self.tally = FrameCounters()
        self.plain_routes = PlainRoutes()
        self.traces: RouterTraces | None = None
        self._keys, self._identity = keys, identity
        self.reconfigure(config)

    def reconfigure(self, config: Config) -> None:
        self.config = config
        self.topics = Topics(config)
        self.permissions = config.permissions_policy()
        self.options: dict[str, Options] = {one.name: one.options for one in config.endpoints}
        self._spoken: dict[tuple[str, str], ListenerProtocol] = {}
        self.horizon_seconds = repeat_horizon_seconds(config)
        self.largest_frame = config.kafka.largest_frame
        self.raw_partitions = config.kafka.topic("raw").partitions
        self._make_env()

    def use_keys(self, keys: KeyRing, identity: GatewayIdentity | None) -> None:
        self._keys, self._identity = keys, identity
        self._make_env()

    def _make_env(self) -> None:
        trusted = trusting(self._keys, self._identity)
        self.env = CodecContext(
            trusted, self._identity, self.config.replay_window_seconds, self.config.clock_skew_seconds
        )

    def spoken(self, listener: str, protocol: str) -> ListenerProtocol:
        """Returns how a listener's protocol is spoken. A listener that the configuration lost has the protocol's
        defaults."""
        found = self._spoken.get((listener, protocol))
        if found is None:
            spec, known = self.protocol(protocol), self.options.get(listener)
            found = ListenerProtocol(spec, known if isinstance(known, spec.options) else spec.options())
            if len(self._spoken) < LISTENERS_REMEMBERED:
                self._spoken[listener, protocol] = found
        return found

    def protocol(self, name: str) -> ProtocolSpec[Any]:
        try:
            return self.protocols[name]
        except KeyError:
            raise Rejected(Reason.UNKNOWN_TYPE, "a protocol this build does not speak") from None
