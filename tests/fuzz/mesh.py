"""The router over what peers send: every frame of every protocol, with somebody to receive it in each of the others.

The first byte of an input names the protocol. Nothing may be refused for a fault of ours (`internal`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache

from gateway.core.reasons import Rejected
from gateway.protocols import protocols
from gateway.protocols.emm import codec
from gateway.protocols.emm.batch import to_events
from gateway.protocols.emm.frames import EventType, Field, FieldType
from gateway.protocols.emm.mapping import to_event
from gateway.records.raw_log.frames import Fact, RawFrame
from streaming_jobs.routing.output_records import bytes_of
from tests.fuzz.target import Target
from tests.unit.protocols.contract.streams import examples, stream_protocols
from tests.unit.protocols.emm import vectors
from tests.unit.routing.mesh_in_a_log import LISTENERS, MeshInALog, Peer

PROTOCOLS = tuple(sorted(protocols()))
INPUTS_PER_MESH = 200
"""Then a new one begins, so that what is found can be found again."""
MOST_OUTPUTS = 200


def mesh_targets() -> Iterator[Target]:
    yield Target("router", _Router().check, _frames)
    yield Target("emm", _emm, _packets)
    yield Target("emm-fields", _fields, _packets)


@cache
def _packets() -> Sequence[bytes]:
    packets = [bytes.fromhex(one["packet"]) for one in vectors._FILE["packets"]]
    hello = json.dumps({"subscribe": ["a.>"], "serve": ["b"]}).encode()
    drafts = [codec.Draft(b"m-id", vectors.TIMESTAMP, (Field(FieldType.BINARY, hello),), EventType.HELLO)]
    return [*packets, *(codec.encode(draft, None) for draft in drafts)]


def _frames() -> Sequence[bytes]:
    streams = [
        bytes([PROTOCOLS.index(name)]) + frame
        for name in stream_protocols()
        for frame in examples(name).frames.values()
    ]
    return [*streams, *(bytes([PROTOCOLS.index("emm")]) + packet for packet in _packets())]


def _fields(data: bytes) -> None:
    """What was read is what stands there."""
    assert codec.decode(data).raw == data


def _emm(data: bytes) -> None:
    """Both readers of a packet say the same, whether its sender must prove itself or not."""
    raw = RawFrame(data, vectors.SOURCE, vectors.RECEIVED_AT)
    for options in (vectors.STRICT, vectors.OPEN):
        try:
            alone: object = to_event(raw, "0-0-0", options, vectors.ENV)
        except Rejected as refused:
            alone = refused.reason
        (together,) = to_events([raw], ["0-0-0"], {vectors.SOURCE.listener: options}, vectors.ENV)
        assert (together.reason if isinstance(together, Rejected) else together) == alone


class _Router:
    def __init__(self) -> None:
        self._left = 0

    def check(self, data: bytes) -> None:
        if not self._left:
            self._begin()
        self._left -= 1
        name = PROTOCOLS[data[0] % len(PROTOCOLS)] if data else PROTOCOLS[0]
        self._mesh.log(self._peers[name].source, data[1:])
        outputs, self._mesh.written, self._mesh.rows = self._mesh.written, [], []
        self._mesh.records.clear()
        assert len(outputs) <= MOST_OUTPUTS, f"{len(outputs)} records come of one frame"
        for out in outputs:
            assert bytes_of(out) <= self._mesh.state.config.kafka.message_bytes
            assert dict(out.headers).get("reason") != b"internal", dict(out.headers)

    def _begin(self) -> None:
        self._left = INPUTS_PER_MESH
        listeners = [{**one, "unauthenticated": "accept"} if one["name"] == "emm" else one for one in LISTENERS]
        limits = {"subscriptions_per_session": 20}
        self._mesh = MeshInALog(settings={"listeners": listeners, "limits": limits}, keys=vectors.RING.nodes)
        facts: dict[str, Fact] = {"envelope": True, "format": "json"}
        self._peers: dict[str, Peer] = {
            name: self._mesh.open(name, facts=facts, subscribe=(">",), serve=("served.>",)) for name in PROTOCOLS
        }
        self._mesh.forget_outputs()
