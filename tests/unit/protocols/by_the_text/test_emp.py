"""emp by its text: peers that write and read the bytes themselves, across a whole mesh."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.unit.edge.running import listener
from tests.unit.protocols.by_the_text.whole_mesh import Foreign, WholeMesh, whole_mesh

HELLO, BYE = "0000000c 00000000 01000000", "00000008 01000000"
PING, PONG = "00000008 02000000", "00000008 03000000"
DATA = "0000000b 05000000 010203"
HI, OK = b"hi".hex(), b"ok".hex()


def request(number: str, body: str) -> str:
    return f"{8 + 20 + len(body) // 2:08x} 05800000 00000014 00000000 80000000 {number} {body}"


def response(number: str, body: str) -> str:
    return f"{8 + 20 + len(body) // 2:08x} 05800000 00000014 00000000 00000000 {number} {body}"


ONE, MINE = "0000000000000001", "8000000000000000"


@asynccontextmanager
async def mesh() -> AsyncIterator[WholeMesh]:
    async with whole_mesh(
        listener("asks", "emp"),
        listener("serves", "emp", serve=["emp.data"]),
        listener("hears", "emp", subscribe=["emp.>"]),
        listener("speaks", "emp", subjects={"data": "emp.spoken"}),
    ) as running:
        yield running


async def greeted(running: WholeMesh, name: str) -> Foreign:
    peer = await running.dial(name)
    peer.says(HELLO)
    await peer.hears(HELLO)
    await running.stands(name)
    return peer


@asynccontextmanager
async def peers_at(*names: str) -> AsyncIterator[list[Foreign]]:
    """Yields peers of these listeners whose sessions stand."""
    async with mesh() as running:
        yield [await greeted(running, name) for name in names]


class TestHandshake:
    async def test_our_hello_waits_for_nobody(self) -> None:
        async with mesh() as running:
            await (await running.dial("asks")).hears(HELLO)

    @pytest.mark.parametrize("hello", ["0000000c 007fffff 01ffffff", "0000000c 00000000 ff000000"])
    async def test_unused_bits_and_higher_versions_are_no_matter(self, hello: str) -> None:
        async with mesh() as running:
            peer = await running.dial("asks")
            peer.says(hello, PING)
            await peer.hears(HELLO, PONG)

    @pytest.mark.parametrize("first", [BYE, "00000012 04000000 03000000 0004 74657374", "0000000c 00000000 00000000"])
    async def test_a_peer_that_ends_it_or_has_no_version_is_left_without_a_word(self, first: str) -> None:
        async with mesh() as running:
            peer = await running.dial("asks")
            peer.says(first)
            await peer.hears(HELLO)
            assert await peer.is_left() == b""

    @pytest.mark.parametrize("first", [PING, DATA, PONG, "0000000b 00000000 010000", "00000008 06000000"])
    async def test_anything_else_first_is_a_protocol_error(self, first: str) -> None:
        async with mesh() as running:
            peer = await running.dial("asks")
            peer.says(first)
            await peer.hears(HELLO)
            assert (await peer.is_left())[4:9].hex(" ") == "04 00 00 00 03"


class TestTheFlow:
    async def test_each_ping_has_its_pong_and_a_pong_nobody_asked_for_is_nothing(self) -> None:
        async with peers_at("asks") as [peer]:
            peer.says(PING, PONG, "0000000b 02000000 010203", PING)
            await peer.hears(PONG, PONG, PONG)

    async def test_a_second_hello_is_an_error_and_bye_is_the_end(self) -> None:
        async with peers_at("asks", "asks") as (twice, polite):
            twice.says(HELLO)
            assert (await twice.is_left())[4:9].hex(" ") == "04 00 00 00 03"
            polite.says(BYE)
            assert await polite.is_left() == b""

    async def test_data_arrives_as_it_was_sent_of_any_type(self) -> None:
        async with mesh() as running:
            sender, receiver = await greeted(running, "asks"), await greeted(running, "hears")
            sender.says(DATA, "00000008 05000000", "0000000a c8000000 6869")
            await receiver.hears(DATA, "00000008 05000000", "0000000a c8000000 6869")
            subjects = [event.subject for event in running.kafka.events if event.protocol == "emp"]
            assert subjects == ["emp.data", "emp.data", "emp.type.200"]

    async def test_a_compressed_body_arrives_plain_at_who_never_compressed(self) -> None:
        async with peers_at("speaks", "hears") as (sender, receiver):
            zipped = gzip.compress(b"hi")
            head = f"{8 + 12 + len(zipped):08x} 05800000 0000000c 01000000 01000000"
            sender.says(head, zipped, "00000016 05800000 0000000c 01000000 00000000 6869")
            await receiver.hears("0000000a 05000000 6869", "0000000a 05000000 6869")


class TestRequests:
    async def test_a_response_has_the_id_of_its_request_on_each_connection(self) -> None:
        async with peers_at("serves", "asks") as (server, client):
            client.says(request(MINE, HI))
            await server.hears(request(ONE, HI))
            server.says(response(ONE, OK))
            await client.hears(response(MINE, OK))

    async def test_blocks_may_be_several(self) -> None:
        async with peers_at("serves", "asks") as (server, client):
            identity = "0000000c 01000000 00000000"
            client.says("0000002a 05800000 00000014 00800000 80000000", MINE, identity, HI)
            await server.hears(request(ONE, HI))

    async def test_responses_may_come_in_any_order(self) -> None:
        async with peers_at("serves", "asks") as (server, client):
            client.says(request("000000000000000a", HI), request("000000000000000b", HI))
            await server.hears(request(ONE, HI), request("0000000000000002", HI))
            server.says(response("0000000000000002", OK), response(ONE, HI))
            await client.hears(response("000000000000000b", OK), response("000000000000000a", HI))

    async def test_a_response_to_nothing_is_a_protocol_error(self) -> None:
        async with peers_at("asks") as [peer]:
            peer.says(response(ONE, OK))
            assert (await peer.is_left())[4:9].hex(" ") == "04 00 00 00 03"

    async def test_who_serves_and_goes_leaves_its_requesters_an_answer(self) -> None:
        async with peers_at("serves", "asks") as (server, client):
            client.says(request(MINE, HI))
            await server.hears(request(ONE, HI))
            server.says(BYE)
            size = int.from_bytes(await client.reads(4), "big")
            answer = await client.reads(size - 4)
            assert answer[:24].hex() == f"05800000 00000014 00000000 00000000 {MINE}".replace(" ", "")
            assert b"undeliverable" in answer


BROKEN = {
    "a size below its least": ("00000007 05000000", "03"),
    "E without a block": ("00000008 05800000", "03"),
    "a block below its least": ("00000010 05800000 00000007 01000000", "04 01"),
    "a block past the envelope": ("00000010 05800000 00000009 01000000", "04 01"),
    "M on the last block": ("00000014 05800000 0000000c 01800000 00000000", "04 01"),
    "a scheme nobody knows": ("00000014 05800000 0000000c 01000000 02000000", "04 01"),
    "an extension nobody knows": ("00000010 05800000 00000008 07000000", "04 07"),
    "request id 0": (request("0000000000000000", HI), "03"),
    "a body that is no gzip": ("00000016 05800000 0000000c 01000000 01000000 6869", "04 01"),
    "a type nobody knows": ("00000008 06000000", "03"),
    "an error whose text does not end": ("00000011 04000000 03000000 0004 746573", "03"),
}


@pytest.mark.parametrize("what", BROKEN)
async def test_what_is_broken_is_told_with_its_code_and_harms_no_other(what: str) -> None:
    sent, code = BROKEN[what]
    async with peers_at("asks", "asks") as (bad, good):
        bad.says(sent)
        last = await bad.is_left()
        assert last[4] == 4
        assert last[8:].hex(" ").startswith(code)
        assert len(last) == int.from_bytes(last[:4], "big") == 14 + int.from_bytes(last[12:14], "big")
        good.says(PING)
        await good.hears(PONG)


async def test_a_size_that_nobody_takes_is_refused_by_its_four_bytes() -> None:
    async with peers_at("asks") as [peer]:
        peer.says("40000000")
        assert (await peer.is_left())[4:9].hex(" ") == "04 00 00 00 03"
