"""The XMPP listener: sessions for who writes, ended by presence, over a stream that comes back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.core.event import Auth
from gateway.edge.carriers import links, xmpp, xmpp_carrier
from gateway.edge.carriers.backlog import PIECE_BYTES
from gateway.records.raw_log.control_frames import SessionClosed, SessionOpened
from tests.unit.edge.foreign_xmpp import ALICE, CALL, DOMAIN, SECRET, XmppServer, body, xmpp_server
from tests.unit.edge.running import RunningEdge, configured, running, until

BOB = "bob@localhost"
HINTS = {"{urn:xmpp:hints}no-store", "{urn:xmpp:hints}no-copy"}
CONFIRMED = "result:0;message_id:{};"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "FIRST_REST_SECONDS", 0.02)


def chat(server: XmppServer, secret: str = SECRET, **settings: Any) -> dict[str, Any]:
    return {
        "name": "chat",
        "protocol": "wolpertinger",
        "listen": f"xmpp://127.0.0.1:{server.port}",
        "xmpp": {"domain": DOMAIN, "secret": secret},
        **settings,
    }


@asynccontextmanager
async def chatting(**settings: Any) -> AsyncIterator[tuple[XmppServer, RunningEdge]]:
    """Yields a server and an edge that is its component."""
    async with xmpp_server() as server, running(configured(chat(server, **settings))) as edge:
        await server.accepts()
        yield server, edge


def closed(edge: RunningEdge) -> list[str]:
    return [one.reason for one in edge.kafka.mesh() if isinstance(one, SessionClosed)]


async def leave_unread(server: XmppServer, edge: RunningEdge) -> None:
    """Lets the server read nothing any more, and sends one of its peers more than may wait for it."""
    server.message(body(1))
    await until(edge.kafka.frames)
    server.reads_not()
    long = CALL.replace("<Parameters/>", f"<Parameters>{' ' * 20_000}</Parameters>").encode()
    for _ in range(400):
        edge.delivers(long, sessions=(1,), protocol="wolpertinger")
    await until(lambda: "the peer reads too slowly" in [row.detail for row in edge.kafka.outcomes()])


class TestSessions:
    async def test_who_writes_has_a_session_and_each_body_is_one_message(self) -> None:
        async with chatting(subscribe=["temp.>"]) as (server, edge):
            server.message(body(1))
            await until(edge.kafka.frames)
            assert edge.kafka.frames() == [CALL.encode()]
            frame = next(one for one in edge.kafka.raw() if one.data == CALL.encode())
            assert (frame.source.peer, frame.source.node) == (ALICE, f"xmpp:{ALICE}")
            assert (frame.source.auth, frame.source.session) == (Auth.SESSION, 1)
            assert SessionOpened("wolpertinger", ("temp.>",)) in edge.kafka.mesh()
            await until(lambda: server.bodies() == [CONFIRMED.format(1)])
            assert edge.of("connections", "chat", state="open") == 1
            assert edge.of("received_frames_total", "chat") == 1

    async def test_what_is_answered_goes_to_the_device_that_wrote_from_the_address_it_wrote_to(self) -> None:
        async with chatting() as (server, edge):
            server.message(body(1), to=f"gate@{DOMAIN}/edge", kind="normal")
            await until(server.bodies)
            answer = next(one for one in server.stanzas if one.body)
            assert (answer.sender, answer.to, answer.type) == (f"gate@{DOMAIN}/edge", f"{ALICE}/phone", "normal")
            assert set(answer.inner) >= HINTS
            server.message(body(2), sender=f"{ALICE}/tablet")
            await until(lambda: server.bodies(f"{ALICE}/tablet"))
            assert {frame.source.session for frame in edge.kafka.raw() if frame.source.session} == {1}

    async def test_each_jid_has_a_session_of_its_own(self) -> None:
        async with chatting() as (server, edge):
            server.message(body(1))
            server.message(body(1), sender=f"{BOB}/desk")
            await until(lambda: len(edge.kafka.frames()) == 2)
            assert {one.source.node for one in edge.life.sessions} == {f"xmpp:{ALICE}", f"xmpp:{BOB}"}

    async def test_a_delivery_is_written_as_one_message_and_confirmed_by_its_receiver(self) -> None:
        async with chatting() as (server, edge):
            server.message(body(1))
            await until(server.bodies)
            edge.delivers(CALL.encode(), sessions=(1,), protocol="wolpertinger")
            await until(lambda: len(server.bodies()) == 2)
            assert server.bodies()[1] == body(1)
            server.message("result:0;message_id:1;")
            await until(edge.kafka.outcomes)
            assert [row.outcome for row in edge.kafka.outcomes()] == ["confirmed"]

    @pytest.mark.parametrize(
        "stanza",
        [
            f"<message type='groupchat' from='{ALICE}/a' to='{DOMAIN}'><body>x</body></message>",
            f"<message type='headline' from='{ALICE}/a' to='{DOMAIN}'><body>x</body></message>",
            f"<message from='{ALICE}/a' to='{DOMAIN}'><composing xmlns='http://jabber.org/protocol/chatstates'/></message>",
            f"<message type='error' from='{ALICE}/a' to='{DOMAIN}'><body>x</body><error/></message>",
            f"<message from='@' to='{DOMAIN}'><body>x</body></message>",
            f"<presence from='{ALICE}/a' to='{DOMAIN}'/>",
            f"<presence type='unavailable' from='{ALICE}/a' to='{DOMAIN}'/>",
            f"<presence type='error' from='{ALICE}' to='{DOMAIN}'><error/></presence>",
            f"<presence from='@' to='{DOMAIN}'/>",
            "<nothing xmlns='of:ours'/>",
        ],
    )
    async def test_what_is_no_message_to_us_begins_nothing(self, stanza: str) -> None:
        async with chatting() as (server, edge):
            server.sends(stanza)
            server.message(body(1), sender=f"{BOB}/desk")
            await until(edge.kafka.frames)
            assert [one.source.peer for one in edge.life.sessions] == [BOB]
            assert edge.of("connections_opened_total", "chat") == 1

    async def test_what_no_protocol_has_said_is_counted_and_the_session_goes_on(self) -> None:
        async with chatting() as (server, edge):
            server.message("hello, is anybody there?")
            await until(lambda: edge.of("rejected_frames_total", "chat", reason="missing_field") == 1)
            server.message(body(1))
            await until(edge.kafka.frames)

    @pytest.mark.parametrize(
        ("limit", "reason"), [({"connections": 1}, "overload"), ({"connections_per_second": 0.1}, "rate_limited")]
    )
    async def test_more_sessions_than_the_listener_takes_are_refused_in_words(
        self, limit: dict[str, Any], reason: str
    ) -> None:
        async with chatting(**limit) as (server, edge):
            server.message(body(1))
            server.message(body(1), sender=f"{BOB}/desk")
            await until(lambda: any(one.type == "error" for one in server.stanzas))
            refused = next(one for one in server.stanzas if one.type == "error")
            assert refused.to == f"{BOB}/desk"
            assert "{urn:ietf:params:xml:ns:xmpp-stanzas}resource-constraint" in refused.inner
            assert edge.of("connections_closed_total", "chat", reason=reason) == 1

    async def test_a_fault_of_ours_costs_one_message_and_not_the_stream(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async with chatting() as (server, edge):

            def fails(*_: object) -> None:
                raise RuntimeError("a fault")

            with monkeypatch.context() as broken:
                broken.setattr(xmpp.XmppListener, "present", fails)
                server.presence(f"{ALICE}/phone")
                server.message(body(1))
                await until(edge.kafka.frames)
            assert server.tries == 1


class TestPings:
    async def test_who_asks_hears_whether_there_is_a_session_for_them(self) -> None:
        async with chatting() as (server, edge):
            server.message(body(1))
            await until(edge.kafka.frames)
            for sender in (f"{ALICE}/phone", f"{BOB}/desk"):
                ping = "<ping xmlns='urn:xmpp:ping'/>"
                server.sends(f"<iq type='get' id='p' from='{sender}' to='{DOMAIN}'>{ping}</iq>")
            await until(lambda: sum(one.name == "iq" for one in server.stanzas) == 2)
            known, unknown = (one for one in server.stanzas if one.name == "iq")
            assert (known.type, known.to) == ("result", f"{ALICE}/phone")
            assert (unknown.type, unknown.to) == ("error", f"{BOB}/desk")
            assert "{urn:ietf:params:xml:ns:xmpp-stanzas}item-not-found" in unknown.inner


class TestPresence:
    async def test_a_session_begins_with_our_presence_and_asks_for_theirs(self) -> None:
        async with chatting() as (server, _):
            server.message(body(1), to=f"gate@{DOMAIN}")
            await until(lambda: server.presences() == ["", "subscribe"])
            assert {one.sender for one in server.stanzas if one.name == "presence"} == {f"gate@{DOMAIN}"}

    async def test_who_wants_to_know_of_us_may_and_is_asked_the_same(self) -> None:
        async with chatting() as (server, _):
            server.presence(ALICE, "subscribe")
            await until(lambda: server.presences() == ["subscribed", "subscribe", ""])
            server.presence(f"{ALICE}/phone", "probe")
            await until(lambda: server.presences()[3:] == [""])

    @pytest.mark.parametrize("gone", [f"{ALICE}/phone", ALICE])
    async def test_a_session_ends_when_its_only_device_goes_or_the_jid_itself(self, gone: str) -> None:
        async with chatting() as (server, edge):
            server.message(body(1))
            await until(edge.kafka.frames)
            server.presence(ALICE, "unavailable")  # the receipt of our question
            server.presence(gone, "unavailable")
            await until(lambda: closed(edge) == ["eof"])
            assert edge.of("connections", "chat", state="open") == 0
            server.message(body(1))
            await until(lambda: len(edge.kafka.frames()) == 2)
            assert [one.number for one in edge.life.sessions] == [2]

    async def test_what_the_server_says_of_everyone_when_it_is_asked_ends_nothing(self) -> None:
        async with chatting() as (server, edge):
            server.message(body(1))
            server.presence(ALICE, "unavailable")
            server.presence(ALICE, "subscribe")  # so we ask again
            server.presence(ALICE, "unavailable")
            server.message(body(2))
            await until(lambda: len(edge.kafka.frames()) == 2)
            assert closed(edge) == []
            assert server.presences() == ["", "subscribe", "subscribed", "subscribe", ""]

    async def test_while_another_device_is_there_the_session_goes_on(self) -> None:
        async with chatting() as (server, edge):
            server.message(body(1))
            server.presence(f"{ALICE}/tablet")
            server.presence(f"{ALICE}/phone", "unavailable")
            server.message(body(2), sender=f"{ALICE}/tablet")
            await until(lambda: len(edge.kafka.frames()) == 2)
            assert closed(edge) == []
            server.presence(f"{ALICE}/tablet", "unavailable")
            await until(lambda: closed(edge) == ["eof"])

    async def test_a_session_ends_when_what_it_is_sent_comes_back(self) -> None:
        async with chatting() as (server, edge):
            server.message(body(1))
            await until(edge.kafka.frames)
            server.message(body(1), kind="error")
            await until(lambda: closed(edge) == ["eof"])

    async def test_who_is_present_may_be_silent_and_who_may_be_gone_may_not(self) -> None:
        async with chatting(idle_seconds=0.1) as (server, edge):
            server.presence(f"{ALICE}/phone")
            server.message(body(1))
            server.presence(f"{ALICE}/phone")
            server.message(body(1), sender=f"{BOB}/desk")
            await until(lambda: closed(edge) == ["idle"])
            await until(lambda: server.presences(BOB) == ["", "subscribe", "unavailable"])
            assert [one.source.peer for one in edge.life.sessions] == [ALICE]


class TestBackPressure:
    async def test_what_comes_while_the_session_is_not_read_waits_and_then_goes_on_in_order(self) -> None:
        async with chatting(frames_per_second_per_session=20) as (server, edge):
            for at in range(1, 31):
                server.message(body(at, f"<a>{at}</a>"))
            await until(lambda: len(edge.kafka.frames()) == 30)
            assert edge.kafka.frames() == [f"<a>{at}</a>".encode() for at in range(1, 31)]

    async def test_what_is_too_much_to_wait_is_dropped_and_counted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(xmpp_carrier, "HELD_BYTES", 2 * len(body(1)))
        async with chatting(frames_per_second_per_session=0.01) as (server, edge):
            for at in range(1, 7):
                server.message(body(at))
            await until(lambda: edge.of("rejected_frames_total", "chat", reason="overload") == 2)
            assert len(edge.kafka.frames()) == 2
            assert edge.of("received_frames_total", "chat") == 4

    async def test_a_server_that_does_not_read_holds_its_peers_and_nobody_grows(self) -> None:
        async with chatting(queue_bytes=65_536) as (server, edge):
            await leave_unread(server, edge)
            assert max(one.outbox.queued_bytes for one in edge.life.sessions) < 1_000_000
            server.reads_again()
            await until(lambda: len(server.bodies()) > 1)

    async def test_what_a_server_does_not_read_waits_as_one_block_and_then_comes_in_order(self) -> None:
        async with chatting() as (server, edge):
            server.message(body(1))
            await until(server.bodies)
            server.reads_not()
            for number in range(400):
                long = CALL.replace("<Parameters/>", f"<Parameters>{' ' * 20_000}</Parameters>{number}")
                edge.delivers(long.encode(), sessions=(1,), protocol="wolpertinger")
            [connection] = edge.life.sessions
            await until(lambda: connection.outbox.queued_bytes > 1_000_000)
            transport = connection._carrier._stream.transport  # type: ignore[attr-defined]
            assert transport.get_write_buffer_size() <= 4 * PIECE_BYTES
            server.reads_again()
            await until(lambda: len(server.bodies()) == 401)
            assert [text.partition(";")[0] for text in server.bodies()[1:]] == [
                f"message_id:{number}" for number in range(1, 401)
            ]

    async def test_a_server_that_asks_without_end_and_reads_nothing_is_given_up(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with chatting(queue_bytes=16_384) as (server, edge):
            await leave_unread(server, edge)
            for number in range(1_000):
                server.presence(f"{number}@localhost", "probe")
            await until(lambda: server.tries == 2)
            assert "it does not read what it is sent" in caplog.text
            assert closed(edge) == ["eof"]


class TestTheStream:
    async def test_when_the_server_goes_sessions_end_and_when_it_is_back_their_peers_are_told(self) -> None:
        server = XmppServer()
        async with xmpp_server(server), running(configured(chat(server))) as edge:
            await server.accepts()
            server.message(body(1))
            await until(edge.kafka.frames)
            server.stanzas.clear()
            server.hangs_up()
            await until(lambda: closed(edge) == ["eof"])
            await server.accepts()
            await until(lambda: server.presences() == ["unavailable"])
            server.message(body(1))
            await until(lambda: len(edge.kafka.frames()) == 2)

    async def test_a_server_that_is_not_there_yet_is_dialled_until_it_is(self) -> None:
        async with xmpp_server() as gone:
            pass
        async with running(configured(chat(gone))) as edge:
            assert not list(edge.life.sessions)
            async with xmpp_server(port=gone.port) as server:
                await server.accepts()
                server.message(body(1))
                await until(edge.kafka.frames)

    async def test_between_two_tries_nobody_else_dials(
        self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(links, "FIRST_REST_SECONDS", 60)
        async with xmpp_server() as gone:
            pass
        async with running(configured(chat(gone))) as edge:
            await until(lambda: "the XMPP server at" in caplog.text)
            (told,) = edge.life.endpoints.away()
            assert told["what"] == "listener chat"
            assert "the XMPP server at" in told["why"]
            stream = edge.life.endpoints._xmpp["chat"]._stream
            assert not stream.is_connecting()
            assert not stream.is_connected()

    async def test_what_is_no_xml_ends_the_stream_and_is_not_shown(self, caplog: pytest.LogCaptureFixture) -> None:
        async with chatting() as (server, edge):
            server.sends("<message><body>private</message>")
            await until(lambda: server.tries == 2)
            await until(lambda: "the XMPP server at" in caplog.text)
            assert "private" not in caplog.text
            assert edge.kafka.frames() == []

    async def test_a_server_that_does_not_answer_is_given_up_in_time(self, caplog: pytest.LogCaptureFixture) -> None:
        server = XmppServer(answers=False)
        async with xmpp_server(server), running(configured(chat(server, handshake_seconds=0.05))):
            await until(lambda: server.tries == 2)
            server.answers = True
            await server.accepts()
        assert "it does not answer in time" in caplog.text

    async def test_a_wrong_secret_is_told_and_a_new_one_is_tried(self, caplog: pytest.LogCaptureFixture) -> None:
        async with xmpp_server() as server, running(configured(chat(server, secret="wrong"))) as edge:
            await until(lambda: "not-authorized" in caplog.text)
            edge.life.reconfigure(configured(chat(server)))
            await server.accepts()
            server.message(body(1))
            await until(edge.kafka.frames)
        assert SECRET not in caplog.text

    async def test_new_policies_leave_the_stream_alone(self) -> None:
        async with chatting() as (server, edge):
            server.message(body(1))
            await until(edge.kafka.frames)
            edge.life.reconfigure(configured(chat(server, subscribe=["late.>"])))
            server.message(body(1), sender=f"{BOB}/desk")
            await until(lambda: SessionOpened("wolpertinger", ("late.>",)) in edge.kafka.mesh())
            assert (server.tries, closed(edge)) == (1, [])

    async def test_an_edge_that_goes_ends_sessions_in_words_and_then_the_stream(self) -> None:
        async with xmpp_server() as server:
            async with running(configured(chat(server))) as edge:
                await server.accepts()
                server.message(body(1))
                await until(server.bodies)
                server.stanzas.clear()
            assert closed(edge) == ["drain"]
            await until(lambda: server.footers == 1)
            assert server.presences() == ["unavailable"]

    async def test_while_an_edge_goes_nobody_new_is_let_in(self) -> None:
        async with chatting() as (server, edge):
            server.message(body(1))
            await until(edge.kafka.frames)
            listening = edge.life.endpoints._xmpp["chat"]
            listening.close()
            server.message(body(1), sender=f"{BOB}/desk")
            await until(lambda: any(one.type == "error" for one in server.stanzas))
            server.message(body(2))
            await until(lambda: len(edge.kafka.frames()) == 2)
