"""Reports the ends of deliveries to sessions: to the queue of a node where they are owed, else to the outcomes."""

from __future__ import annotations

from gateway.edge.delivery.egress_delivery import EgressDelivery, OutcomeRecorder, Receiver
from gateway.edge.delivery.redelivery import Receiving, RedeliveryQueues
from gateway.protocols.actions import Delivered


class SessionDeliveries:
    """Passes what sessions report of their deliveries to where it is kept."""

    def __init__(self, queues: RedeliveryQueues, outcomes: OutcomeRecorder) -> None:
        self._queues = queues
        self._outcomes = outcomes

    def opened(self, session: Receiving) -> None:
        """Notes that the session's opening has been logged: it may be given what its node is owed."""
        if session.terms.redeliver_seconds:
            self._queues.opened(session)

    def closed(self, session: Receiving) -> None:
        if session.terms.redeliver_seconds:
            self._queues.closed(session)

    def delivered(self, session: Receiving, end: Delivered) -> None:
        delivery = end.delivery
        if not isinstance(delivery, EgressDelivery):
            raise TypeError("a delivery that is none of this edge's")
        if delivery.owed_to:
            self._queues.delivered(session, end)
        else:
            source = session.source
            receiver = Receiver(source.session_id, source.listener, source.node)
            self._outcomes.end(delivery, receiver, end.outcome, end.detail)
