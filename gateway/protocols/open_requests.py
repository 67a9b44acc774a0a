"""The requests that a session holds open: those of its peer, and those that its peer was sent."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from typing import TypeVar

from gateway.protocols.request_budget import RequestBudget
from gateway.records.raw_log.frames import ReplyAddress

IdT = TypeVar("IdT", bound=Hashable)
RequestT = TypeVar("RequestT")


class OpenRequests(Mapping[IdT, RequestT]):
    """Open requests by their ids, the oldest first. Each counts in the budget that all sessions of an edge share."""

    def __init__(self, budget: RequestBudget) -> None:
        self._budget = budget
        self._requests: OrderedDict[IdT, RequestT] = OrderedDict()
        """A dict would look for its oldest entry through all that were deleted before it: up to 60 µs a request."""

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[IdT]:
        return iter(self._requests)

    def __getitem__(self, request_id: IdT) -> RequestT:
        return self._requests[request_id]

    def has_room(self, most: int) -> bool:
        """True if one more may be opened by a session that may hold `most`."""
        return len(self) < most and self._budget.has_room(len(self))

    def add(self, request_id: IdT, request: RequestT) -> None:
        self._budget.open_requests += request_id not in self._requests
        self._requests[request_id] = request

    def end(self, request_id: IdT) -> RequestT | None:
        """Returns the request that is over, or None if it is not open."""
        request = self._requests.pop(request_id, None)
        if request is not None:
            self._budget.open_requests -= 1
        return request

    def clear(self) -> None:
        self._budget.open_requests -= len(self._requests)
        self._requests.clear()


class ServedRequests(OpenRequests[Hashable, ReplyAddress]):
    """The requests that the peer was sent, by their ids on this connection, with the addresses of their requesters."""

    def __init__(self, budget: RequestBudget) -> None:
        super().__init__(budget)
        self._ids: dict[tuple[str, int, int, str], Hashable] = {}

    def add(self, request_id: Hashable, request: ReplyAddress) -> None:
        super().add(request_id, request)
        self._ids[request.key] = request_id

    def id_of(self, reply: ReplyAddress | None) -> Hashable | None:
        """Returns the id under which the request of this address went to the peer, if it did and is open."""
        return None if reply is None else self._ids.get(reply.key)

    def end(self, request_id: Hashable) -> ReplyAddress | None:
        reply = super().end(request_id)
        if reply is not None:
            self._ids.pop(reply.key, None)
        return reply

    def clear(self) -> None:
        super().clear()
        self._ids.clear()
