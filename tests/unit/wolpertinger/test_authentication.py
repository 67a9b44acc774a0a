"""The component `Authentication`, as server and as client, and what trust a call needs."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import pytest
from pydantic import ValidationError

from gateway.auth.passwords import prove_password
from gateway.protocols.session import FrameRefused, FramesReceived, Identified, Opened
from gateway.protocols.wolpertinger.authentication import MAX_FAILED_PROOFS
from gateway.protocols.wolpertinger.cipher import SCALAR_TOKEN_BYTES, Cipher, KeyPair
from gateway.protocols.wolpertinger.codec import encode
from gateway.protocols.wolpertinger.frames import (
    Call,
    ErrorCode,
    Message,
    Object,
    RemoteError,
    Response,
    TrustLevel,
)
from gateway.protocols.wolpertinger.options import WolpertingerOptions
from gateway.reasons import Reason
from tests.unit.contract.conversation import only
from tests.unit.wolpertinger.talk import CALL_ID, Talk, call, talk, text

CLUSTER_KEY = "000102030405060708090A0B0C0D0E0F"
PASSWORD = "correct horse"
AUTH = {"cluster_key": CLUSTER_KEY, "users": {"ann": PASSWORD}}
CALL = call("Core", "testMethod1")
SUBSCRIBE = call("Mesh", "Subscribe", text("a.>"))
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
    assert isinstance(answer, Response)
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
    return asks(conversation, "UserAuthVerify", text(user), proof(conversation, "UserAuthGetToken", password))


# -- as server -----------------------------------------------------------------------------------------------------


def test_a_connection_is_established() -> None:
    conversation = talk()
    assert asks(conversation, "EstablishConnection") == Response("Authentication", CALL_ID, TRUE)
    assert conversation.session.trust == TrustLevel.CONNECTED


def test_authentication_is_confirmed_and_answered_at_once_in_any_case() -> None:
    conversation = talk()
    conversation.is_told(call("AUTHENTICATION", "establishconnection"))
    confirmation, _ = conversation.says()
    assert confirmation == b"result:0;message_id:1;"


def test_after_the_key_exchange_all_that_is_sent_is_encrypted_with_the_agreed_key() -> None:
    conversation = talk()
    cipher = exchange_keys(conversation)
    assert conversation.session.trust == TrustLevel.ENCRYPTED
    conversation.is_told(call("Authentication", "EstablishConnection"), cipher=cipher)
    _, answer = conversation.says()
    assert answer.startswith(b"message_id:2;encryption:aes;")
    sealed = b64decode(answer.rpartition(b";")[2])
    assert cipher.decrypt(sealed) == encode(Response("Authentication", CALL_ID, TRUE))


BAD_KEYS = [
    pytest.param(("no base64!", base64(IV)), ErrorCode.INVALID_PARAMETERS, id="key not base64"),
    pytest.param((base64(OUR_PAIR.blob), "ä"), ErrorCode.INVALID_PARAMETERS, id="iv not base64"),
    pytest.param((base64(OUR_PAIR.blob), base64(IV[1:])), ErrorCode.INVALID_PARAMETERS, id="iv of 15 bytes"),
    pytest.param((base64(OUR_PAIR.blob[:-1]), base64(IV)), ErrorCode.ENCRYPTION, id="key cut off"),
    pytest.param((base64(OUR_PAIR.blob[:-1] + b"\0"), base64(IV)), ErrorCode.ENCRYPTION, id="no point of the curve"),
    pytest.param((base64(OUR_PAIR.blob),), ErrorCode.INVALID_PARAMETERS, id="no iv"),
]


@pytest.mark.parametrize(("parameters", "code"), BAD_KEYS)
def test_a_key_exchange_that_is_none_changes_nothing(parameters: tuple[str, ...], code: ErrorCode) -> None:
    conversation = talk()
    answer = asks(conversation, "KeyExchange", *map(text, parameters))
    assert answer == RemoteError("Authentication", code, CALL_ID)
    assert (conversation.session.trust, conversation.session.cipher) == (TrustLevel.NONE, None)


def test_there_is_one_key_exchange_in_a_session() -> None:
    conversation = talk()
    cipher = exchange_keys(conversation)
    again = asks(conversation, "KeyExchange", text(base64(OUR_PAIR.blob)), text(base64(IV)), cipher=cipher)
    assert again == RemoteError("Authentication", ErrorCode.ENCRYPTION, CALL_ID)
    assert conversation.session.cipher == cipher


def test_a_cluster_member_becomes_the_sessions_node() -> None:
    conversation = talk({"auth": AUTH})
    assert value_of(prove_cluster(conversation)) is True
    assert conversation.session.trust == TrustLevel.CLUSTER
    assert only(Identified, conversation.said).node == "cluster:member"


def test_a_user_becomes_the_sessions_node() -> None:
    conversation = talk({"auth": AUTH})
    assert value_of(prove_user(conversation)) is True
    assert conversation.session.trust == TrustLevel.USER
    assert only(Identified, conversation.said).node == "user:ann"


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
    assert value_of(prove_user(conversation, password="wrong")) is False
    assert value_of(prove_user(conversation, user="bob")) is False
    assert value_of(prove_user(conversation, user="bob", password="")) is False
    assert conversation.session.trust == TrustLevel.NONE
    assert not any(isinstance(action, Identified) for action in conversation.said)


def test_a_token_is_good_for_one_proof() -> None:
    conversation = talk({"auth": AUTH})
    key = proof(conversation, "UserAuthGetToken", PASSWORD)
    assert value_of(asks(conversation, "UserAuthVerify", text("ann"), key)) is True
    assert value_of(asks(conversation, "UserAuthVerify", text("ann"), key)) is False


def test_a_token_of_the_cluster_proves_no_user() -> None:
    conversation = talk({"auth": {"cluster_key": CLUSTER_KEY, "users": {"ann": CLUSTER_KEY.lower()}}})
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
    assert answer == RemoteError("Authentication", ErrorCode.METHOD_NOT_FOUND, CALL_ID)


WRONG_PARAMETERS = [
    ("EstablishConnection", (text("now"),)),
    ("ClusterAuthVerify", ()),
    ("ClusterAuthVerify", (Object("int32", 1),)),
    ("ClusterAuthVerify", (text("not base64!"),)),
    ("UserAuthVerify", (text("ann"),)),
]


@pytest.mark.parametrize(("method", "parameters"), WRONG_PARAMETERS)
def test_wrong_parameters_are_told(method: str, parameters: tuple[Object, ...]) -> None:
    answer = asks(talk({"auth": AUTH}), method, *parameters)
    assert answer == RemoteError("Authentication", ErrorCode.INVALID_PARAMETERS, CALL_ID)


def test_what_a_peer_awards_us_needs_no_answer() -> None:
    conversation = talk()
    assert conversation.is_told(call("Authentication", "AwardTrustLevel", Object("int32", 2))) == []
    assert conversation.says() == [b"result:0;message_id:1;"]
    assert conversation.session.trust == TrustLevel.NONE


# -- what trust a call needs ---------------------------------------------------------------------------------------


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


# -- as client -----------------------------------------------------------------------------------------------------


def dialled(options: dict[str, Any]) -> Talk:
    return talk(options, opens=not options.get("login"), dialled=True)


def talk_to_each_other(one: Talk, other: Talk) -> None:
    while said := one.sends():
        other.log(other.receives(said))
        one.log(one.receives(other.sends()))


LOGINS: list[tuple[tuple[str, ...], int]] = [
    (("connect",), 1),
    (("encrypt",), 2),
    (("connect", "encrypt", "cluster"), 3),
    (("connect", "encrypt", "cluster", "user"), 4),
    (("user",), 4),
]


@pytest.mark.parametrize(("login", "trust"), LOGINS)
def test_our_login_opens_a_session_that_requires_it(login: tuple[str, ...], trust: int) -> None:
    server = talk({"require_trust": trust, "auth": AUTH}, opens=False)
    client = dialled({"login": login, "login_user": "ann", "auth": AUTH})
    talk_to_each_other(client, server)
    assert server.session.trust == trust
    assert [type(action) for action in client.said] == [Opened]
    assert isinstance(server.said[0], Opened)
    assert client.session.cipher == server.session.cipher
    assert (client.session.cipher is not None) == ("encrypt" in login)


def test_what_we_proved_to_the_peer_says_nothing_of_the_peer() -> None:
    server = talk({"auth": AUTH})
    client = dialled({"login": ("connect", "cluster"), "auth": AUTH})
    talk_to_each_other(client, server)
    assert client.session.trust == TrustLevel.CONNECTED


def test_further_steps_may_be_asked_for_later() -> None:
    server = talk({"auth": AUTH})
    client = dialled({"auth": AUTH})
    client.session.log_in(("cluster", "encrypt"), client.now)
    talk_to_each_other(client, server)
    assert (server.session.trust, client.session.trust) == (TrustLevel.CLUSTER, TrustLevel.ENCRYPTED)


def test_steps_asked_for_at_once_are_taken_one_after_another() -> None:
    server = talk({"auth": AUTH})
    client = dialled({"auth": AUTH})
    client.session.log_in(("connect",), client.now)
    client.session.log_in(("cluster",), client.now)
    talk_to_each_other(client, server)
    assert (server.session.trust, client.session.trust) == (TrustLevel.CLUSTER, TrustLevel.CONNECTED)


def test_a_login_without_the_secret_ends_the_session() -> None:
    server = talk({"auth": AUTH})
    client = dialled({})
    client.session.log_in(("cluster",), client.now)
    talk_to_each_other(client, server)
    assert client.ended == "unauthenticated"


def test_a_login_that_is_refused_ends_the_session() -> None:
    server = talk({"auth": {"users": {"ann": "another"}}})
    client = dialled({"login": ("user",), "login_user": "ann", "auth": AUTH})
    talk_to_each_other(client, server)
    assert client.ended == "unauthenticated"


NONSENSE = [
    lambda asked: RemoteError("Authentication", ErrorCode.COMPONENT_NOT_FOUND, asked.call_id),
    lambda asked: Response("Authentication", asked.call_id),
    lambda asked: Response("Authentication", asked.call_id, FALSE),
    lambda asked: Response("Authentication", asked.call_id, text("True")),
    lambda asked: Response("Authentication", asked.call_id, text("not base64!")),
    lambda asked: Response("Authentication", asked.call_id, text(base64(b"no key"))),
]


@pytest.mark.parametrize("step", ["connect", "encrypt"])
@pytest.mark.parametrize("answer", NONSENSE)
def test_a_peer_that_answers_our_login_with_nonsense_is_left(step: str, answer: Any) -> None:
    conversation = dialled({"login": [step]})
    (asked,) = conversation.answers()
    conversation.is_told(answer(asked))
    assert conversation.ended == "unauthenticated"


def test_a_peer_that_never_answers_our_login_is_left() -> None:
    client = dialled({"login": ["connect"]})
    client.waits(5.0)
    assert client.ended == "timeout"


def test_a_link_answers_the_authentication_of_its_peer_too() -> None:
    conversation = dialled({"auth": AUTH})
    assert value_of(prove_cluster(conversation)) is True


# -- options -------------------------------------------------------------------------------------------------------

BAD_OPTIONS = [
    {"require_trust": 5},
    {"require_trust": -1},
    {"auth": {"cluster_key": "xyz"}},
    {"auth": {"cluster_key": ""}},
    {"auth": {"cluster_key": "00 01"}},
    {"auth": {"password": "x"}},
    {"login": ["cluster"]},
    {"login": ["user"], "login_user": "bob", "auth": AUTH},
    {"login": ["tls"]},
    {"confirm_seconds": 0},
    {"compress": "sometimes"},
]


@pytest.mark.parametrize("options", BAD_OPTIONS)
def test_options_that_cannot_work_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as raised:
        WolpertingerOptions.model_validate(options)
    assert raised.value.error_count() == 1


def test_no_secret_shows_in_the_options() -> None:
    options = WolpertingerOptions.model_validate({"auth": AUTH})
    for shown in (repr(options), options.model_dump_json()):
        assert CLUSTER_KEY.lower() not in shown.lower()
        assert PASSWORD not in shown
