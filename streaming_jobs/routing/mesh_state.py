"""The state that the row functions use: configuration, keys, interests. It has no clock and no I/O of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.auth.keyring import GatewayIdentity, KeyRing, trusting
from gateway.config import Config
from gateway.core.event import Event
from gateway.core.reasons import Reason, Rejected, Stage
from gateway.interests.table import InterestTable
from gateway.protocols import protocols
from gateway.protocols.spec import CodecContext, Lease, Options, ProtocolSpec
from gateway.records.egress import Position
from gateway.records.raw_log.frames import RawFrame
from gateway.records.rejected_frame import RefusedFrame, kept_part
from streaming_jobs.routing.frame_counters import FrameCounters
from streaming_jobs.routing.known_ids import repeat_horizon_seconds
from streaming_jobs.routing.output_records import Topics
from streaming_jobs.routing.plain_routes import PlainRoutes
from streaming_jobs.routing.refusal_rate import RefusalRate
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
        ask = self.protocol.asked_lease
        return None if ask is None else ask(event, self.options)

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
        self.refusal_rate = RefusalRate()
        self.traces: RouterTraces | None = None
        self._keys, self._identity = keys, identity
        self.reconfigure(config)

    def reconfigure(self, config: Config) -> None:
        self.config = config
        self.topics = Topics(config)
        self.permissions = config.permissions_policy()
        self.options: dict[str, Options] = {endpoint.name: endpoint.options for endpoint in config.endpoints}
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
        """Returns how a listener's protocol is spoken; by its defaults if the configuration lost the listener."""
        spoken_there = self._spoken.get((listener, protocol))
        if spoken_there is None:
            spec, options = self.protocol(protocol), self.options.get(listener)
            spoken_there = ListenerProtocol(spec, options if isinstance(options, spec.options) else spec.options())
            if len(self._spoken) < LISTENERS_REMEMBERED:
                self._spoken[listener, protocol] = spoken_there
        return spoken_there

    def refusal(
        self, raw: RawFrame, position: Position, refused: Rejected, stage: Stage, *, is_secret: bool = False
    ) -> RefusedFrame:
        """Returns what `rejected` says of a frame. It has the node that a datagram names: whose keys to look at, or
        whose name is being used.

        Args:
            is_secret: the frame may hold a token.
        """
        source, place = raw.source, position.event_id
        spec = None if source.session else self.protocols.get(source.protocol)
        node = source.node if spec is None else spec.claimed_node(raw.data)
        kept, truncated_bytes = kept_part(raw.data, is_secret=is_secret)
        event_id, again = (raw.again.event_id, place) if raw.again else (place, "")
        # By position: by name it takes half as long again, and there may be 50,000 a second.
        return RefusedFrame(
            refused.reason.value, stage, source.protocol, source.listener, source.edge, event_id, refused.detail,
            source.peer, node, again, truncated_bytes, kept,
        )  # fmt: skip

    def is_datagram(self, protocol: str) -> bool:
        """Returns True if the protocol is known and has no sessions."""
        spec = self.protocols.get(protocol)
        return spec is not None and spec.session is None

    def protocol(self, name: str) -> ProtocolSpec[Any]:
        try:
            return self.protocols[name]
        except KeyError:
            raise Rejected(Reason.UNKNOWN_TYPE, "a protocol this build does not speak") from None
