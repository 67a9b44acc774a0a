"""The layer-1 ids of both directions: what we received, and what we sent and the peer has yet to confirm."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from gateway.protocols.actions import Delivery
from gateway.protocols.wolpertinger.fragments import EXPIRY_SECONDS
from gateway.protocols.wolpertinger.frames import ID_LIMIT
from gateway.protocols.wolpertinger.options import TRIES

MAX_REMEMBERED = 65_536
"""Ids received, the oldest forgotten first: a peer that sends a thousand messages a second repeats within the last
minute of them, which is as long as an id counts."""

MAX_UNCONFIRMED_BYTES = 16_777_216
"""What waits for a confirmation must be kept to be sent again. A peer that never confirms gets no further than this;
one that does is at most a round trip behind."""
SENT_BYTES = 512
"""The cost of a message beside its bytes: its entries in the tables of ids and of timers. So at most 32,768 wait."""


class ReceivedIds:
    """Ids of complete messages, so that a repeat is confirmed again and not delivered again.

    The value says whether the confirmation was sent: a repeat that comes while Kafka has yet to answer is confirmed
    when it has, with the first.
    """

    def __init__(self) -> None:
        self._ids: OrderedDict[int, tuple[float, bool]] = OrderedDict()
        """A dict would look for its oldest entry through all that were deleted before it: 30 µs a message."""

    def add(self, message_id: int, now: float) -> None:
        self._ids.pop(message_id, None)
        self._ids[message_id] = now + EXPIRY_SECONDS, False
        while len(self._ids) > MAX_REMEMBERED or next(iter(self._ids.values()))[0] <= now:
            del self._ids[next(iter(self._ids))]

    def confirmed(self, message_id: int) -> None:
        if message_id in self._ids:
            self._ids[message_id] = self._ids[message_id][0], True

    def is_repeat(self, message_id: int, now: float) -> bool:
        return message_id in self._ids and self._ids[message_id][0] > now

    def was_confirmed(self, message_id: int) -> bool:
        return self._ids[message_id][1]


@dataclass(slots=True)
class SentMessage:
    """A message that waits for its confirmation. `delivery` is None for what the session itself had to say."""

    messages: list[bytes]
    delivery: Delivery | None
    tries: int = 1

    @property
    def size(self) -> int:
        return SENT_BYTES + sum(len(message) for message in self.messages)


class UnconfirmedMessages:
    """Ids count up from 1 and past those that still wait."""

    def __init__(self) -> None:
        self._last = 0
        self._sent: dict[int, SentMessage] = {}
        self.bytes = 0

    @property
    def full(self) -> bool:
        return self.bytes >= MAX_UNCONFIRMED_BYTES

    def next_id(self) -> int:
        self._last = self._last % (ID_LIMIT - 1) + 1
        while self._last in self._sent:
            self._last = self._last % (ID_LIMIT - 1) + 1
        return self._last

    def add(self, message_id: int, sent: SentMessage) -> None:
        self._sent[message_id] = sent
        self.bytes += sent.size

    def take(self, message_id: int) -> SentMessage | None:
        """Takes out a message that was confirmed or given up."""
        sent = self._sent.pop(message_id, None)
        if sent is not None:
            self.bytes -= sent.size
        return sent

    def again(self, message_id: int) -> SentMessage | None:
        """Returns the message to be sent once more; None if it has had its tries."""
        sent = self._sent[message_id]
        if sent.tries >= TRIES:
            return None
        sent.tries += 1
        return sent

    def take_all(self) -> list[SentMessage]:
        sent = list(self._sent.values())
        self._sent.clear()
        self.bytes = 0
        return sent
