"""Measures how long a rule's result takes, and what rules cost while nothing happens:

    python -m tests.bench.rules                 120 events, one at a time, at random moments
    python -m tests.bench.rules --events 300 --rules 4

A mesh of its own with rules that let each event through. One yamp session publishes an event, and another one at the
same edge gets what the rule made of it: from one to the other is the time that is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway.bench.machine import Watch, roots_of
from gateway.client import StreamClient, connect
from gateway.core.content import JSON
from tests.integration.mesh import TestMesh, running_mesh

PAUSE_SECONDS = (0.2, 0.6)
WARM_EVENTS = 30
RULE = "SELECT 'found-{}' AS subject, body, content_type, id AS origin FROM events WHERE subject = 'measured'"
ANSWER_SECONDS = 20.0
REST_SECONDS = 20.0


def main() -> int:
    asked = _arguments()
    rules = [
        {
            "name": f"hot-{number}",
            "sql": RULE.format(number),
        }
        for number in range(asked.rules)
    ]
    with tempfile.TemporaryDirectory(prefix="meshgate-rules-") as folder:
        settings: dict[str, object] = {"rules": rules, "kafka": {"partitions": asked.partitions}}
        with running_mesh(Path(folder), [{"name": "yamp", "protocol": "yamp"}], settings) as mesh:
            try:
                asyncio.run(_measure(mesh, asked.events))
            except TimeoutError:
                raise AssertionError(f"a rule's result did not come{mesh.logs()}") from None
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.rules", description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=120)
    parser.add_argument("--rules", type=int, default=1)
    parser.add_argument("--partitions", type=int, default=1, help="of the raw log, as the default is on two cores")
    return parser.parse_args()


async def _measure(mesh: TestMesh, events: int) -> None:
    port, chance = mesh.ports["yamp"], random.Random(1)
    async with connect("yamp", "127.0.0.1", port) as receiver, connect("yamp", "127.0.0.1", port) as sender:
        await receiver.subscribe("found-0")
        for _ in range(WARM_EVENTS):
            await _once(sender, receiver)
            await asyncio.sleep(chance.uniform(*PAUSE_SECONDS) / 2)
        taken = []
        with _cores_used(mesh, "with events"):
            for _ in range(events):
                taken.append(await _once(sender, receiver))
                await asyncio.sleep(chance.uniform(*PAUSE_SECONDS))
        taken.sort()
        p50, p99 = (taken[int(len(taken) * share)] * 1000 for share in (0.5, 0.99))
        print(f"event in → result out: p50 {p50:.0f} ms, p99 {p99:.0f} ms, longest {taken[-1] * 1000:.0f} ms")
        with _cores_used(mesh, "at rest"):
            await asyncio.sleep(REST_SECONDS)


async def _once(sender: StreamClient, receiver: StreamClient) -> float:
    """Returns the seconds from publishing an event to what a rule made of it."""
    token, begun = secrets.token_hex(8), time.monotonic()
    await sender.publish("measured", b'{"token":"%s"}' % token.encode(), JSON)
    async with asyncio.timeout(ANSWER_SECONDS):
        async for event in receiver.events():
            if token.encode() in event.body:
                return time.monotonic() - begun
    raise AssertionError("the receiver's session has ended")


@contextmanager
def _cores_used(mesh: TestMesh, when: str) -> Iterator[None]:
    watch = Watch(roots_of(mesh.folder / "state" / "running.json"))
    watch.start()
    try:
        yield
    finally:
        watch.stop()
    begin, end = watch.samples[0].at, watch.samples[-1].at
    shares = ((name, usage.cpu_seconds / (end - begin) * 1e11) for name, usage in watch.usage(begin, end).items())
    print(f"{when}, of a core: " + ", ".join(f"{name} {share:.1f} %" for name, share in shares), flush=True)


if __name__ == "__main__":
    sys.exit(main())
