"""What the router's one Python pass costs a frame, by its parts, as ratios of one run.

    python -m tests.bench.route [PROFILE]

Containers of HMAC-signed emm events go through the row functions as a Spark worker calls them, to one datagram
subscriber and to none. `judge` decodes and verifies, `route` is the whole pass, `pickle` what travels to the JVM. With
an argument the hottest functions are shown instead.
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
from gateway.protocols.emm import codec
from gateway.protocols.emm.frames import EventType, Field, FieldType
from gateway.protocols.emm.signing import Signer
from gateway.raw_log.container import ContainerBuilder, decode_record
from gateway.raw_log.frames import Source
from streaming_jobs.routing.known_ids import KnownIds
from streaming_jobs.routing.rows import RowFunctions
from tests.unit.router.mesh_in_a_log import EDGE, EPOCH, NOW, MeshInALog

NODE, KEY_ID, SECRET = bytes(15) + b"\1", bytes(3) + b"\1", b"k" * 32
KEYS: Mapping[bytes, Mapping[bytes, Key]] = {NODE: {KEY_ID: Key(KEY_ID, hmac=SECRET)}}
SIZES = (1, 10, 100, 200)
ROUNDS = 7


def source(peer: str) -> Source:
    return Source("emm", "emm", EDGE, EPOCH, peer=peer)


def mesh(subscribed: bool) -> MeshInALog:
    made = MeshInALog(keys=KEYS)
    if subscribed:
        wanted = Field(FieldType.BINARY, b'{"subscribe":["temp.>"]}')
        made.log(source("192.0.2.9:1"), packet(b"hell", (wanted,), EventType.HELLO))
        assert made.rejections() == []
    return made


def packet(message_id: bytes, fields: tuple[Field, ...], event_type: int = EventType.EVENT) -> bytes:
    draft = codec.Draft(message_id, NOW, fields, event_type)
    return codec.encode(draft, Signer(NODE, KEY_ID, SECRET))


def container(frames: int) -> bytes:
    body = Field(FieldType.JSON, b'{"celsius": 21.5, "place": "' + b"x" * 80 + b'"}')
    fields = (Field(FieldType.STRING, b"temp.high"), body)
    builder, of = ContainerBuilder(EDGE, EPOCH), source("192.0.2.7:4000")
    for number in range(frames):
        builder.add(of, NOW * 1_000_000, packet(number.to_bytes(4, "big"), fields))
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


def costs(frames: int, subscribed: bool) -> dict[str, float]:
    functions = RowFunctions(mesh(subscribed).state)
    record = container(frames)
    read = decode_record(record).frames

    def routed() -> list[Any]:
        functions.known = KnownIds(functions.horizon_seconds)
        row = functions.route_record(record, 0, 5, NOW)
        return [row.log_seconds, row.ids, [tuple(out) for out in row.outs]]

    plain = routed()
    assert len(plain[-1]) >= frames
    return {
        "read": best_us(lambda: decode_record(record), frames),
        "judge": best_us(lambda: functions.judge(read, 0, 5), frames),
        "route": best_us(routed, frames),
        "pickle": best_us(lambda: pickle.dumps(plain, 5), frames),
        "bytes": len(pickle.dumps(plain, 5)) / frames,
    }


def main() -> None:
    for subscribed in (False, True):
        for frames in SIZES:
            measured = costs(frames, subscribed)
            shown = "  ".join(f"{name} {cost:6.2f}" for name, cost in measured.items())
            print(f"{frames:4} frames, {int(subscribed)} receivers  {shown}")


def profile() -> None:
    functions, record = RowFunctions(mesh(True).state), container(100)
    profiler = cProfile.Profile()
    profiler.enable()
    for offset in range(200):
        functions.route_record(record, 0, offset, NOW)
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(35)


if __name__ == "__main__":
    profile() if len(sys.argv) > 1 else main()
