"""The edge as its connections see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gateway.edge.carriers.read_queue import ReadQueue
from gateway.edge.memory_budget import MemoryBudget
from gateway.edge.publisher import RawPublisher
from gateway.protocols.actions import Delivered, LoginAsked, Terminated

if TYPE_CHECKING:
    from gateway.edge.connection import Connection


class MeshServices(Protocol):
    edge: str
    epoch: int
    publisher: RawPublisher
    memory: MemoryBudget
    reads: ReadQueue

    def opened(self, connection: Connection) -> int:
        """Takes in a new connection, and returns its number."""

    def known(self, connection: Connection) -> None:
        """Notes that its opening has been logged: it may be given deliveries."""

    def log_in(self, connection: Connection, asked: LoginAsked) -> None:
        """Judges the token in a request, and answers it."""

    def ended(self, connection: Connection, end: Terminated) -> None: ...
    def delivered(self, connection: Connection, end: Delivered) -> None: ...
