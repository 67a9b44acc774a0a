"""The component `Authentication` as server: connection, key exchange, and the proofs of a member or a user."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import pytest

from gateway.auth.passwords import prove_password
from gateway.protocols.actions import FramesReceived, Identified
from gateway.protocols.wolpertinger.authentication import MAX_FAILED_PROOFS
from gateway.protocols.wolpertinger.codec import encode
from gateway.protocols.wolpertinger.frames import CallResponse, Object, RemoteError, RemoteErrorCode, TrustLevel
from tests.unit.protocols.contract.conversation import only
from tests.unit.protocols.wolpertinger.authenticating import (
    AUTH,
    CLUSTER_KEY,
    IV,
    OUR_PAIR,
    PASSWORD,
    TRUE,
    asks,
    base64,
    exchange_keys,
    proof,
    prove_cluster,
    prove_user,
    value_of,
)
from tests.unit.protocols.wolpertinger.talk import CALL, CALL_ID, Talk, call, talk, text


def member(auth: dict[str, Any] = AUTH) -> Talk:
    """The peer has proven that it has the cluster's key."""
    conversation = talk({"auth": auth})
    assert value_of(prove_cluster(conversation)) is True
    return conversation


def test_a_connection_is_established(conversation: Talk) -> None:
    assert asks(conversation, "EstablishConnection") == CallResponse("Authentication", CALL_ID, TRUE)
    assert conversation.session.trust == TrustLevel.CONNECTED


def test_authentication_is_confirmed_and_answered_at_once_in_any_case(conversation: Talk) -> None:
    conversation.is_told(call("AUTHENTICATION", "establishconnection"))
    confirmation, _ = conversation.says()
    assert confirmation == b"result:0;message_id:1;"


def test_after_the_key_exchange_all_that_is_sent_is_encrypted_with_the_agreed_key(conversation: Talk) -> None:
    cipher = exchange_keys(conversation)
    assert conversation.session.trust == TrustLevel.ENCRYPTED
    conversation.is_told(call("Authentication", "EstablishConnection"), cipher=cipher)
    _, answer = conversation.says()
    assert answer.startswith(b"message_id:2;encryption:aes;")
    sealed = b64decode(answer.rpartition(b";")[2])
    assert cipher.decrypt(sealed) == encode(CallResponse("Authentication", CALL_ID, TRUE))


BAD_KEYS = [
    pytest.param(("no base64!", base64(IV)), RemoteErrorCode.INVALID_PARAMETERS, id="key not base64"),
    pytest.param((base64(OUR_PAIR.blob), "ä"), RemoteErrorCode.INVALID_PARAMETERS, id="iv not base64"),
    pytest.param((base64(OUR_PAIR.blob), base64(IV[1:])), RemoteErrorCode.INVALID_PARAMETERS, id="iv of 15 bytes"),
    pytest.param((base64(OUR_PAIR.blob[:-1]), base64(IV)), RemoteErrorCode.ENCRYPTION, id="key cut off"),
    pytest.param(
        (base64(OUR_PAIR.blob[:-1] + b"\0"), base64(IV)), RemoteErrorCode.ENCRYPTION, id="no point of the curve"
    ),
    pytest.param((base64(OUR_PAIR.blob),), RemoteErrorCode.INVALID_PARAMETERS, id="no iv"),
]


@pytest.mark.parametrize(("parameters", "code"), BAD_KEYS)
def test_a_key_exchange_that_is_none_changes_nothing(parameters: tuple[str, ...], code: RemoteErrorCode) -> None:
    conversation = talk()
    answer = asks(conversation, "KeyExchange", *map(text, parameters))
    assert answer == RemoteError("Authentication", code, CALL_ID)
    assert (conversation.session.trust, conversation.session.cipher) == (TrustLevel.NONE, None)


def test_there_is_one_key_exchange_in_a_session(conversation: Talk) -> None:
    cipher = exchange_keys(conversation)
    again = asks(conversation, "KeyExchange", text(base64(OUR_PAIR.blob)), text(base64(IV)), cipher=cipher)
    assert again == RemoteError("Authentication", RemoteErrorCode.ENCRYPTION, CALL_ID)
    assert conversation.session.cipher == cipher


def test_a_cluster_member_becomes_the_sessions_node() -> None:
    conversation = talk({"auth": AUTH})
    assert value_of(prove_cluster(conversation)) is True
    assert conversation.session.trust == TrustLevel.CLUSTER
    assert only(Identified, conversation.said).node == "cluster:member"


def test_a_member_who_is_a_user_becomes_the_sessions_node() -> None:
    conversation = member()
    conversation.said.clear()
    assert value_of(prove_user(conversation)) is True
    assert conversation.session.trust == TrustLevel.USER
    assert only(Identified, conversation.said).node == "user:ann"


@pytest.mark.parametrize(("method", "parameters"), [("UserAuthGetToken", ()), ("UserAuthVerify", ("ann", "AA=="))])
def test_a_user_must_be_a_member_of_the_cluster_first(method: str, parameters: tuple[str, ...]) -> None:
    conversation = talk({"auth": AUTH})
    exchange_keys(conversation)
    cipher = conversation.session.cipher
    answer = asks(conversation, method, *map(text, parameters), cipher=cipher)
    assert answer == RemoteError("Authentication", RemoteErrorCode.NOT_AUTHORISED, CALL_ID)
    assert conversation.session.trust == TrustLevel.ENCRYPTED


def test_frames_from_before_the_proof_are_logged_before_the_node_is_known() -> None:
    conversation = talk({"auth": AUTH})
    verify = encode(
        call("Authentication", "ClusterAuthVerify", proof(conversation, "ClusterAuthGetToken", CLUSTER_KEY.lower()))
    )
    lines = b"".join(
        b"message_id:%d;%s\n" % (at, b64encode(data)) for at, data in enumerate((encode(CALL), verify), 50)
    )
    assert [type(action) for action in conversation.receives(lines)] == [FramesReceived, Identified]


@pytest.mark.parametrize("auth", [AUTH, {}])
def test_a_wrong_proof_and_a_missing_secret_look_the_same(auth: dict[str, Any]) -> None:
    conversation = talk({"auth": auth})
    assert value_of(prove_cluster(conversation, "00")) is False
    conversation.session.trust = TrustLevel.CLUSTER
    assert value_of(prove_user(conversation, password="wrong")) is False
    assert value_of(prove_user(conversation, user="bob")) is False
    assert value_of(prove_user(conversation, user="bob", password="")) is False
    assert conversation.session.trust == TrustLevel.CLUSTER
    assert not any(isinstance(action, Identified) for action in conversation.said)


def test_a_token_is_good_for_one_proof() -> None:
    conversation = member()
    key = proof(conversation, "UserAuthGetToken", PASSWORD)
    assert value_of(asks(conversation, "UserAuthVerify", text("ann"), key)) is True
    assert value_of(asks(conversation, "UserAuthVerify", text("ann"), key)) is False


def test_a_token_of_the_cluster_proves_no_user() -> None:
    conversation = member({"cluster_key": CLUSTER_KEY, "users": {"ann": CLUSTER_KEY.lower()}})
    key = proof(conversation, "ClusterAuthGetToken", CLUSTER_KEY.lower())
    assert value_of(asks(conversation, "UserAuthVerify", text("ann"), key)) is False


def test_a_proof_without_a_token_is_none() -> None:
    conversation = talk({"auth": AUTH})
    key = text(base64(prove_password(CLUSTER_KEY.lower(), b"")))
    assert value_of(asks(conversation, "ClusterAuthVerify", key)) is False


def test_a_session_ends_after_so_many_wrong_proofs() -> None:
    conversation = talk({"auth": AUTH})
    for _ in range(MAX_FAILED_PROOFS - 1):
        assert value_of(prove_cluster(conversation, "00")) is False
    assert conversation.ended is None
    assert value_of(prove_cluster(conversation, "00")) is False
    assert conversation.ended == "unauthenticated"


def test_a_method_the_component_does_not_have_is_not_found() -> None:
    answer = asks(talk(), "ClusterAuthRequestVerification", text(""))
    assert answer == RemoteError("Authentication", RemoteErrorCode.METHOD_NOT_FOUND, CALL_ID)


WRONG_PARAMETERS = [
    ("EstablishConnection", (text("now"),)),
    ("ClusterAuthVerify", ()),
    ("ClusterAuthVerify", (Object("int32", 1),)),
    ("ClusterAuthVerify", (text("not base64!"),)),
    ("UserAuthVerify", (text("ann"),)),
]


@pytest.mark.parametrize(("method", "parameters"), WRONG_PARAMETERS)
def test_wrong_parameters_are_told(method: str, parameters: tuple[Object, ...]) -> None:
    answer = asks(member(), method, *parameters)
    assert answer == RemoteError("Authentication", RemoteErrorCode.INVALID_PARAMETERS, CALL_ID)


def test_what_a_peer_awards_us_needs_no_answer(conversation: Talk) -> None:
    assert conversation.is_told(call("Authentication", "AwardTrustLevel", Object("int32", 2))) == []
    assert conversation.says() == [b"result:0;message_id:1;"]
    assert conversation.session.trust == TrustLevel.NONE
