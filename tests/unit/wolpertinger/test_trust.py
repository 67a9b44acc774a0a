"""What trust a call needs, and when a session opens that requires some."""

from __future__ import annotations

import pytest

from gateway.protocols.actions import FrameRefused, FramesReceived, Identified, Opened
from gateway.protocols.wolpertinger.codec import encode
from gateway.protocols.wolpertinger.frames import Call, ErrorCode, RemoteError, Response
from gateway.reasons import Reason
from tests.unit.contract.conversation import only
from tests.unit.wolpertinger.authenticating import AUTH, asks, exchange_keys, prove_cluster, prove_user
from tests.unit.wolpertinger.talk import CALL, CALL_ID, call, talk, text

SUBSCRIBE = call("Mesh", "Subscribe", text("a.>"))


@pytest.mark.parametrize("refused", [CALL, SUBSCRIBE])
@pytest.mark.parametrize("required", [1, 2, 3, 4])
def test_a_call_below_the_required_trust_hears_201_and_is_not_logged(refused: Call, required: int) -> None:
    conversation = talk({"require_trust": required}, opens=False)
    (done,) = conversation.is_told(refused)
    assert isinstance(done, FrameRefused)
    assert done.reason is Reason.UNAUTHENTICATED
    assert conversation.answers() == [RemoteError(refused.component, ErrorCode.NOT_AUTHORISED, CALL_ID)]


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
    assert conversation.answers() == [RemoteError("Core", ErrorCode.UNKNOWN_MESSAGE)]


def test_what_is_not_encrypted_after_the_key_exchange_is_trusted_no_more_than_a_connection() -> None:
    conversation = talk({"require_trust": 2}, opens=False)
    cipher = exchange_keys(conversation)
    assert only(FramesReceived, conversation.is_told(CALL, cipher=cipher)).data == encode(CALL)
    (plain,) = conversation.is_told(CALL)
    assert isinstance(plain, FrameRefused)
    assert conversation.answers(cipher) == [RemoteError("Core", ErrorCode.NOT_AUTHORISED, CALL_ID)]


def test_where_no_encryption_is_required_plain_calls_go_on_after_the_key_exchange() -> None:
    conversation = talk({"require_trust": 1}, opens=False)
    asks(conversation, "EstablishConnection")
    exchange_keys(conversation)
    assert only(FramesReceived, conversation.is_told(CALL)).data == encode(CALL)


def test_an_answer_of_a_peer_that_is_not_trusted_counts_for_nothing() -> None:
    conversation = talk({"require_trust": 1}, opens=False)
    done = conversation.is_told(Response("Core", CALL_ID), RemoteError("Core", 100))
    assert [type(action) for action in done] == [FrameRefused, FrameRefused]
    assert conversation.says() == [b"result:0;message_id:1;", b"result:0;message_id:2;"]
