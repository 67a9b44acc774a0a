"""Measures the router's one Python pass for a frame, by its parts, as ratios of one run.

    python -m tests.bench.route [PROFILE]

Containers of HMAC-signed emm events go through the row functions as a Spark worker calls them, to one datagram
subscriber: with their common frames in columns, and every frame one by one. `read` decodes the container, `route` is
the whole pass with the ids that it remembers, `pickle` what travels to the JVM. `mixed` has packets of twenty layouts
and sixteen nodes with a source each. `batch` writes events as JSON batches. `ed25519` is signed so.

With an argument the hottest functions are shown instead: `one` or `columns`.
"""

from __future__ import annotations

import cProfile
import pickle
import pstats
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from gateway.auth.keyring import Key
from gateway.auth.verification import public_of
from gateway.protocols.emm import codec
from gateway.protocols.emm.frames import EventType, Field, FieldType
from gateway.protocols.emm.signing import Signer
from gateway.records.raw_log.container import ContainerBuilder, read_columns
from gateway.records.raw_log.frames import FrameSource
from streaming_jobs.routing.frame_router import FrameRouter
from streaming_jobs.routing.known_ids import KnownIds
from tests.unit.routing.mesh_in_a_log import EDGE, EPOCH, NOW, MeshInALog

NODES = [bytes(15) + bytes([number]) for number in range(1, 17)]
KEY_ID, SECRET = bytes(3) + b"\1", b"k" * 32
KEYS: Mapping[bytes, Mapping[bytes, Key]] = {
    node: {KEY_ID: Key(KEY_ID, hmac=SECRET, ed25519=public_of(SECRET))} for node in NODES
}
SIZES = (1, 4, 10, 100, 400)
LAYOUTS = 20
ROUNDS = 7


def source(peer: str) -> FrameSource:
    return FrameSource("emm", "emm", EDGE, EPOCH, peer=peer)


def mesh(subscribed: bool, **settings: Any) -> MeshInALog:
    made = MeshInALog(keys=KEYS, settings=settings)
    if subscribed:
        wanted = Field(FieldType.BINARY, b'{"subscribe":["temp.>"]}')
        made.log(source("192.0.2.9:1"), packet(b"hell", (wanted,), event_type=EventType.HELLO))
        assert made.rejections() == []
    return made


def packet(
    message_id: bytes, fields: tuple[Field, ...], node: bytes = NODES[0], event_type: int = EventType.EVENT,
    *, is_signed: bool = False,
) -> bytes:  # fmt: skip
    signer = Signer(node, KEY_ID, None, SECRET) if is_signed else Signer(node, KEY_ID, SECRET)
    return codec.encode(codec.Draft(message_id, NOW, fields, event_type), signer)


def container(frames: int, *, layouts: int = 1, is_signed: bool = False) -> bytes:
    """Makes as many nodes as there are layouts, and a source for each."""
    builder = ContainerBuilder(EDGE, EPOCH)
    sources = [source(f"192.0.2.7:{4000 + number}") for number in range(min(layouts, len(NODES)))]
    for number in range(frames):
        body = b'{"celsius": 21.5, "place": "' + b"x" * (80 - number % layouts) + b'"}'
        fields = (Field(FieldType.STRING, b"temp.high"), Field(FieldType.JSON, body))
        place = number % len(sources)
        made = packet(number.to_bytes(4, "big"), fields, NODES[place], is_signed=is_signed)
        builder.add(sources[place], NOW * 1_000_000 + number // 8, made)
    return builder.build()


def best_us(run: Callable[[], object], count: int) -> float:
    """Microseconds a frame; the best round, since noise only adds."""
    best, repeats = float("inf"), max(2_000 // count, 1)
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(repeats):
            run()
        best = min(best, time.process_time() - start)
    return best / repeats / count * 1e6


def costs(frames: int, kind: str, *, in_columns: bool) -> dict[str, float]:
    settings = {"events": {"format": "batch"}} if kind == "batch" else {}
    functions = FrameRouter(mesh(True, **settings).state, in_columns=in_columns)
    record = container(frames, layouts=LAYOUTS if kind == "mixed" else 1, is_signed=kind == "ed25519")

    def routed() -> tuple[object, ...]:
        functions.known = KnownIds(functions.horizon_seconds)
        row = functions.route_record(record, 0, 5, NOW)
        return row.log_seconds, 5, row.ids, [tuple(out) for out in row.outs]

    plain = routed()
    return {
        "read": best_us(lambda: read_columns(record), frames),
        "route": best_us(routed, frames),
        "pickle": best_us(lambda: pickle.dumps(plain, 5), frames),
        "bytes": len(pickle.dumps(plain, 5)) / frames,
    }


def main() -> None:
    for kind in ("plain", "mixed", "batch", "ed25519"):
        for frames in SIZES:
            for in_columns in (False, True):
                how = "columns" if in_columns else "one by one"
                print(f"{frames:4} frames, {kind:7} {how:10}  {shown(costs(frames, kind, in_columns=in_columns))}")


def shown(measured: Mapping[str, float]) -> str:
    return "  ".join(f"{name} {cost:6.2f}" for name, cost in measured.items())


def profile(what: str) -> None:
    functions, record = FrameRouter(mesh(True).state, in_columns=what == "columns"), container(100)
    profiler = cProfile.Profile()
    profiler.enable()
    for offset in range(200):
        functions.known = KnownIds(functions.horizon_seconds)
        functions.route_record(record, 0, offset, NOW)
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(35)


if __name__ == "__main__":
    profile(sys.argv[1]) if len(sys.argv) > 1 else main()
