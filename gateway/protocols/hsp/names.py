"""Names the requests of a peer: by their own ids, as long as that is unambiguous.

A MessageID, and a correlation, may be used again once it was answered, and our word that time is up is an answer. The
server's own may still come then, and must not pass for the answer to the next request of that id. So that one gets a
name of its own, which goes to the log beside its frame.
"""

from __future__ import annotations

from gateway.protocols.recent_ids import RecentIds
from gateway.records.raw_log.frames import RawFrame


class Names:
    def __init__(self) -> None:
        self._late = RecentIds()
        self._open: dict[str, str] = {}
        self._count = 0
        self.message_ids: dict[str, int] = {}
        """The MessageIDs to answer with, by name."""

    def of(self, request: str) -> str:
        """Returns the name of the open request of this id."""
        return self._open.get(request, request)

    def give(self, request: str, message_id: int) -> str:
        """Gives a name to a new request of this id, which came under this MessageID."""
        name = request
        if request in self._late:
            self._count += 1
            name = self._open[request] = f"{request}.{self._count}"
        self.message_ids[name] = message_id
        return name

    def end(self, name: str, *, late: bool = False) -> None:
        """Ends the request. With `late`, the answer of its server may still come."""
        request = id_of(name)
        self._open.pop(request, None)
        self.message_ids.pop(name, None)
        if late:
            self._late.add(request)


def id_of(name: str) -> str:
    """Returns the id in a name.

    >>> id_of("e7.2"), id_of("e7")
    ('e7', 'e7')
    """
    return name.partition(".")[0]


def name_in(raw: RawFrame, request: str) -> str:
    """Returns the name of a request of this id, or of the one that a cancel means."""
    return raw.replies[0].request if raw.replies else request
