"""What the row functions work with: the configuration in force, keys, interests. No clock and no I/O of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from gateway.auth.keyring import GatewayIdentity, Key, KeyRing
from gateway.auth.verification import public_of
from gateway.config import Config
from gateway.interests.table import InterestTable
from gateway.protocols import protocols
from gateway.protocols.spec import Env, Options, ProtocolSpec
from gateway.reasons import Reason, Rejected
from streaming_jobs.router.dedup import Buckets
from streaming_jobs.router.outputs import Topics
from streaming_jobs.router.tally import Tally
from streaming_jobs.router.traces import RouterTraces

LISTENERS_REMEMBERED = 1_024
"""Names of listeners that are gone come from the raw log, as many as there ever were."""
_ORDINAL = re.compile(r"\d+$")


class MeshState:
    """One per worker process. `reconfigure` and `use_keys` put new settings and keys in force between records."""

    def __init__(self, config: Config, keys: KeyRing, identity: GatewayIdentity | None) -> None:
        self.protocols: Mapping[str, ProtocolSpec[Any]] = protocols()
        self.table = InterestTable()
        self.tally = Tally()
        self.traces: RouterTraces | None = None
        self._keys, self._identity = keys, identity
        self.reconfigure(config)

    def reconfigure(self, config: Config) -> None:
        self.config = config
        self.topics = Topics(config)
        self.permissions = config.judge()
        self.options: dict[str, Options] = {one.name: one.options for one in config.endpoints}
        self._options_of: dict[tuple[str, str], Options] = {}
        self.buckets = Buckets.of(config)
        self.raw_partitions = config.kafka.topic("raw").partitions
        self._make_env()

    def use_keys(self, keys: KeyRing, identity: GatewayIdentity | None) -> None:
        self._keys, self._identity = keys, identity
        self._make_env()

    def _make_env(self) -> None:
        self.env = Env(
            self._trusted(), self._identity, self.config.replay_window_seconds, self.config.clock_skew_seconds
        )

    def _trusted(self) -> KeyRing:
        """The gateway is a node of its own mesh: what it signs, it believes."""
        mine = self._identity
        if mine is None:
            return self._keys
        own = Key(mine.key_id, hmac=mine.hmac, ed25519=public_of(mine.ed25519_private), default=True)
        keys = {own.key_id: own, **self._keys.nodes.get(mine.node, {})}
        return KeyRing({**self._keys.nodes, mine.node: keys})

    def listener_options(self, listener: str, protocol: str) -> Options:
        """A listener that is gone from the configuration leaves its protocol's defaults."""
        found = self._options_of.get((listener, protocol))
        if found is None:
            known, defaults = self.options.get(listener), self.protocol(protocol).options
            found = known if isinstance(known, defaults) else defaults()
            if len(self._options_of) < LISTENERS_REMEMBERED:
                self._options_of[listener, protocol] = found
        return found

    def protocol(self, name: str) -> ProtocolSpec[Any]:
        try:
            return self.protocols[name]
        except KeyError:
            raise Rejected(Reason.UNKNOWN_TYPE, "a protocol this build does not speak") from None


@lru_cache
def ordinal(edge: str) -> int:
    """An edge's egress partition: the number its id ends in."""
    found = _ORDINAL.search(edge)
    return int(found.group()) if found else 0
