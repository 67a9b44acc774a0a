"""One run: load, blows, and the verdict."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from gateway.config import load as load_config
from tests.chaos import verdict
from tests.chaos.brokers import Brokers
from tests.chaos.load import SUBJECT, Publisher, Receiver, Requester, UdpSender, serve
from tests.chaos.mesh import ROUTER, ChaosMesh
from tests.chaos.network import CLEAR, STORM, Network
from tests.chaos.plan import Blow, How
from tests.chaos.record import Message, Requests, Sent
from tests.chaos.told import samples
from tests.integration.emm_peer import Device
from tests.integration.topic import every_record, header

PAUSE_SECONDS = (0.3, 2.0)
RECOVERY_SECONDS = 180.0
"""A mesh that has not recovered by then will not; how long it took is measured, and judged elsewhere."""
FINISH_SECONDS = 120.0
UNDER_WAY_SECONDS = 2.0
"""What was acknowledged by Kafka before a broker was killed has reached its publisher by then."""
GONE_SECONDS = 30.0
AUDIT_SECONDS = 600.0
LOOK_SECONDS = 0.05
MORE_HANDLES = 40
MOST_REQUESTS = 20.0
"""Of each requester, which asks one after another."""
WAITING_SECONDS = 0.2
"""At high rates a publisher may have so much of all that is sent in its hands."""
MORE_MEMORY = 2.0
"""Times what it was before the first blow, and a little: caches fill, and allocators keep what they have."""
SPARE_BYTES = 128 * 2**20


@dataclass
class Rates:
    """Messages a second, of each sender."""

    hsp: float = 40.0
    udp: float = 20.0
    requests: float = 5.0
    unacknowledged: int = 200
    """Then a publisher waits for the mesh: what it has in its hands after a kill is what it sends again."""
    padding_bytes: int = 0
    """More of each message."""

    @classmethod
    def together(cls, rate: float) -> Rates:
        """Returns rates with this sum, in the proportions of the defaults."""
        share = rate / (2 * (cls.hsp + cls.udp + cls.requests))
        requests = min(cls.requests * share, MOST_REQUESTS)
        unacknowledged = max(cls.unacknowledged, int(rate * WAITING_SECONDS))
        return cls(cls.hsp * share, cls.udp * share, requests, unacknowledged)


class Watch(Protocol):
    """Somebody who looks on during a run, and says and judges what was seen."""

    def begin(self, run: Run) -> None:
        """Nothing has been sent yet."""

    def look(self) -> Coroutine[Any, Any, None]: ...
    def judge(self, say: Callable[[str], None]) -> Iterable[str]: ...


@dataclass
class Run:
    mesh: ChaosMesh
    chance: random.Random
    say: Callable[[str], None]
    rates: Rates = field(default_factory=Rates)
    fill: Callable[[float], Any] | None = None
    pause: tuple[float, float] = PAUSE_SECONDS
    sent: Sent = field(default_factory=Sent)
    requests: Requests = field(default_factory=Requests)
    kills: int = 0
    recoveries: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _promised_in_vain: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        port, network = self.mesh.port, Network(self.chance)
        self.network = network
        self.receivers = [
            Receiver(protocol, network.stream(port("edge-2", protocol), breaks=False)) for protocol in ("hsp", "yamp")
        ]
        self._publishers = [
            Publisher(
                f"p{number}",
                network.stream(port(f"edge-{number}", "hsp")),
                self.rates.hsp,
                self.sent,
                unacknowledged=self.rates.unacknowledged,
                padding_bytes=self.rates.padding_bytes,
            )
            for number in (0, 1)
        ]
        asked = network.stream(port("edge-1", "yamp"))
        self._requesters = [Requester(number, asked, self.rates.requests, self.requests) for number in (1, 2)]
        self._devices = [Device(port(f"edge-{number}", "devices")).trusted_by(self.mesh.mesh) for number in (0, 1)]
        for device in self._devices:  # what is refused before the mesh has read its key may be accepted after a crash
            device.subscribe(f"{SUBJECT}.to.nobody")
            device.port = network.datagrams(device.port)
        self._udp = [
            UdpSender(f"u{number}", device, self.rates.udp, self.sent, self.chance)
            for number, device in enumerate(self._devices)
        ]

    @property
    def _senders(self) -> list[Publisher | UdpSender | Requester]:
        return [*self._publishers, *self._udp, *self._requesters]

    # -- load --------------------------------------------------------------------------------------------------

    async def do(self, blows: Iterable[Blow], watch: Watch | None = None) -> list[str]:
        """The faults that were found."""
        if watch is not None:
            watch.begin(self)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._end_tasks)
            for device in self._devices:
                stack.callback(device.close)
            self._begin(self._keep_alive())
            self._begin(self.network.serve())
            await self._begin_receiving()
            for sender in self._senders:
                self._begin(sender.run())
            await self._recover(time.monotonic())  # until all streams have begun
            before = self.mesh.usage()
            if watch is not None:
                self._begin(watch.look())
            for blow in blows:
                await asyncio.sleep(self.chance.uniform(*self.pause))
                await self._strike(blow)
            await self._finish()
            seen = list(watch.judge(self.say)) if watch is not None else []
        return [*seen, *self._promised_in_vain, *self._faults(), *self._not_back_to_normal(before), *self._audit()]

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep_alive(self) -> None:
        while True:
            self.mesh.revive()
            await asyncio.sleep(LOOK_SECONDS)

    async def _begin_receiving(self) -> None:
        serving = asyncio.Event()
        self._begin(serve(self.mesh.port("edge-2", "yamp"), self.requests, serving.set))
        for receiver in self.receivers:
            self._begin(receiver.run())
        async with asyncio.timeout(RECOVERY_SECONDS):
            await serving.wait()
            for receiver in self.receivers:
                await receiver.subscribed.wait()

    # -- blows -------------------------------------------------------------------------------------------------

    async def _strike(self, blow: Blow) -> None:
        at = time.monotonic()
        match blow.how:
            case How.KILL:
                struck = [part for part in blow.parts if self.mesh.signal(part, signal.SIGKILL, self.chance)]
                self.kills += len(struck)
            case How.FREEZE:
                await self._freeze(blow)
            case How.AWAY:
                with self.mesh.unattended():
                    for part in blow.parts:
                        self.mesh.signal(part, signal.SIGKILL, self.chance)
                    await self._nothing_acknowledged(blow.seconds)
            case How.CUT | How.RESTART:
                await self._trouble_brokers(blow)
            case How.FILL if self.fill is not None:
                await self.fill(blow.seconds)
            case How.STORM:
                self.network.weather = STORM
                await asyncio.sleep(blow.seconds)
                self.network.weather = CLEAR
            case How.CLOCK:
                self.mesh.clocks[blow.parts[0]].set(blow.ahead)
        self._recovered(await self._recover(at), str(blow))
        if self.mesh.brokers is not None:
            await self._until_in_sync(self.mesh.brokers)

    async def _nothing_acknowledged(self, seconds: float) -> None:
        """Too few copies are left, so a promise that is made now is one that nobody can keep."""
        await asyncio.sleep(UNDER_WAY_SECONDS)
        before = len(self.sent.acknowledged)
        await asyncio.sleep(seconds - UNDER_WAY_SECONDS)
        if more := len(self.sent.acknowledged) - before:
            self._promised_in_vain.append(f"{more} messages were acknowledged while too few brokers were there")

    async def _trouble_brokers(self, blow: Blow) -> None:
        assert self.mesh.brokers is not None
        for part in blow.parts:
            if blow.how is How.CUT:
                self.mesh.brokers.cut(part)
                await asyncio.sleep(blow.seconds)
                self.mesh.brokers.mend(part)
            else:
                await asyncio.to_thread(self.mesh.brokers.restart, part)
                await self._until_in_sync(self.mesh.brokers)

    async def _until_in_sync(self, brokers: Brokers) -> None:
        """Until every partition has all of its copies again: the next blow must not be the second one."""
        at = time.monotonic()
        while lacking := await asyncio.to_thread(brokers.lacking):
            if time.monotonic() > at + RECOVERY_SECONDS:
                raise AssertionError(f"copies are behind after {RECOVERY_SECONDS:.0f} s: {lacking}{brokers.logs()}")
            await asyncio.sleep(LOOK_SECONDS)

    async def _freeze(self, blow: Blow) -> None:
        """The same process goes on: there may be several of its kind."""
        pid = self.mesh.signal(blow.parts[0], signal.SIGSTOP, self.chance)
        await asyncio.sleep(blow.seconds)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _recovered(self, seconds: float, blow: str) -> None:
        self.recoveries[re.split(" for | by ", blow)[0]].append(seconds)
        self.say(f"{blow}: {seconds:.1f} s until everything came again")

    async def _recover(self, at: float) -> float:
        """Seconds from `at` until what is sent comes again, from each publisher to each receiver."""
        deadline = time.monotonic() + RECOVERY_SECONDS
        while (seconds := self._recovery(at)) is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"no recovery in {RECOVERY_SECONDS:.0f} s{self.mesh.mesh.logs()}")
            self._check_sessions()
            await asyncio.sleep(LOOK_SECONDS)
        return seconds

    def _recovery(self, at: float) -> float | None:
        seconds = [
            verdict.recovery_seconds(receiver.received, self.sent, publisher, at)
            for receiver in self.receivers
            for publisher in ("p0", "p1")
        ]
        known = [one for one in seconds if one is not None]
        return max(known) if len(known) == len(seconds) else None

    def _check_sessions(self) -> None:
        """Those at the edge that lives must live; and who is to go on by himself has not given up."""
        for task in self._tasks:
            if task.done() and (failed := task.exception()) is not None:
                raise AssertionError(f"{task.get_coro()}: {type(failed).__name__}: {failed}")
        for receiver in self.receivers:
            if receiver.received.ended:
                raise AssertionError(f"the {receiver.received.name} receiver: {receiver.received.ended}")

    # -- the end -----------------------------------------------------------------------------------------------

    async def _finish(self) -> None:
        """Senders stop; publishers not before everything of theirs is acknowledged."""
        for sender in self._senders:
            sender.stop()
        await self._until(lambda: all(one.is_done for one in self._publishers), "all is acknowledged")
        await self._until(lambda: not self._unanswered(), "all requests are answered")
        self._accepted = await asyncio.to_thread(self._events)
        promised = self.sent.acknowledged | self._accepted
        await self._until(lambda: not self._missing(promised), "all has come", complain=False)
        self._check_sessions()

    def _unanswered(self) -> set[int]:
        return {number for one in self._requesters for number in one.numbers} - self.requests.answers.keys()

    def _missing(self, promised: set[Message]) -> bool:
        return any(promised - one.received.counts.keys() for one in self.receivers)

    async def _until(self, condition: Callable[[], bool], what: str, *, complain: bool = True) -> None:
        deadline = time.monotonic() + FINISH_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                if complain:
                    raise AssertionError(f"not within {FINISH_SECONDS:.0f} s: {what}{self.mesh.mesh.logs()}")
                return
            await asyncio.sleep(LOOK_SECONDS)

    def _events(self) -> set[Message]:
        """Returns what the mesh says it has accepted: in `events`, from the beginning to the end."""
        config = load_config(self.mesh.mesh.config_file)
        return {
            Message.from_json(record.value)
            for record in every_record(config, "events")
            if header(record, "ce_subject").startswith(SUBJECT + ".")
        }

    # -- the verdict -------------------------------------------------------------------------------------------

    def _faults(self) -> Iterator[str]:
        promised = self.sent.acknowledged | self._accepted
        for received in (one.received for one in self.receivers):
            yield from verdict.lost(received, promised)
            yield from verdict.invented(received, self.sent)
            yield from verdict.doubled(received)
            yield from verdict.disordered(received)
        asked = [number for one in self._requesters for number in one.numbers]
        yield from verdict.broken_requests(self.requests, asked)

    def _not_back_to_normal(self, before: dict[str, tuple[int, int]]) -> Iterator[str]:
        deadline = time.monotonic() + GONE_SECONDS
        while (left := self.mesh.left_behind()) and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
        yield from (f"left behind: {one.pid} {one.command[:100]}" for one in left)
        after = self.mesh.usage()
        for part, (handles, memory) in before.items():
            now_handles, now_memory = after.get(part, (0, 0))
            if now_handles > handles + MORE_HANDLES:
                yield f"{part} has {now_handles} open handles, and had {handles}"
            if now_memory > MORE_MEMORY * memory + SPARE_BYTES:
                yield f"{part} has {now_memory >> 20} MiB of memory, and had {memory >> 20}"

    def _audit(self) -> Iterator[str]:
        said = self.mesh.mesh.command("audit", "--output", "json", seconds=AUDIT_SECONDS)
        try:
            audited = json.loads(said.stdout)
        except ValueError:
            yield f"audit said nothing: {said.stderr[-2000:]}"
            return
        if not audited["balanced"]:
            yield f"audit: {json.dumps(audited)[:3000]}"
        yield from verdict.miscounted(samples(self.mesh.management(ROUTER)), audited)

    def summary(self) -> Iterator[str]:
        sent, acknowledged = len(self.sent.at), len(self.sent.acknowledged)
        answered = sum(said == "answered" for said in self.requests.answers.values())
        yield f"{self.kills} kills; {sent} sent, {acknowledged} of them acknowledged, {len(self._accepted)} accepted"
        busiest = sorted(Counter(int(at) for at in self.sent.at.values()).values())
        yield f"{busiest[len(busiest) // 2]} sent a second in the middle, {busiest[-1]} at most"
        yield f"the network lost {self.network.lost} datagrams and broke {self.network.broken} streams"
        yield f"{answered} of {len(self.requests.answers)} requests answered"
        for blow, seconds in sorted(self.recoveries.items()):
            worst, middle = max(seconds), sorted(seconds)[len(seconds) // 2]
            yield f"{blow:<40} {len(seconds):>4} times, {middle:6.1f} s in the middle, {worst:6.1f} s at worst"


def run(
    mesh: ChaosMesh, blows: Iterable[Blow], chance: random.Random, say: Callable[[str], None],
    watch: Watch | None = None, **more: Any,
) -> Run:  # fmt: skip
    """Raises AssertionError with every fault that was found."""
    one = partial(Run, mesh, chance, say)(**more)
    faults = asyncio.run(one.do(blows, watch))
    for line in one.summary():
        say(line)
    assert not faults, "\n".join(faults)
    return one
