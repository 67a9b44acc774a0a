"""Every protocol that has sessions, through real sockets: what is published, asked, served and cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.client import Answer, EndedError, IncomingRequest, NoAnswerError, RefusedError, UnreachableError, connect
from gateway.core.content import JSON
from gateway.core.event import Event, Kind
from gateway.protocols import protocols
from tests.unit.client.loopback import loopback

STREAM_PROTOCOLS = sorted(name for name, spec in protocols().items() if spec.session is not None)
for_what_can_cancel = pytest.mark.parametrize("protocol", [one for one in STREAM_PROTOCOLS if one != "wolpertinger"])


@pytest.fixture(params=STREAM_PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def double(asked: IncomingRequest) -> Answer:
    return Answer(body=b"%d" % (2 * int(asked.body.strip(b"[]"))), content_type=JSON)


async def test_what_one_publishes_another_gets(protocol: str) -> None:
    async with loopback(protocol) as mesh, connect(protocol, "127.0.0.1", mesh.port) as one:
        await one.subscribe("temp.>")
        async with connect(protocol, "127.0.0.1", mesh.port) as other:
            await other.publish("temp.high", b"[81]", JSON)
            event = await anext(one.events())
    assert (event.subject, event.body) == ("temp.high", b"[81]")


async def test_a_request_is_answered_by_whoever_serves_it(protocol: str) -> None:
    async with loopback(protocol) as mesh, connect(protocol, "127.0.0.1", mesh.port) as server:
        await server.serve("sum.*", double)
        async with connect(protocol, "127.0.0.1", mesh.port) as requester:
            answer = await requester.request("sum.double", b"[21]", JSON)
    assert (answer.kind, answer.body) == (Kind.RESPONSE, b"42")


async def test_many_requests_at_once_get_each_their_own_answer(protocol: str) -> None:
    async with loopback(protocol) as mesh, connect(protocol, "127.0.0.1", mesh.port) as client:
        await client.serve("sum.*", double)
        asked = [client.request("sum.double", b"[%d]" % number, JSON) for number in range(50)]
        answers = await asyncio.gather(*asked)
    assert [int(answer.body) for answer in answers] == [2 * number for number in range(50)]


async def test_a_request_that_nobody_serves_is_answered_with_an_error(protocol: str) -> None:
    async with loopback(protocol) as mesh, connect(protocol, "127.0.0.1", mesh.port) as client:
        answer = await client.request("nobody.serves", b"[]", JSON)
    assert (answer.ok, answer.code) == (False, "no_responder")


async def test_a_refused_subscription_says_why(protocol: str) -> None:
    async with loopback(protocol) as mesh, connect(protocol, "127.0.0.1", mesh.port) as client:
        with pytest.raises(RefusedError) as refused:
            await client.subscribe("forbidden")
    assert refused.value.code == "forbidden"


async def test_nothing_comes_after_unsubscribing(protocol: str) -> None:
    async with loopback(protocol) as mesh, connect(protocol, "127.0.0.1", mesh.port) as client:
        await client.subscribe("temp.>")
        await client.subscribe("end")
        await client.publish("temp.high", b"[1]", JSON)
        await anext(client.events())
        await client.unsubscribe("temp.>")
        await client.publish("temp.high", b"[2]", JSON)
        await client.publish("end", b"[3]", JSON)
        event = await anext(client.events())
    assert event.subject == "end"


async def test_a_handler_that_fails_is_an_error_to_the_requester(protocol: str) -> None:
    async def fail(asked: IncomingRequest) -> bytes:
        raise ValueError(asked.subject)

    async with loopback(protocol) as mesh, connect(protocol, "127.0.0.1", mesh.port) as client:
        await client.serve("sum.*", fail)
        answer = await client.request("sum.double", b"[1]", JSON)
    assert (answer.kind, answer.code) == (Kind.ERROR, "internal")


async def test_progress_is_heard_while_the_answer_is_still_to_come(protocol: str) -> None:
    heard: asyncio.Queue[Event] = asyncio.Queue()
    heard_by_requester = asyncio.Event()

    async def slow(asked: IncomingRequest) -> bytes:
        asked.progress(b"[1]", JSON)
        await heard_by_requester.wait()
        return b""

    async with loopback(protocol) as mesh, connect(protocol, "127.0.0.1", mesh.port) as client:
        await client.serve("slow.work", slow)
        waiting = asyncio.create_task(client.request("slow.work", on_progress=heard.put_nowait))
        progress = await heard.get()
        heard_by_requester.set()
        answer = await waiting
    assert (progress.kind, progress.subject, answer.ok) == (Kind.PROGRESS, "slow.work", True)


async def test_a_request_without_an_answer_in_time_raises(protocol: str) -> None:
    async def never(asked: IncomingRequest) -> bytes:
        await asyncio.Event().wait()
        return asked.body

    async with loopback(protocol) as mesh, connect(protocol, "127.0.0.1", mesh.port) as client:
        await client.serve("slow.work", never)
        with pytest.raises(NoAnswerError) as unanswered:
            await client.request("slow.work", timeout=0.05)
    assert "within 0.05 s" in str(unanswered.value)


class Endless:
    """A handler that never answers."""

    def __init__(self) -> None:
        self.begun, self.cancelled = asyncio.Event(), asyncio.Event()

    async def answer(self, asked: IncomingRequest) -> bytes:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return asked.body


@for_what_can_cancel
async def test_who_stops_waiting_cancels_the_handler(protocol: str) -> None:
    endless = Endless()
    async with loopback(protocol) as mesh, connect(protocol, "127.0.0.1", mesh.port) as server:
        await server.serve("slow.work", endless.answer)
        async with connect(protocol, "127.0.0.1", mesh.port) as requester:
            waiting = asyncio.create_task(requester.request("slow.work"))
            await endless.begun.wait()
            waiting.cancel()
            await endless.cancelled.wait()


@for_what_can_cancel
async def test_who_leaves_cancels_what_it_has_asked(protocol: str) -> None:
    endless = Endless()
    async with loopback(protocol) as mesh, connect(protocol, "127.0.0.1", mesh.port) as server:
        await server.serve("slow.work", endless.answer)
        async with connect(protocol, "127.0.0.1", mesh.port) as requester:
            waiting = asyncio.create_task(requester.request("slow.work"))
            await endless.begun.wait()
        with pytest.raises(EndedError):
            await waiting
        await endless.cancelled.wait()


async def test_the_end_of_the_session_ends_what_waits(protocol: str) -> None:
    async def never(asked: IncomingRequest) -> bytes:
        mesh.peers[0].drain()
        await asyncio.Event().wait()
        return asked.body

    async with loopback(protocol) as mesh, connect(protocol, "127.0.0.1", mesh.port) as client:
        await client.serve("slow.work", never)
        with pytest.raises(EndedError) as ended:
            await client.request("slow.work")
        with pytest.raises(EndedError) as refused:
            await client.publish("temp.high")
    assert ended.value is refused.value


async def test_events_end_when_the_client_is_closed(protocol: str) -> None:
    async with loopback(protocol) as mesh, connect(protocol, "127.0.0.1", mesh.port) as client:
        await client.subscribe("temp.>")
    assert [event async for event in client.events()] == []


async def test_a_peer_that_is_not_there_is_named(protocol: str) -> None:
    async with loopback(protocol) as mesh:
        port = mesh.port
    with pytest.raises(UnreachableError) as refused:
        async with connect(protocol, "127.0.0.1", port):
            pass
    assert str(refused.value) == f"tcp://127.0.0.1:{port}: connection refused"


@pytest.mark.parametrize("protocol", [name for name in STREAM_PROTOCOLS if "ws" in protocols()[name].transports])
async def test_over_a_websocket_all_is_as_over_tcp(protocol: str) -> None:
    async with loopback(protocol, websocket=True) as mesh:
        async with connect(protocol, f"ws://127.0.0.1:{mesh.port}") as client:
            await client.subscribe("temp.>")
            await client.serve("sum.*", double)
            await client.publish("temp.high", b"[81]", JSON)
            event = await anext(client.events())
            answer = await client.request("sum.double", b"[21]", JSON)
    assert (event.subject, event.body, answer.body) == ("temp.high", b"[81]", b"42")


async def test_what_was_published_has_been_read_when_it_has_settled(protocol: str) -> None:
    async with loopback(protocol) as mesh, connect(protocol, "127.0.0.1", mesh.port) as client:
        for _ in range(100):
            await client.publish("temp.high", b"[81]", JSON)
        await client.settle()
        assert len(mesh.heard) == 100


@asynccontextmanager
async def yamp_server(*, hangs_up: bool, last_words: bytes = b"") -> AsyncIterator[int]:
    """Shakes hands, and answers nothing from then on."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(8))
        await reader.readexactly(1)
        if hangs_up:
            writer.write(last_words)
            writer.write_eof()
        while await reader.read(1024):
            pass
        writer.close()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize("hangs_up", [False, True])
async def test_a_peer_that_pings_mean_nothing_to_is_believed_to_have_read_it(hangs_up: bool) -> None:
    async with yamp_server(hangs_up=hangs_up) as port, connect("yamp", "127.0.0.1", port) as client:
        await client.publish("temp.high", b"[81]", JSON)
        await client.settle(0.05)


async def test_a_peer_that_ends_the_session_with_a_reason_has_not_taken_it() -> None:
    close = bytes.fromhex("03 0004") + b"full"
    async with yamp_server(hangs_up=True, last_words=close) as port, connect("yamp", "127.0.0.1", port) as client:
        await client.publish("temp.high", b"[81]", JSON)
        with pytest.raises(EndedError) as ended:
            await client.settle()
    assert ended.value.why == "the session ended: bye: full"
