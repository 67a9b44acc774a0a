"""WebSockets: one byte stream for yamp, one message a text for wolpertinger, and who may open one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode

from gateway.edge.carriers.websocket import BATCH_BYTES, MESSAGE_HEAD_BYTES, REQUEST_BYTES
from gateway.protocols.actions import CloseReason
from gateway.protocols.yamp.codec import encode
from gateway.protocols.yamp.frames import Close
from gateway.protocols.yamp.session import CLOSE_REASONS
from tests.unit.edge.certificates import Authority
from tests.unit.edge.running import RunningEdge, configured, dialled, listener, running, until

HANDSHAKE = bytes.fromhex("00 0001 04 6a736f6e")
EVENT = bytes.fromhex("05") + b"\1" * 16 + bytes.fromhex("03 666f6f 00000007 7b2261223a317d")
LARGE_EVENT = bytes.fromhex("05") + b"\2" * 16 + bytes.fromhex("03 666f6f")
CALL = b"message_id:1;PFJlbW90ZU1ldGhvZENhbGw+"


@asynccontextmanager
async def opened(edge: RunningEdge, name: str, path: str = "", **settings: Any) -> AsyncIterator[ClientConnection]:
    url = f"ws://127.0.0.1:{edge.port(name)}{path}"
    async with connect(url, proxy=None, **{"compression": None, "close_timeout": 0.2} | settings) as socket:
        yield socket


def web(**settings: Any) -> dict[str, Any]:
    return listener("web", "yamp", "ws", **settings)


async def read_close(socket: ClientConnection) -> tuple[int, str]:
    """Reads the close that must come next: its code and its reason."""
    with pytest.raises(ConnectionClosed) as ended:
        await socket.recv()
    assert ended.value.rcvd is not None
    return ended.value.rcvd.code, ended.value.rcvd.reason


class TestMessages:
    @pytest.mark.parametrize("cut", [1, 5, 17, 10_000])
    async def test_the_messages_of_a_byte_protocol_are_one_stream_whatever_they_cut(self, cut: int) -> None:
        async with running(configured(web())) as edge, opened(edge, "web") as socket:
            stream = HANDSHAKE + EVENT + EVENT
            for at in range(0, len(stream), cut):
                await socket.send(stream[at : at + cut])
                await socket.send(b"")
            assert await socket.recv() == HANDSHAKE
            await until(lambda: len(edge.kafka.frames()) == 2)
            assert edge.kafka.frames() == [EVENT, EVENT]

    async def test_fragments_of_a_message_are_part_of_the_stream_as_they_come(self) -> None:
        async with running(configured(web())) as edge, opened(edge, "web") as socket:
            await socket.send([HANDSHAKE[:3], HANDSHAKE[3:], EVENT])
            await until(lambda: edge.kafka.frames() == [EVENT])

    async def test_we_send_each_frame_in_a_binary_message_of_its_own(self) -> None:
        async with running(configured(web())) as edge, opened(edge, "web") as socket:
            await socket.send(HANDSHAKE)
            assert await socket.recv() == HANDSHAKE
            for _ in range(2):
                edge.delivers(EVENT, protocol="yamp", sessions=(1,))
            assert [await socket.recv(), await socket.recv()] == [EVENT, EVENT]

    async def test_a_text_protocol_gets_one_message_at_a_time_and_answers_in_texts(self) -> None:
        async with running(configured(listener("rpc", "wolpertinger", "ws"))) as edge, opened(edge, "rpc") as socket:
            await socket.send([part.decode() for part in (CALL[:9], CALL[9:])])
            answer = await socket.recv()
            assert isinstance(answer, str)
            assert answer.endswith("message_id:1;")

    @pytest.mark.parametrize(("name", "message"), [("web", "text"), ("rpc", b"binary")])
    async def test_messages_of_the_wrong_kind_end_the_connection(self, name: str, message: str | bytes) -> None:
        config = configured(web(), listener("rpc", "wolpertinger", "ws"))
        async with running(config) as edge, opened(edge, name) as socket:
            await socket.send(message)
            assert (await read_close(socket))[0] == 1003
            assert edge.of("rejected_frames_total", name, reason="bad_encoding") == 1

    async def test_a_ping_of_websockets_is_answered(self) -> None:
        async with running(configured(web())) as edge, opened(edge, "web") as socket:
            await (await socket.ping(b"payload"))

    @pytest.mark.parametrize(("longer", "taken"), [(0, True), (1, False)])
    @pytest.mark.parametrize("compression", [None, "deflate"])
    async def test_a_message_may_be_so_long_and_no_longer(
        self, longer: int, taken: bool, compression: str | None
    ) -> None:
        config = configured(web(frame_bytes=100_000))
        async with running(config) as edge, opened(edge, "web", compression=compression) as socket:
            size = 100_000 + MESSAGE_HEAD_BYTES + longer
            await socket.send(HANDSHAKE)
            assert await socket.recv() == HANDSHAKE
            await socket.send((bytes.fromhex("01 00") * size)[:size])  # yamp's pings, as many as fit
            if taken:
                assert await socket.recv() == bytes.fromhex("02 00")
                return
            assert (await read_close(socket))[0] == 1009
            assert edge.of("rejected_frames_total", "web", reason="too_large") == 1

    async def test_a_message_may_hold_more_than_the_largest_frame_if_its_frames_do_not(self) -> None:
        frames = [EVENT] * 1_000
        async with running(configured(web(frame_bytes=100))) as edge, opened(edge, "web") as socket:
            await socket.send(HANDSHAKE + b"".join(frames))
            await until(lambda: edge.kafka.frames() == frames)

    async def test_a_message_in_fragments_may_be_of_any_length(self) -> None:
        frames = [EVENT] * (2 * BATCH_BYTES // len(EVENT))
        async with running(configured(web(frame_bytes=100))) as edge, opened(edge, "web") as socket:
            await socket.send([HANDSHAKE, *frames])
            await until(lambda: edge.kafka.frames() == frames)

    async def test_a_text_is_no_longer_in_fragments_than_at_once(self) -> None:
        config = configured(listener("rpc", "wolpertinger", "ws", frame_bytes=1_024))
        async with running(config) as edge, opened(edge, "rpc") as socket:
            await socket.send(["x" * BATCH_BYTES, "x" * MESSAGE_HEAD_BYTES, "x"])
            assert (await read_close(socket))[0] == 1009

    async def test_a_compressed_message_is_opened_and_ours_are_compressed_for_who_asked_for_it(self) -> None:
        body = b"[" + b"0," * 5_000 + b"0]"
        event = LARGE_EVENT + len(body).to_bytes(4, "big") + body
        async with running(configured(web())) as edge, opened(edge, "web", compression="deflate") as socket:
            await socket.send(HANDSHAKE + event)
            assert await socket.recv() == HANDSHAKE
            await until(lambda: edge.kafka.frames() == [event])
            assert edge.of("received_bytes_total", "web") == len(HANDSHAKE + event)
            edge.delivers(event, protocol="yamp", sessions=(1,))
            assert await socket.recv() == event
            assert "permessage-deflate" in [one.name for one in socket.protocol.extensions]

    async def test_little_that_is_compressed_does_not_become_much_at_once(self) -> None:
        """Eight kilobytes, as many as a first read brings, hold eight messages of a megabyte."""
        body = b" " * 1_000_000 + b"1"
        event = LARGE_EVENT + len(body).to_bytes(4, "big") + body
        async with running(configured(web())) as edge, opened(edge, "web", compression="deflate") as socket:
            await socket.send(HANDSHAKE)
            assert await socket.recv() == HANDSHAKE
            extensions = socket.protocol.extensions
            messages = [Frame(Opcode.BINARY, event).serialize(mask=True, extensions=extensions) for _ in range(8)]
            assert sum(map(len, messages)) < 9_000
            socket.transport.write(b"".join(messages))
            taken, most_in_a_turn = edge.of("received_bytes_total", "web"), 0.0
            while len(edge.kafka.frames()) < 8:
                await asyncio.sleep(0)
                before, taken = taken, edge.of("received_bytes_total", "web")
                most_in_a_turn = max(most_in_a_turn, taken - before)
            assert edge.kafka.frames() == [event] * 8
            assert most_in_a_turn <= 2 * len(event)

    async def test_what_is_opened_in_slices_is_taken_whole_and_in_order(self) -> None:
        bodies = [b'"' + b"%06d" % number * 5_000 + b'"' for number in range(200)]
        events = [LARGE_EVENT + len(body).to_bytes(4, "big") + body for body in bodies]
        async with running(configured(web())) as edge, opened(edge, "web", compression="deflate") as socket:
            await socket.send([HANDSHAKE, *events])
            await until(lambda: len(edge.kafka.frames()) == len(events))
            assert edge.kafka.frames() == events

    async def test_what_breaks_the_rules_of_websockets_ends_the_connection(self) -> None:
        async with running(configured(web())) as edge, opened(edge, "web") as socket:
            socket.transport.write(b"\xf3\x80\0\0\0\0")  # reserved bits, and no such opcode
            with pytest.raises(ConnectionClosed):
                await socket.recv()
            assert edge.of("connections_closed_total", "web", reason="malformed") == 1


class TestOpening:
    @pytest.mark.parametrize(
        ("origins", "origin", "may"),
        [
            (None, None, True),
            (None, "http://127.0.0.1:8080", True),
            (None, "https://elsewhere.example", False),
            (["https://shop.example"], "https://shop.example", True),
            (["https://shop.example"], "http://127.0.0.1:8080", False),
            (["*"], "https://elsewhere.example", True),
        ],
    )
    async def test_pages_of_other_origins_are_kept_out(
        self, origins: list[str] | None, origin: str | None, may: bool
    ) -> None:
        async with running(configured(web(**{"origins": origins} if origins else {}))) as edge:
            if may:
                async with opened(edge, "web", origin=origin):
                    return
            with pytest.raises(InvalidStatus) as refused:
                await opened(edge, "web", origin=origin).__aenter__()
            assert refused.value.response.status_code == 403
            await until(lambda: edge.of("connections_closed_total", "web", reason="handshake") == 1)

    @pytest.mark.parametrize(
        ("listens", "asked", "status"),
        [("", "/anything", 101), ("/mesh", "/mesh", 101), ("/mesh", "/mesh?x=1", 101), ("/mesh", "/", 404)],
    )
    async def test_a_path_that_the_listener_names_is_the_only_one(self, listens: str, asked: str, status: int) -> None:
        named = {**web(), "listen": f"ws://127.0.0.1:0{listens}"}
        async with running(configured(named)) as edge:
            if status == 101:
                async with opened(edge, "web", asked):
                    return
            with pytest.raises(InvalidStatus) as refused:
                await opened(edge, "web", asked).__aenter__()
            assert refused.value.response.status_code == status

    @pytest.mark.parametrize(
        ("offered", "chosen"),
        [(None, None), (["mqtt", "YAMP"], "YAMP"), (["mqtt", "stomp"], "mqtt")],
    )
    async def test_a_browser_that_offers_subprotocols_gets_one_of_them(
        self, offered: list[str] | None, chosen: str | None
    ) -> None:
        async with running(configured(web())) as edge, opened(edge, "web", subprotocols=offered) as socket:
            assert socket.subprotocol == chosen

    async def test_who_asks_for_a_page_is_told_that_there_is_none(self) -> None:
        async with dialled(configured(web()), "web") as (edge, peer):
            peer.sends(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert (await peer.reads_all()).startswith(b"HTTP/1.1 426 ")
            assert edge.of("connections", "web", state="handshake") == 0

    @pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n"])
    async def test_a_request_that_does_not_come_in_time_ends_the_connection(self, said: bytes) -> None:
        async with dialled(configured(web(handshake_seconds=0.05)), "web") as (edge, peer):
            peer.sends(said)
            assert await peer.reads_all() == b""
            assert edge.of("connections_closed_total", "web", reason="timeout") == 1

    @pytest.mark.parametrize(("longer", "status"), [(0, b"426"), (1, b"431")])
    async def test_so_much_of_a_request_is_waited_for_and_no_more(self, longer: int, status: bytes) -> None:
        begun = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + (b"x:" + b"y" * 7_996 + b"\r\n") * 4
        last = b"z:" + b"y" * (REQUEST_BYTES + longer - len(begun) - 4) + b"\r\n"
        async with running(configured(web())) as edge:
            peer = await edge.dial("web")
            peer.sends(begun + last)
            if not longer:
                await peer.hears_nothing()
                peer.sends(b"\r\n")
            assert (await peer.reads_all()).startswith(b"HTTP/1.1 " + status)
            assert edge.of("connections_closed_total", "web", reason="too_large") == longer

    async def test_garbage_instead_of_a_request_ends_the_connection(self) -> None:
        async with dialled(configured(web()), "web") as (edge, peer):
            peer.sends(bytes(range(256)) + b"\r\n")
            await peer.reads_all()
            assert edge.of("connections_closed_total", "web", reason="handshake") == 1

    async def test_the_protocols_own_handshake_has_the_same_deadline(self) -> None:
        async with running(configured(web(handshake_seconds=0.1))) as edge, opened(edge, "web") as socket:
            assert (await socket.recv())[:1] == b"\x03"
            assert edge.of("connections_closed_total", "web", reason="timeout") == 1


class TestTheEnd:
    async def test_a_peer_that_closes_is_answered_and_its_session_is_over(self) -> None:
        async with running(configured(web())) as edge, opened(edge, "web") as socket:
            await socket.send(HANDSHAKE)
            await socket.recv()
            await socket.close(1000)
            assert socket.close_code == 1000
            await until(lambda: edge.of("connections_closed_total", "web", reason="eof") == 1)
            await until(lambda: edge.of("connections", "web", state="closing") == 0)

    async def test_a_drain_says_goodbye_in_the_protocols_words_and_then_in_those_of_websockets(self) -> None:
        async with running(configured(web())) as edge, opened(edge, "web") as socket:
            await socket.send(HANDSHAKE)
            await socket.recv()
            [session] = edge.life.sessions
            session.leave(CloseReason.DRAIN, "ws://127.0.0.1:9")
            assert (await socket.recv())[:1] == b"\x04"
            assert await read_close(socket) == (1001, "drain")

    async def test_who_finds_no_place_is_told_so_in_the_protocols_words_and_then_in_those_of_websockets(self) -> None:
        async with running(configured(web(connections=1))) as edge, opened(edge, "web") as first:
            await first.send(HANDSHAKE)
            assert await first.recv() == HANDSHAKE
            async with opened(edge, "web") as second:
                assert await second.recv() == encode(Close(CLOSE_REASONS[CloseReason.OVERLOAD]))
                assert await read_close(second) == (1013, "overload")
            await first.send(EVENT)
            await until(lambda: edge.kafka.frames() == [EVENT])

    async def test_a_protocol_without_a_goodbye_has_that_of_websockets(self) -> None:
        chat = listener("web", "wolpertinger", "ws")
        async with running(configured(chat)) as edge, opened(edge, "web") as socket:
            await until(lambda: list(edge.life.sessions))
            [session] = edge.life.sessions
            session.leave(CloseReason.KICKED)
            assert await read_close(socket) == (1008, "kicked")


class TestLinks:
    @pytest.mark.parametrize("secure", [False, True])
    async def test_a_link_may_be_a_websocket(self, secure: bool, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        scheme = "wss" if secure else "ws"
        tls = {"tls": authority.signs("server")} if secure else {}
        async with running(configured(listener("web", "yamp", scheme, **tls))) as server:
            url = f"{scheme}://127.0.0.1:{server.port('web')}"
            trusting = {"tls": {"ca": str(authority.ca)}} if secure else {}
            link = {"name": "plant", "protocol": "yamp", "connect": url, **trusting}
            async with running(configured(peers=[link])) as client:
                await until(lambda: list(client.life.sessions))
                await until(lambda: list(server.life.sessions))
                client.delivers(EVENT, protocol="yamp", sessions=(1,))
                await until(lambda: server.kafka.frames() == [EVENT])
                server.delivers(EVENT, protocol="yamp", sessions=(1,))
                await until(lambda: client.kafka.frames() == [EVENT])

    async def test_a_link_that_is_refused_rests_and_tries_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("gateway.edge.carriers.links.FIRST_REST_SECONDS", 0.02)
        asked: list[str] = []

        async def refuse(connection: ServerConnection, request: Any) -> Any:
            asked.append(request.path)
            return connection.respond(503, "not now\n")

        async def handle(connection: ServerConnection) -> None:
            with contextlib.suppress(ConnectionClosed):
                await connection.recv()

        async with serve(handle, "127.0.0.1", 0, process_request=refuse) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            link = {"name": "plant", "protocol": "yamp", "connect": f"ws://127.0.0.1:{port}/mesh"}
            async with running(configured(peers=[link])) as edge:
                await until(lambda: len(asked) >= 2)
                assert asked[:2] == ["/mesh", "/mesh"]
                assert edge.of("connections_closed_total", "plant", reason="handshake") >= 1
