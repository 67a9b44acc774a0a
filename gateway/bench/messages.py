"""The messages that the measuring process and its children exchange over a pipe.

    generator                       measure                        receiver
    Ready    ─────────────────────►         ◄───────────────────── Ready
             ◄──── Probe (until Go)         ◄───────────────────── Probed
             ◄──── Go(start)                 Go(start) ───────────►
    Sent     ─────────────────────►          Expect(frames) ──────►
                                            ◄───────────────────── Collected

Where requests are measured it is the generator that is answered, and so the generator that says `Probed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.bench.arrivals import Noted
from gateway.client import PacketKey


@dataclass(frozen=True, slots=True)
class BenchTlsFiles:
    ca: str | None = None
    cert: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class PeerPlace:
    """The place where one side of the load connects. `keys` are emm's, in turn for the sessions there.

    `is_bare`: no mesh is there to subscribe at; what is to be received comes to this address by itself.
    """

    protocol: str
    address: str
    keys: tuple[PacketKey, ...] = ()
    tls: BenchTlsFiles = field(default_factory=BenchTlsFiles)
    is_bare: bool = False


@dataclass(frozen=True, slots=True)
class Ready:
    """Says that the child is connected and subscribed, and that all frames are made."""


@dataclass(frozen=True, slots=True)
class SendProbe:
    """Send probes, again and again, until there is another order."""


@dataclass(frozen=True, slots=True)
class Probed:
    """Says that something has come through from every session."""


@dataclass(frozen=True, slots=True)
class Go:
    """The schedule's start, in nanoseconds of the monotonic clock."""

    start: int


@dataclass(frozen=True, slots=True)
class Expect:
    """No more is sent. Each subscriber is owed so many frames; wait for them, and no longer than `seconds`."""

    frames: int
    seconds: float


@dataclass(frozen=True, slots=True)
class SendReport:
    """Reports what a generator has sent.

    `ended` is when the last frame had been handed over. `late` is nanoseconds behind schedule, one for each wake-up, as
    packed eight-byte numbers. `outcomes` are of publications that were confirmed or refused, and of requests.
    """

    frames: int
    ended: int
    late: bytes
    cpu_seconds: float
    outcomes: Mapping[str, int]
    answered: Noted | None = None


@dataclass(frozen=True, slots=True)
class Collected:
    """Reports what a receiver has collected.

    `kernel_dropped` counts datagrams that came to the receiver itself and found its buffer full.
    """

    noted: tuple[Noted, ...]
    cpu_seconds: float
    kernel_dropped: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """The reason why the child cannot go on, in one line."""

    why: str


Order = SendProbe | Go | Expect
Report = Ready | Probed | SendReport | Collected | Failed
