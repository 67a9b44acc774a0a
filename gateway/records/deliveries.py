"""The record format of `deliveries`: what became of what was to be delivered, many outcomes in one record.

    msgpack: [2, edge, outcomes, runs]

A run stands for the outcomes of many frames of one raw record that ended alike and together, with one receiver or with
many. Version 1 had no runs and is still read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import msgpack
import numpy as np

from gateway.core.ids import event_ids
from gateway.core.reasons import Reason, Rejected

VERSION = 2
_VERSION_WITHOUT_RUNS = 1


class DeliveryOutcome(NamedTuple):
    """The outcome of one delivery. Event, part and destination name it.

    Args:
        destination: a session's id, or `listener host:port` of a datagram peer, or the durable name of a node.
        at: microseconds.
        part: of the position that the delivery had.
        node: whose session it was, where the edge knows.
    """

    event_id: str
    destination: str
    outcome: str
    detail: str
    at: int
    part: int = 0
    node: str = ""


class RunOutcome(NamedTuple):
    """The outcome of the deliveries of many frames of one raw record.

    Args:
        indices: those of the frames, two bytes each (little-endian).
        receivers: whoever got all of these frames, as `pack_receivers` has them; `destination` and `node` are empty
            then. The other fields are as in a DeliveryOutcome.
    """

    partition: int
    offset: int
    indices: bytes
    destination: str
    outcome: str
    detail: str
    at: int
    part: int = 0
    node: str = ""
    receivers: bytes = b""

    def outcomes(self) -> Iterator[DeliveryOutcome]:
        names = event_ids(self.partition, self.offset, np.frombuffer(self.indices, "<u2").tolist())
        for destination, node in self.destinations():
            for event_id in names:
                yield DeliveryOutcome(event_id, destination, self.outcome, self.detail, self.at, self.part, node)

    def destinations(self) -> list[tuple[str, str]]:
        """Returns each receiver with its node."""
        if not self.receivers:
            return [(self.destination, self.node)]
        names = msgpack.unpackb(self.receivers)
        return list(zip(names[::2], names[1::2], strict=True))


def pack_receivers(receivers: Iterable[tuple[str, str]]) -> bytes:
    """Packs destinations, each with its node, for `RunOutcome.receivers`."""
    packed: bytes = msgpack.packb([name for receiver in receivers for name in receiver])
    return packed


@dataclass(frozen=True, slots=True)
class DeliveriesRecord:
    """A record: the edge that wrote it, single outcomes, and runs. Iterating gives all outcomes one by one."""

    edge: str
    singles: tuple[DeliveryOutcome, ...] = ()
    runs: tuple[RunOutcome, ...] = field(default=())

    def __iter__(self) -> Iterator[DeliveryOutcome]:
        yield from self.singles
        for run in self.runs:
            yield from run.outcomes()


def encode(edge: str, singles: Iterable[DeliveryOutcome], runs: Iterable[RunOutcome] = ()) -> bytes:
    packed: bytes = msgpack.packb((VERSION, edge, list(singles), list(runs)))
    return packed


def decode(data: bytes) -> DeliveriesRecord:
    """Reads a record; raises Rejected for what no edge and no router wrote."""
    try:
        version, edge, singles, *runs = msgpack.unpackb(data)
        if version not in (VERSION, _VERSION_WITHOUT_RUNS):
            raise Rejected(
                Reason.UNSUPPORTED_VERSION,
                f"deliveries version {version}; this build reads {_VERSION_WITHOUT_RUNS} and {VERSION}",
            )
        (packed_runs,) = runs if version == VERSION else ([],)
        return DeliveriesRecord(edge, tuple([DeliveryOutcome(*row) for row in singles]), tuple(map(_run, packed_runs)))
    except (ValueError, TypeError, msgpack.exceptions.UnpackException) as error:
        raise Rejected(Reason.MALFORMED, f"deliveries record: {type(error).__name__}") from None


def _run(row: list[object]) -> RunOutcome:
    run = RunOutcome(*row)  # type: ignore[arg-type] # as far as anything read is of any type
    np.frombuffer(run.indices, "<u2")  # raises ValueError for half an index
    run.destinations()
    return run
