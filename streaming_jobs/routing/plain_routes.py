"""Finds the routes of plain deliveries that were made one by one, so that edges can deliver those in runs too."""

from __future__ import annotations

from gateway.core.event import Kind
from gateway.records.egress import Deliver, Group
from gateway.records.egress_codec import Route

RECEIVERS_REMEMBERED = 65_536
"""The most receivers of remembered routes, some megabytes. Beyond so many all are forgotten, and made when needed."""

_EVENT = Kind.EVENT
_Key = tuple[str, str, int, str, tuple[int, ...], int, int]


class PlainRoutes:
    """Knows the routes of a worker.

    A route is found by the identity of its receivers, which the fan-out keeps from event to event: to compare a
    thousand sessions for each event would take longer than to pack them. The route keeps them alive.
    """

    def __init__(self) -> None:
        self._routes: dict[_Key, Route] = {}
        self._receivers = 0

    def find(self, entry: Deliver) -> Route | None:
        """Returns the route that says, with the entry's position, time and frame, all of the entry; or None."""
        if not _is_plain(entry):
            return None
        [group] = entry.groups
        receivers = id(group.sessions), id(group.addresses)
        key = (entry.subject, entry.origin, entry.epoch, group.protocol, group.stamps, *receivers)
        route = self._routes.get(key)
        if route is None:
            self._receivers += group.receivers + 1
            if self._receivers > RECEIVERS_REMEMBERED:
                self._routes.clear()
                self._receivers = group.receivers + 1
            shared = Group(group.protocol, b"", group.stamps, group.sessions, group.addresses)
            route = self._routes[key] = Route(_EVENT, entry.subject, entry.origin, entry.epoch, (shared,))
        return route


def _is_plain(entry: Deliver) -> bool:
    """True for an event with one form, which nobody owes, answers, confirms, waits for, follows or has had before."""
    if entry.kind is not _EVENT or len(entry.groups) != 1:
        return False
    group = entry.groups[0]
    return not (
        group.owed or group.reply or group.request or entry.ticket or entry.first_id or entry.required_confirmations
        or entry.groups_on_failure or entry.confirm or entry.is_migrated or entry.trace
    )  # fmt: skip
