"""Open requests of all sessions together: a flood of one takes nothing from another."""

from __future__ import annotations

from gateway.core.event import Kind
from gateway.core.reasons import MeshError, Reason
from gateway.protocols.actions import AbandonRequests, FrameRefused, FramesReceived
from gateway.protocols.request_budget import RequestBudget
from gateway.protocols.yamp.codec import encode
from gateway.protocols.yamp.frames import Handshake, Request
from gateway.protocols.yamp.options import YampOptions
from gateway.protocols.yamp.session import YampSession
from tests.unit.protocols.contract.conversation import Conversation, asked_by, delivery, only, settings

OPTIONS = YampOptions()


def asks(number: int) -> bytes:
    return encode(Request(number.to_bytes(16, "big"), "sum", b"", progressive=False))


def opened(budget: RequestBudget) -> Conversation:
    conversation = Conversation(YampSession(settings(request_budget=budget), OPTIONS))
    conversation.receives(encode(Handshake(OPTIONS.formats[0])))
    return conversation


def opens(conversation: Conversation, count: int) -> int:
    """Returns how many of so many requests were taken."""
    before = conversation.session.open_requests
    for number in range(count):
        conversation.receives(asks(before + number))
    return conversation.session.open_requests - before


def test_a_greedy_session_gets_half_of_the_budget_and_leaves_the_rest_to_others() -> None:
    budget = RequestBudget(20)
    greedy, other, third = opened(budget), opened(budget), opened(budget)
    assert opens(greedy, 100) == 10
    assert opens(other, 100) == 5
    assert opens(third, 2) == 2
    assert budget.open_requests == 17


def test_a_request_beyond_the_share_is_answered_and_counted() -> None:
    conversation = opened(RequestBudget(2))
    assert only(FramesReceived, conversation.receives(asks(1)))
    conversation.sends()
    refused = only(FrameRefused, conversation.receives(asks(2)))
    assert refused.reason is Reason.OVERLOAD
    assert b"too many open requests" in conversation.sends()


def test_requests_that_end_leave_their_places() -> None:
    budget = RequestBudget(20)
    conversation = opened(budget)
    opens(conversation, 10)
    conversation.waits(100.0)
    assert (conversation.session.open_requests, budget.open_requests) == (0, 0)
    opens(conversation, 10)
    conversation.session.receive_eof()
    assert budget.open_requests == 0


def test_a_server_that_never_answers_loses_its_oldest_request_to_a_new_one() -> None:
    budget = RequestBudget(4)
    conversation = opened(budget)
    done = []
    for number in range(3):
        reply = asked_by(f"r{number}")
        done += conversation.delivers(delivery(asks(number), Kind.REQUEST, reply=reply))
    assert only(AbandonRequests, done) == AbandonRequests((asked_by("r0"),), MeshError.TIMEOUT)
    assert (conversation.session.open_served, budget.open_requests) == (2, 2)
    conversation.session.receive_eof()
    assert budget.open_requests == 0
