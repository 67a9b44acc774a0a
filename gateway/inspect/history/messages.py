"""Finds frames by what their sender knows of them: its node, and the id it gave to the message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

from gateway.core.reasons import Rejected
from gateway.inspect.history.rejections import RejectionFilter, rejections
from gateway.inspect.history.topics import History
from gateway.kafka.records import TopicRecord
from gateway.records import event_records

LEAST_ID_BYTES = 4
"""A shorter id stands in many a frame by chance."""


def find_message(history: History, node: str, message_id: str, since_us: int) -> Iterator[str]:
    """Yields the event ids of a node's message, the newest accepted first, then those refused.

    Nobody has decoded a refused frame for good, so it is known by the id's bytes somewhere in it.
    """
    return chain(_accepted(history, node, message_id, since_us), _refused(history, node, message_id, since_us))


def _accepted(history: History, node: str, message_id: str, since_us: int) -> Iterator[str]:
    for record in history.newest_first("events", history.between("events", since_us, None)):
        yield from reversed(list(ids_in(record, node, message_id)))


def ids_in(record: TopicRecord, node: str, message_id: str) -> Iterator[str]:
    """Yields the ids of the events in a record that are this message. Ids are compared as hexadecimal digits are."""
    with suppress(Rejected, KeyError, ValueError):
        for event in event_records.read(record.headers, record.value or b""):
            if event.node == node and event.message_id.lower() == message_id.lower():
                yield event.id


def _refused(history: History, node: str, message_id: str, since_us: int) -> Iterator[str]:
    try:
        octets = bytes.fromhex(message_id)
    except ValueError:
        return
    if len(octets) < LEAST_ID_BYTES:
        return
    for refused in rejections(history, RejectionFilter(node=node), since_us, None):
        if octets in refused.frame:
            yield refused.event_id
