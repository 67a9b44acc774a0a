"""yamp by its text: peers that write and read the bytes themselves, across a whole mesh."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest

from tests.unit.edge.running import listener
from tests.unit.protocols.by_the_text.whole_mesh import Foreign, WholeMesh, whole_mesh

JSON, MSGPACK = "00 0001 04 6a736f6e", "00 0001 07 6d73677061636b"
PING, PONG = "01 03 616263", "02 03 616263"
DONE, ERROR, PROGRESS, CANCELLED = "00", "01", "02", "03"
NO, YES = "00", "01"


def uid(number: int) -> str:
    return f"{number:02x}" * 16


def named(uri: str) -> str:
    return f"{len(uri):02x} {uri.encode().hex()}"


def body(text: str) -> str:
    return f"{len(text):08x} {text.encode().hex()}"


def event(number: int, uri: str, text: str) -> str:
    return f"05 {uid(number)} {named(uri)} {body(text)}"


def request(number: int, uri: str, text: str = "", progressive: str = NO) -> str:
    return f"06 {uid(number)} {named(uri)} {progressive} {body(text)}"


def cancel(number: int, uri: str, of: int, kill: str = NO) -> str:
    return f"07 {uid(number)} {named(uri)} {uid(of)} {kill}"


@asynccontextmanager
async def mesh() -> AsyncIterator[WholeMesh]:
    async with whole_mesh(
        listener("asks", "yamp"),
        listener("hears", "yamp", subscribe=["foo", "temp.>"]),
        listener("serves", "yamp", serve=["sum"]),
    ) as running:
        yield running


async def shaken(running: WholeMesh, name: str, handshake: str = JSON) -> Foreign:
    peer = await running.dial(name)
    peer.says(handshake)
    await peer.hears(handshake)
    await running.stands(name)
    return peer


@asynccontextmanager
async def peers_at(*names: str) -> AsyncIterator[list[Foreign]]:
    """Yields peers of these listeners whose sessions stand."""
    async with mesh() as running:
        yield [await shaken(running, name) for name in names]


async def hears_user_frame(peer: Foreign, kind: str, uri: str) -> bytes:
    """Its uid, which is any, after its type and before its uri."""
    await peer.hears(kind)
    fresh = await peer.reads(16)
    await peer.hears(named(uri))
    return fresh


async def hears_response(peer: Foreign, uri: str, of: int, outcome: str, text: str) -> None:
    await hears_user_frame(peer, "08", uri)
    await peer.hears(uid(of), outcome, body(text))


async def hears_request(peer: Foreign, uri: str, text: str, progressive: str) -> bytes:
    """Its uid."""
    asked = await hears_user_frame(peer, "06", uri)
    await peer.hears(progressive, body(text))
    return asked


def answers(peer: Foreign, asked: bytes, uri: str, outcome: str, text: str) -> None:
    peer.says(f"08 {uuid4().hex} {named(uri)} {asked.hex()} {outcome} {body(text)}")


class TestSystemFrames:
    @pytest.mark.parametrize("handshake", [JSON, MSGPACK])
    async def test_a_handshake_is_echoed(self, handshake: str) -> None:
        async with mesh() as running:
            peer = await shaken(running, "asks", handshake)
            peer.says(PING, "01 00", "01 ff" + "00" * 255)
            await peer.hears(PONG, "02 00", "02 ff" + "00" * 255)

    @pytest.mark.parametrize(
        ("first", "why"),
        [
            ("00 0002 04 6a736f6e", b"version 2"),
            ("00 0001 03 786d6c", b"json, msgpack"),
            ("00 0001 04 4a534f4e", b"json, msgpack"),
            (PING, b""),
            (event(1, "foo", "1"), b""),
            ("09", b""),
        ],
    )
    async def test_a_peer_that_begins_otherwise_is_told_why_and_left(self, first: str, why: bytes) -> None:
        async with mesh() as running:
            peer = await running.dial("asks")
            peer.says(first)
            await peer.hears("03")
            size = int.from_bytes(await peer.reads(2), "big")
            reason = await peer.is_left()
            assert len(reason) == size > 0
            assert why in reason

    @pytest.mark.parametrize("last", ["03 0000", "03 0003 627965", "04 000a 7463703a2f2f783a3132"])
    async def test_a_peer_that_closes_is_let_go(self, last: str) -> None:
        async with peers_at("asks") as [peer]:
            peer.says(last)
            assert await peer.is_left() == b""


class TestEvents:
    async def test_an_event_arrives_with_its_uri_and_its_body_in_the_receiver_s_format(self) -> None:
        async with mesh() as running:
            receiver, other = await shaken(running, "hears"), await shaken(running, "hears", MSGPACK)
            sender = await shaken(running, "asks")
            sender.says(event(1, "foo", '{"a":1}'), event(2, "temp/high", ""))
            for peer, written, null in (
                (receiver, body('{"a":1}'), body("null")),
                (other, "00000004 81a16101", "00000001 c0"),
            ):
                await hears_user_frame(peer, "05", "foo")
                await peer.hears(written)
                await hears_user_frame(peer, "05", "temp/high")
                await peer.hears(null)  # a stock client's parser fails on no bytes at all

    async def test_a_uid_that_comes_again_is_no_new_event(self) -> None:
        async with peers_at("hears", "asks") as (receiver, sender):
            sender.says(event(1, "foo", "1"), event(1, "foo", "1"), event(2, "foo", "2"))
            for written in ("1", "2"):
                await hears_user_frame(receiver, "05", "foo")
                await receiver.hears(body(written))


class TestRequests:
    async def test_a_response_names_its_request_and_nothing_else_must_fit(self) -> None:
        async with peers_at("serves", "asks") as (server, client):
            client.says(request(2, "sum", "[1,2,3]"))
            asked = await hears_request(server, "sum", "[1,2,3]", NO)
            answers(server, asked, "whatever", DONE, "6")
            await hears_response(client, "sum", 2, DONE, "6")

    async def test_progress_reaches_who_asked_for_it_and_an_error_is_an_answer(self) -> None:
        async with peers_at("serves", "asks") as (server, client):
            client.says(request(2, "sum", "[1]", YES), request(3, "sum", "[2]", NO))
            curious = await hears_request(server, "sum", "[1]", YES)
            patient = await hears_request(server, "sum", "[2]", NO)
            for asked in (patient, curious):
                answers(server, asked, "sum", PROGRESS, '"half"')
                answers(server, asked, "sum", ERROR, '"overflow"')
            await hears_response(client, "sum", 3, ERROR, '"overflow"')
            await hears_response(client, "sum", 2, PROGRESS, '"half"')
            await hears_response(client, "sum", 2, ERROR, '"overflow"')

    async def test_a_cancel_is_passed_on_and_answered(self) -> None:
        async with peers_at("serves", "asks") as (server, client):
            client.says(request(2, "sum", "[1]"))
            asked = await hears_request(server, "sum", "[1]", NO)
            client.says(cancel(9, "sum", 7), cancel(8, "sum", 2))
            await hears_user_frame(server, "07", "sum")
            await server.hears(asked, NO)
            answers(server, asked, "sum", CANCELLED, "")
            await hears_response(client, "sum", 2, CANCELLED, "null")

    async def test_after_a_kill_the_requester_hears_nothing(self) -> None:
        async with peers_at("serves", "asks") as (server, client):
            client.says(request(2, "sum", "[1]"))
            asked = await hears_request(server, "sum", "[1]", NO)
            client.says(cancel(8, "sum", 2, YES))
            await hears_user_frame(server, "07", "sum")
            await server.hears(asked, YES)
            answers(server, asked, "sum", DONE, "6")
            server.says(PING)
            await server.hears(PONG)
            client.says(PING)
            await client.hears(PONG)

    async def test_two_open_requests_of_one_uid_are_one_too_many(self) -> None:
        async with peers_at("serves", "asks") as (server, client):
            client.says(request(2, "sum", "[1]"), request(2, "sum", "[2]"))
            await hears_user_frame(client, "08", "sum")
            await client.hears(uid(2), ERROR)
            size = int.from_bytes(await client.reads(4), "big")
            assert json.loads(await client.reads(size))["code"] == "bad_request"
            await hears_request(server, "sum", "[1]", NO)

    async def test_a_request_that_nobody_serves_is_an_error(self) -> None:
        async with peers_at("asks") as [client]:
            client.says(request(2, "nobody.here"))
            await hears_user_frame(client, "08", "nobody.here")
            await client.hears(uid(2), ERROR)
            size = int.from_bytes(await client.reads(4), "big")
            assert json.loads(await client.reads(size))["code"] == "no_responder"

    async def test_the_mesh_itself_is_asked_in_the_same_words(self) -> None:
        async with peers_at("asks", "serves") as (client, sender):
            client.says(request(2, "mesh.subscribe", '{"subject":"late.*"}'))
            await hears_response(client, "mesh.subscribe", 2, DONE, "true")
            sender.says(event(1, "late.news", "[]"))
            await hears_user_frame(client, "05", "late.news")
            await client.hears(body("[]"))


BROKEN = {
    "a frame nobody knows": "09",
    "a second handshake": JSON,
    "a boolean that is none": request(1, "sum", "1", "02"),
    "a kill that is no boolean": cancel(1, "sum", 2, "ff"),
    "a response that is of no type": f"08 {uid(1)} {named('sum')} {uid(2)} 04 {body('')}",
    "a uri that is no text": f"05 {uid(1)} 02 c328 {body('')}",
    "a uri that is none": f"05 {uid(1)} 00 {body('')}",
    "a body that is not of the format": event(1, "foo", "{"),
    "a body that nobody takes": f"05 {uid(1)} {named('foo')} ffffffff",
}


@pytest.mark.parametrize("what", BROKEN)
async def test_what_is_broken_is_told_why_and_harms_no_other(what: str) -> None:
    async with peers_at("asks", "hears") as (bad, good):
        bad.says(PING, BROKEN[what])
        await bad.hears(PONG, "03")
        size = int.from_bytes(await bad.reads(2), "big")
        assert len(await bad.is_left()) == size > 0
        good.says(PING)
        await good.hears(PONG)
