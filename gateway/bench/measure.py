"""Measures one run: it starts the children, probes the path, sends the load and counts everything."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from gateway.bench import edge_counts
from gateway.bench.accounting import RunAccount, account
from gateway.bench.datagram_generator import generate_datagrams
from gateway.bench.datagram_receiver import receive_datagrams
from gateway.bench.machine import Usage, Watch
from gateway.bench.messages import Collected, Expect, Go, PeerPlace, Probed, Ready, SendProbe, SendReport
from gateway.bench.requester import generate_requests
from gateway.bench.schedule import SECOND_NS, Schedule
from gateway.bench.stream_generator import generate_events
from gateway.bench.stream_receiver import receive_events, serve_requests
from gateway.bench.worker_processes import BenchError, Child, Children
from gateway.bench.workload import Workload
from gateway.inspect.live.mesh_parts import MeshPart
from gateway.protocols import protocols

READY_SECONDS = 300.0
"""Fifteen million packets take a minute to make, five thousand sessions some seconds to open."""
PROBE_SECONDS = 40.0
"""A trust store that changed is read again within 10 s, and a router may have to come up first."""
LEAD_NS = 300_000_000
"""The time from the order to go to the start: the children must have heard the order before."""
LATE_SECONDS = 60.0
"""A generator may fall so far behind its schedule before the run is given up."""
WAIT_SECONDS = 15.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The setup of a run.

    `origin` is where the load goes in, `target` where it comes out. `roots` are processes whose cost is measured.

    `wait_seconds`: how long after the last frame was sent those that have not come are waited for.
    """

    origin: PeerPlace
    target: PeerPlace
    receivers: int = 1
    roots: Mapping[str, int] = field(default_factory=dict)
    edge: MeshPart | None = None
    wait_seconds: float = WAIT_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Everything measured in a run. Times are in nanoseconds of the monotonic clock.

    `began` is when the first measured frame was due.
    """

    work: Workload
    schedule: Schedule
    began: int
    sent: SendReport
    collected: tuple[Collected, ...]
    account: RunAccount
    usage: Mapping[str, Usage]
    edge: Mapping[str, int]
    load_average: float


def measure(work: Workload, setup: Setup, say: Say) -> Measured:
    """Raises BenchError, WorkError."""
    work.check()
    load_average = os.getloadavg()[0]
    with _children(work, setup) as children:
        say("preparing")
        children.each(Ready, READY_SECONDS, f"not ready within {READY_SECONDS:g} s", children.all)
        say("probing")
        children.generator.tell(SendProbe())
        _wait_probed(work, setup, children)
        return _run(work, setup, children, say, load_average)


def _wait_probed(work: Workload, setup: Setup, children: Children) -> None:
    probing: Sequence[Child] = (children.generator,) if work.request else children.receivers
    lost = (
        f"{work.title()}: within {PROBE_SECONDS:g} s nothing came through from one or more of {work.sessions} sessions"
    )
    hint = "" if setup.target.is_bare else "; `meshgate rejected list` tells what was refused"
    children.each(Probed, PROBE_SECONDS, lost + hint, probing)


def _run(work: Workload, setup: Setup, children: Children, say: Say, load_average: float) -> Measured:
    edge_before = edge_counts.read(setup.edge)
    schedule = Schedule(time.monotonic_ns() + LEAD_NS, work.rate, work.total)
    watch = Watch(setup.roots)
    watch.start()
    children.tell(Go(schedule.start))
    say(f"sending {work.total:,} frames at {work.rate:,.0f}/s, the first {work.warm_up:g} s to warm up")
    seconds = work.total / work.rate + LEAD_NS / SECOND_NS + LATE_SECONDS + setup.wait_seconds
    behind = f"the generator fell more than {LATE_SECONDS:g} s behind {work.rate:g}/s: choose a lower --rate"
    sent = children.each(SendReport, seconds, behind, (children.generator,))[0]
    children.tell(Expect(sent.frames, setup.wait_seconds))
    late = f"a receiver did not end within {setup.wait_seconds:g} s"
    collected = children.each(Collected, setup.wait_seconds + LATE_SECONDS, late, children.receivers)
    watch.stop()
    noted = [sent.answered] if sent.answered else [notes for each in collected for notes in each.noted]
    result = account(noted, schedule, work.first_measured, work.sessions)
    began = schedule.due(work.first_measured)
    return Measured(
        work=work,
        schedule=schedule,
        began=began,
        sent=sent,
        collected=tuple(collected),
        account=result,
        usage=watch.usage(began, max(sent.ended, schedule.start + result.last)),
        edge=edge_counts.difference(edge_before, edge_counts.read(setup.edge)),
        load_average=load_average,
    )


def _children(work: Workload, setup: Setup) -> Children:
    """Starts the receivers first: they have longer to go until they are ready."""
    receivers: list[Child] = []
    try:
        for number, share in enumerate(_shares(work.fan_out, setup.receivers)):
            receivers.append(_receiver(work, setup, number, share))
        return Children(_generator(work, setup), receivers)
    except BaseException:
        for receiver in receivers:
            receiver.end()
        raise


def _generator(work: Workload, setup: Setup) -> Child:
    if work.request:
        return Child("generator", generate_requests, work, setup.origin, setup.wait_seconds)
    is_datagram = protocols()[work.origin].session is None
    return Child("generator", generate_datagrams if is_datagram else generate_events, work, setup.origin)


def _receiver(work: Workload, setup: Setup, number: int, share: range) -> Child:
    place = setup.target
    if work.request:
        return Child(f"server {number}", serve_requests, work, place, len(share))
    if protocols()[work.target].session is None:
        keys = tuple(place.keys[share.start : share.stop])
        place = PeerPlace(place.protocol, place.address, keys, place.tls, place.is_bare)
        return Child(f"receiver {number}", receive_datagrams, work, place, len(share))
    return Child(f"receiver {number}", receive_events, work, place, len(share))


def _shares(subscribers: int, receivers: int) -> list[range]:
    """
    >>> _shares(5, 2), _shares(1, 2)
    ([range(0, 3), range(3, 5)], [range(0, 1)])
    """
    receivers = min(subscribers, receivers)
    bounds = [-(-subscribers * number // receivers) for number in range(receivers + 1)]
    return [range(start, stop) for start, stop in pairwise(bounds)]


__all__ = ["BenchError", "Measured", "Setup", "measure"]
