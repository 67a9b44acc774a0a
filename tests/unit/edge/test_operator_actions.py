"""Tests what the page's acts ask for: whose token, from where, over which name, from which page; and who is logged."""

from __future__ import annotations

import json
import logging
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from gateway.auth.operators import find_operator
from gateway.config import Config
from gateway.edge.operator_actions import ACTS, FIELDS, OperatorActions
from gateway.observability.management import HttpRequest, PageAnswer, json_answer
from gateway.protocols.actions import CloseReason
from gateway.protocols.yamp.codec import encode
from gateway.protocols.yamp.frames import Close
from gateway.protocols.yamp.session import CLOSE_REASONS
from tests.integration.mesh import free_port
from tests.unit.edge.process import Process, process
from tests.unit.edge.running import listener, until

ALICE, BOB = "alice's-own-token-1", "the-token-of-bob-22"
OPERATORS = {"operators": {"alice": ALICE, "bob": BOB}}
HANDSHAKE = bytes.fromhex("00 0001 04 6a736f6e")
EXAMPLES = {
    "kick": {"session": "edge-0.1.9"},
    "trace": {"event_id": "0-1-0"},
    "redrive": {"event_id": "0-1-0"},
    "publish": {"subject": "a.test", "body": "1", "via": "yamp"},
}


async def acts(edge: Process, act: str, fields: Any = None, token: str = ALICE, **headers: str) -> tuple[int, Any]:
    given = EXAMPLES[act] if fields is None else fields
    said = {"Authorization": f"Bearer {token}", **headers}
    return await edge.asks(ACTS + act, post=True, headers=said, body=json.dumps(given).encode())


async def test_an_operator_kicks_a_session_and_the_log_says_who(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with process(tmp_path, listener("apps", "yamp"), edge=OPERATORS) as edge:
        peer = await edge.dial("apps")
        peer.sends(HANDSHAKE)
        await peer.reads(len(HANDSHAKE))
        session = (await edge.asks("/peers"))[1][0]["session"]
        here = f"127.0.0.1:{edge.edge.management_port}"
        assert await acts(edge, "kick", {"session": session}, BOB, Origin=f"http://{here}") == (
            202, {"kicked": session},
        )  # fmt: skip
        assert await peer.reads_all() == encode(Close(CLOSE_REASONS[CloseReason.KICKED]))
    assert f"operator bob at 127.0.0.1: kick {{'session': '{session}'}}: 202" in caplog.messages


async def test_an_operator_publishes_what_looks_like_an_option_as_what_it_is(tmp_path: Path) -> None:
    apps = listener("apps", "yamp") | {"listen": f"tcp://127.0.0.1:{free_port()}"}
    async with process(tmp_path, apps, edge=OPERATORS) as edge:
        for subject in ("a.test", "--help"):
            status, said = await acts(edge, "publish", {"subject": subject, "body": "21.5 °C", "via": "yamp"})
            assert (status, said["done"]["subject"], said["done"]["bytes"]) == (200, subject, 8)
        await until(lambda: sum("21.5 °C".encode() in frame for frame in edge.kafka.frames()) == 2)


@pytest.mark.parametrize("act", FIELDS)
async def test_without_an_operator_nothing_is_done(tmp_path: Path, act: str) -> None:
    async with process(tmp_path, listener("apps", "yamp")) as edge:
        for token in ("", ALICE):
            assert await acts(edge, act, token=token) == (
                403, {"error": "this page only reads: edge.operators names nobody"},
            )  # fmt: skip


@pytest.mark.parametrize("act", FIELDS)
async def test_no_token_and_a_wrong_one_are_refused_alike_and_the_log_says_so(
    tmp_path: Path, act: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with process(tmp_path, listener("apps", "yamp"), edge=OPERATORS) as edge:
        for token in ("", "x", ALICE[:-1], f"{ALICE}1", "alice"):
            assert await acts(edge, act, token=token) == (401, {"error": "this is the token of no operator"})
    assert [line for line in caplog.messages if "token" in line] == [
        "1 wrong tokens for the page's acts, the last from 127.0.0.1"
    ]


@pytest.mark.parametrize("act", FIELDS)
@pytest.mark.parametrize(
    "headers",
    [{"Host": "mesh.example.com:9640"}, {"Origin": "http://127.0.0.1:1"}, {"Origin": "https://evil.example.com"}],
)
async def test_a_strangers_name_and_a_strangers_page_are_refused_with_a_token_too(
    tmp_path: Path, act: str, headers: dict[str, str]
) -> None:
    async with process(tmp_path, listener("apps", "yamp"), edge=OPERATORS) as edge:
        assert (await acts(edge, act, token=ALICE, **headers))[0] == 403


@pytest.mark.parametrize(
    ("act", "fields"),
    [
        ("kick", {}),
        ("kick", []),
        ("kick", {"session": 1}),
        ("kick", {"session": "a", "more": "b"}),
        ("trace", {"event_id": None}),
        ("redrive", {"event_id": "0-1-0\0"}),
        ("redrive", {"event_id": "\ud800"}),
        ("publish", {"subject": "a.test", "body": "1"}),
        ("publish", {"subject": "a.test", "body": "1", "via": "telnet"}),
    ],
)
async def test_what_an_act_does_not_take_is_refused_with_what_it_takes(tmp_path: Path, act: str, fields: Any) -> None:
    async with process(tmp_path, listener("apps", "yamp"), edge=OPERATORS) as edge:
        status, said = await acts(edge, act, fields)
        assert status == 400
        assert "via" in said["error"]


async def test_what_the_verb_complains_of_is_the_answer(tmp_path: Path) -> None:
    async with process(tmp_path, listener("apps", "yamp"), edge=OPERATORS) as edge:
        status, said = await acts(edge, "trace", {"event_id": "--from=-9h"})
        assert status == 422
        assert "EVENT_ID" in said["error"]


async def test_operators_come_and_go_with_the_file(tmp_path: Path) -> None:
    apps = listener("apps", "yamp")
    async with process(tmp_path, apps, edge=OPERATORS) as edge:
        assert (await acts(edge, "kick", token=BOB))[0] == 404
        edge.says(listeners=[apps], edge={"operators": {"alice": ALICE}})
        edge.edge.reload()
        while (await acts(edge, "kick", token=BOB))[0] != 401:
            pass
        assert (await acts(edge, "kick", token=ALICE))[0] == 404


def test_a_token_from_another_machine_is_not_even_looked_at() -> None:
    config = Config.model_validate({"mesh": "m", "edge": OPERATORS})
    kicked: list[str] = []

    def kick(session: str) -> PageAnswer:
        kicked.append(session)
        return json_answer(HTTPStatus.ACCEPTED, {})

    page = OperatorActions(lambda: config, kick)
    asked = HttpRequest("kick", "10.0.0.1:9640", "10.0.0.7", token=ALICE, body=b'{"session": "edge-0.1.9"}')
    assert page.command(asked).status == 403
    assert page.command(asked._replace(client="::ffff:10.0.0.7")).status == 403
    assert kicked == []
    assert page.command(asked._replace(client="::ffff:127.0.0.1")).status == 202
    assert kicked == ["edge-0.1.9"]


def test_only_a_whole_token_finds_its_operator() -> None:
    tokens = {"alice": ALICE, "bob": BOB}
    assert (find_operator(tokens, ALICE), find_operator(tokens, BOB)) == ("alice", "bob")
    assert [find_operator(tokens, text) for text in ("", ALICE[:-1], ALICE + " ", ALICE.upper(), "é")] == [None] * 5
    assert find_operator({}, "") is None


@pytest.mark.parametrize("token", ["", "0123456789abcde", "0123456789abcdeé", "0123 456789abcdef"])
def test_a_token_that_could_be_guessed_or_cannot_travel_is_no_configuration(token: str) -> None:
    with pytest.raises(ValueError, match="16 visible ASCII characters"):
        Config.model_validate({"mesh": "m", "edge": {"operators": {"alice": token}}})
