"""Tests what trust a call needs, and when a session opens that requires some."""

from __future__ import annotations

import pytest

from gateway.core.reasons import Reason
from gateway.protocols.actions import FrameRefused, FramesReceived, Identified, Opened
from gateway.protocols.wolpertinger.codec import encode
from gateway.protocols.wolpertinger.frames import Call, CallResponse, RemoteError, RemoteErrorCode
from tests.unit.protocols.contract.conversation import only
from tests.unit.protocols.wolpertinger.authenticating import AUTH, asks, exchange_keys, prove_cluster, prove_user
from tests.unit.protocols.wolpertinger.talk import CALL, CALL_ID, Talk, call, confirmations, received, talk, text

SUBSCRIBE = call("Mesh", "Subscribe", text("a.>"))


@pytest.mark.parametrize("refused", [CALL, SUBSCRIBE])
@pytest.mark.parametrize("required", [1, 2, 3, 4])
def test_a_call_below_the_required_trust_hears_201_and_is_not_logged(refused: Call, required: int) -> None:
    conversation = talk({"require_trust": required}, opens=False)
    (done,) = conversation.is_told(refused)
    assert isinstance(done, FrameRefused)
    assert done.reason is Reason.UNAUTHENTICATED
    assert conversation.answers() == [RemoteError(refused.component, RemoteErrorCode.NOT_AUTHORISED, CALL_ID)]


def test_a_session_opens_at_the_required_trust_and_is_identified_after_that() -> None:
    conversation = talk({"require_trust": 4, "auth": AUTH}, opens=False)
    asks(conversation, "EstablishConnection")
    prove_cluster(conversation)
    assert conversation.said == []
    prove_user(conversation)
    assert [type(action) for action in conversation.said] == [Opened, Identified]
    assert only(Identified, conversation.said).node == "user:ann"
    assert only(FramesReceived, conversation.is_told(CALL)).data == encode(CALL)


def test_a_peer_that_never_proves_itself_is_let_go() -> None:
    conversation = talk({"require_trust": 1}, opens=False, handshake_seconds=5.0)
    conversation.waits(4.9)
    assert conversation.ended is None
    conversation.waits(0.1)
    assert conversation.ended == "timeout"


def test_a_peer_without_trust_is_told_of_broken_xml_and_nothing_is_logged() -> None:
    conversation = talk({"require_trust": 1}, opens=False)
    (done,) = conversation.is_told(b"<Hello/>")
    assert isinstance(done, FrameRefused)
    assert conversation.answers() == [RemoteError("Core", RemoteErrorCode.UNKNOWN_MESSAGE)]


@pytest.mark.parametrize("required", [0, 2])
@pytest.mark.parametrize("plain", [CALL, CallResponse("Core", CALL_ID), call("Authentication", "UserAuthGetToken")])
def test_what_is_not_encrypted_after_the_key_exchange_is_answered_with_a_plain_202_and_a_reset(
    plain: Call | CallResponse, required: int
) -> None:
    conversation = talk({"require_trust": required}, opens=not required)
    cipher = exchange_keys(conversation)
    assert only(FramesReceived, conversation.is_told(CALL, cipher=cipher)).data == encode(CALL)
    conversation.says()
    done = conversation.is_told(plain)
    assert only(FrameRefused, done).reason is Reason.UNAUTHENTICATED
    assert not received(conversation)[1:]
    assert conversation.answers() == [RemoteError("Authentication", RemoteErrorCode.ENCRYPTION, CALL_ID)]
    assert conversation.ended == "unauthenticated"


def test_broken_xml_that_is_not_encrypted_after_the_key_exchange_is_a_202_too(conversation: Talk) -> None:
    exchange_keys(conversation)
    conversation.is_told(b"<Hello/>")
    assert conversation.answers() == [RemoteError("Authentication", RemoteErrorCode.ENCRYPTION)]
    assert conversation.ended == "unauthenticated"


def test_a_peer_that_gives_notice_of_a_reset_is_let_go_encrypted_or_not(conversation: Talk) -> None:
    exchange_keys(conversation)
    conversation.is_told(call("Core", "SendResetNotice"))
    assert confirmations(conversation.says()) == [(2, 0)]
    assert conversation.ended == "bye"


def test_an_answer_of_a_peer_that_is_not_trusted_counts_for_nothing() -> None:
    conversation = talk({"require_trust": 1}, opens=False)
    done = conversation.is_told(CallResponse("Core", CALL_ID), RemoteError("Core", 100))
    assert [type(action) for action in done] == [FrameRefused, FrameRefused]
    assert conversation.says() == [b"result:0;message_id:1;", b"result:0;message_id:2;"]
