"""The long form, by one command:

    python -m tests.chaos --kills 200
    python -m tests.chaos --kills 20 --seed 7      the same again
    python -m tests.chaos --kills 70 --rate 5000   under load, as far as the machine goes: what was sent is said
    python -m tests.chaos --each 3 --pause 10    each part alone so many times, for its recovery time
    python -m tests.chaos --each 3 --standby     the two routers, of which one routes
    python -m tests.chaos --kills 5 --full-disk    on a small disk of its own, which is filled (needs root)
    python -m tests.chaos --brokers 2              all that may happen to one of three brokers, or two (needs root)
    python -m tests.chaos --broker-away 120        under a load that fills the edges meanwhile, and nothing else

The long form also freezes parts, disturbs the network between peers and edges, and sets clocks, for which it needs a C
compiler.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from gateway.local.jars import ensure_jars
from tests.chaos import away
from tests.chaos.brokers import Brokers
from tests.chaos.mesh import PARTS, ROUTER, STANDBY, chaos_mesh
from tests.chaos.plan import Blow, How, brokers_long, long_form, one_by_one
from tests.chaos.scenario import Rates, run

DISK_MIB = 1536
"""The broker wants 512 MiB free before it starts."""
FULL_SECONDS = 10.0
OWN_NETWORK = "MESHGATE_CHAOS_OWN_NETWORK"
"""Set in the environment of the run that is in the network of its own."""


def main() -> int:
    asked = _arguments()
    gc.disable()  # millions of messages are kept, which the collector would look at again and again
    chance = random.Random(asked.seed)
    print(f"seed {asked.seed}", flush=True)
    if asked.brokers:
        return _brokers(asked.brokers, asked.rate, chance)
    if asked.broker_away:
        return _broker_away(asked.broker_away, chance)
    with _folder(asked.full_disk) as folder, chaos_mesh(folder, standby=asked.standby, clocks=True) as mesh:
        blows: Iterable[Blow] = long_form(asked.kills, chance)
        if asked.each:
            blows = one_by_one(asked.each, (ROUTER, STANDBY) if asked.standby else PARTS)
        if asked.full_disk:
            blows = [*blows, Blow(How.FILL, seconds=FULL_SECONDS)]
        if asked.minutes:
            blows = _until(time.monotonic() + asked.minutes * 60, blows)
        ballast = folder / "ballast"

        run(
            mesh, blows, chance, _say, rates=Rates.together(asked.rate), fill=partial(_keep_full, ballast),
            pause=(asked.pause * 0.5, asked.pause * 1.5),
        )  # fmt: skip
    return 0


def _brokers(rounds: int, rate: float, chance: random.Random) -> int:
    """In a network and with mounts of its own, which end with it."""
    if os.environ.get(OWN_NETWORK) is None:
        if os.geteuid() != 0:
            sys.exit("--brokers gives each broker a network of its own, which only root may")
        ensure_jars("broker")  # there is no way out of that network
        ensure_jars("connector")
        command = ["unshare", "--net", "--mount", "--propagation", "private", sys.executable, "-m", "tests.chaos"]
        return subprocess.run([*command, *sys.argv[1:]], env=os.environ | {OWN_NETWORK: "1"}, check=False).returncode
    with _folder(on_small_disk=False) as folder:
        brokers = Brokers(folder / "brokers", in_namespaces=True)
        with chaos_mesh(folder, brokers=brokers) as mesh:
            fill = partial(_keep_full, brokers.small_disk / "ballast")
            run(mesh, brokers_long(rounds, chance), chance, _say, rates=Rates.together(rate), fill=fill)
    return 0


async def _keep_full(ballast: Path, seconds: float) -> None:
    await asyncio.to_thread(_fill, ballast)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(ballast.unlink)


def _broker_away(seconds: float, chance: random.Random) -> int:
    watch = away.Watch()
    with _folder(on_small_disk=False) as folder, chaos_mesh(folder, in_flight_bytes=away.IN_FLIGHT_BYTES) as mesh:
        run(mesh, [away.blow(seconds)], chance, _say, watch, rates=away.RATES)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument(
        "--minutes", type=float, default=0, help="no more blows after this, however many were asked for"
    )
    parser.add_argument("--each", type=int, default=0)
    parser.add_argument(
        "--standby", action="store_true", help="with a warm second router; --each kills these two alone"
    )
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between a recovery and the next blow")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--rate", type=float, default=130.0, help="messages a second of all senders together")
    parser.add_argument("--full-disk", action="store_true")
    parser.add_argument(
        "--brokers",
        type=int,
        default=0,
        metavar="ROUNDS",
        help="on three brokers, to which all is done that may happen",
    )
    parser.add_argument("--broker-away", type=float, default=0, metavar="SECONDS")
    return parser.parse_args()


def _until(deadline: float, blows: Iterable[Blow]) -> Iterator[Blow]:
    for blow in blows:
        if time.monotonic() > deadline:
            return
        yield blow


def _say(line: str) -> None:
    print(line, flush=True)


@contextmanager
def _folder(on_small_disk: bool) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="meshgate-chaos-") as name:
        if not on_small_disk:
            yield Path(name)
            return
        if os.geteuid() != 0:
            sys.exit("--full-disk mounts a disk of its own, which only root may")
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", name], check=True)
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", name], check=True)


def _fill(ballast: Path) -> None:
    """Fills the disk to the last byte."""
    chunk = bytes(1 << 20)
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(chunk)
        except OSError:
            return


if __name__ == "__main__":
    sys.exit(main())
