"""The work that a run asks of a mesh."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gateway.bench.marker import MIN_BODY_BYTES
from gateway.protocols import protocols
from gateway.protocols.emm.frames import MAX_PACKET_BYTES

MAX_STREAM_BODY_BYTES = 1_000_000
"""Below the 1 MiB of a frame that listeners take by default, with room for what stands around a body."""

DATAGRAM_OVERHEAD_BYTES, STREAM_OVERHEAD_BYTES = 48, 640
"""Of a frame made beforehand: a bytes object and its place in a list; a delivery and its names, with room: 256 bytes
were measured for yamp, 523 for wolpertinger."""


class WorkError(Exception):
    """Raised for work that cannot be done; the message names the option at fault."""


class Sign(StrEnum):
    """The way in which an emm packet is proven."""

    HMAC = "hmac"
    ED25519 = "ed25519"
    BOTH = "both"
    NONE = "none"

    @property
    def uses_hmac(self) -> bool:
        return self in (Sign.HMAC, Sign.BOTH)

    @property
    def uses_ed25519(self) -> bool:
        return self in (Sign.ED25519, Sign.BOTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The work of one run. `size` is of a whole packet for emm, of a body for all others.

    `run` makes subject and marker the run's own.

    `sessions` publish, or ask, in turn; `fan_out` sessions each receive every event, or share the requests.
    """

    origin: str
    target: str
    run: str
    request: bool = False
    rate: float = 1_000.0
    seconds: float = 8.0
    warm_up: float = 2.0
    size: int = 200
    sign: Sign = Sign.HMAC
    sessions: int = 16
    fan_out: int = 1

    @property
    def subject(self) -> str:
        return f"bench.{self.run}"

    @property
    def total(self) -> int:
        """The number of frames, those of the warm-up included."""
        return max(round(self.rate * (self.warm_up + self.seconds)), 1)

    @property
    def frames_bytes(self) -> int:
        """The memory of the frames that are made before the run. A request is made only when it is due."""
        if self.request:
            return 0
        overhead = STREAM_OVERHEAD_BYTES if protocols()[self.origin].session else DATAGRAM_OVERHEAD_BYTES
        return self.total * (self.size + overhead)

    @property
    def first_measured(self) -> int:
        return min(round(self.rate * self.warm_up), self.total - 1)

    @property
    def is_signed(self) -> bool:
        return self.origin == "emm" and self.sign is not Sign.NONE

    def title(self) -> str:
        """Returns the protocols that a frame passes.

        >>> Workload(origin="yamp", target="hsp", run="0000", request=True).title()
        'yamp → hsp → yamp'
        """
        return f"{self.origin} → {self.target}" + (f" → {self.origin}" if self.request else "")

    def check(self) -> None:
        """Raises WorkError."""
        if self.request:
            self._check_sessions()
        if self.origin == "emm" and self.size > MAX_PACKET_BYTES:
            raise WorkError(f"--size {self.size}: an emm packet has at most {MAX_PACKET_BYTES} bytes")
        if not MIN_BODY_BYTES <= self.size <= MAX_STREAM_BODY_BYTES:
            raise WorkError(f"--size {self.size}: from {MIN_BODY_BYTES} to {MAX_STREAM_BODY_BYTES} bytes")
        if self.sessions > self.total:
            raise WorkError(f"--sessions {self.sessions}: the run has only {self.total} frames")

    def _check_sessions(self) -> None:
        for option, name in (("--from", self.origin), ("--to", self.target)):
            if protocols()[name].session is None:
                raise WorkError(f"{option} {name}: {name} has no requests")
