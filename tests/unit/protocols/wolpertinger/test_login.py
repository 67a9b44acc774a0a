"""The component `Authentication` as client: the steps of a login, and a peer that answers them badly."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.protocols.actions import Opened
from gateway.protocols.wolpertinger.frames import CallResponse, RemoteError, RemoteErrorCode, TrustLevel
from tests.unit.protocols.wolpertinger.authenticating import AUTH, FALSE, base64, prove_cluster, value_of
from tests.unit.protocols.wolpertinger.talk import Talk, talk, text


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
    (("cluster", "user"), 4),
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
    server = talk({"auth": AUTH | {"users": {"ann": "another"}}})
    client = dialled({"login": ("cluster", "user"), "login_user": "ann", "auth": AUTH})
    talk_to_each_other(client, server)
    assert client.ended == "unauthenticated"


NONSENSE = [
    lambda asked: RemoteError("Authentication", RemoteErrorCode.COMPONENT_NOT_FOUND, asked.call_id),
    lambda asked: CallResponse("Authentication", asked.call_id),
    lambda asked: CallResponse("Authentication", asked.call_id, FALSE),
    lambda asked: CallResponse("Authentication", asked.call_id, text("True")),
    lambda asked: CallResponse("Authentication", asked.call_id, text("not base64!")),
    lambda asked: CallResponse("Authentication", asked.call_id, text(base64(b"no key"))),
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
