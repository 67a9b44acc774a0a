"""The component `Authentication`, called: secrets that it takes, and the steps that prove them."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

from gateway.auth.passwords import prove_password
from gateway.protocols.actions import FramesReceived
from gateway.protocols.wolpertinger.cipher import SCALAR_TOKEN_BYTES, Cipher, KeyPair
from gateway.protocols.wolpertinger.frames import CallResponse, Message, Object
from tests.unit.protocols.wolpertinger.talk import CALL_ID, Talk, call, text

CLUSTER_KEY = "000102030405060708090A0B0C0D0E0F"
PASSWORD = "correct horse"
AUTH = {"cluster_key": CLUSTER_KEY, "users": {"ann": PASSWORD}}
TRUE, FALSE = Object("boolean", True), Object("boolean", False)
OUR_PAIR = KeyPair.from_token(b"\x07" * SCALAR_TOKEN_BYTES)
IV = bytes(range(16))


def base64(data: bytes) -> str:
    return b64encode(data).decode()


def asks(conversation: Talk, method: str, *parameters: Object, cipher: Cipher | None = None) -> Message:
    """The answer to a call of the component, which is never logged."""
    done = conversation.is_told(call("Authentication", method, *parameters), cipher=cipher)
    assert not any(isinstance(action, FramesReceived) for action in done)
    (answer,) = conversation.answers(cipher)
    return answer


def value_of(answer: Message) -> Any:
    assert isinstance(answer, CallResponse)
    assert (answer.component, answer.call_id) == ("Authentication", CALL_ID)
    assert answer.value is not None
    return answer.value.value


def exchange_keys(conversation: Talk) -> Cipher:
    blob = value_of(asks(conversation, "KeyExchange", text(base64(OUR_PAIR.blob)), text(base64(IV))))
    return Cipher(OUR_PAIR.agree(b64decode(blob)), IV)


def proof(conversation: Talk, method: str, secret: str, cipher: Cipher | None = None) -> Object:
    token = b64decode(value_of(asks(conversation, method, cipher=cipher)))
    assert len(token) == 32
    return text(base64(prove_password(secret, token)))


def prove_cluster(conversation: Talk, secret: str = CLUSTER_KEY.lower(), cipher: Cipher | None = None) -> Message:
    key = proof(conversation, "ClusterAuthGetToken", secret, cipher)
    return asks(conversation, "ClusterAuthVerify", key, cipher=cipher)


def prove_user(conversation: Talk, user: str = "ann", password: str = PASSWORD) -> Message:
    """Only a member of the cluster may."""
    return asks(conversation, "UserAuthVerify", text(user), proof(conversation, "UserAuthGetToken", password))
