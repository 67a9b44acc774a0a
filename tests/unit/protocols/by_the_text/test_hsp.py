"""hsp by its text: peers that write and read the bytes themselves, across a whole mesh."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.unit.edge.running import listener, until
from tests.unit.protocols.by_the_text.whole_mesh import Foreign, WholeMesh, whole_mesh

PING, PONG = "03", "04"
TYPES = {
    17: "temp.high",
    18: {"subject": "orders.create", "kind": "request", "reply_type": 19},
    20: "mesh.subscribe",
    21: {"subject": "orders.drop", "kind": "request"},
}
TEMP, ORDER, SUBSCRIBE, DROP = "0011", "0012", "0014", "0015"
ORDERED = "0013"
ANY_ID, FIRST_ID = "fffefdfc", "00000001"


def data(type_: str, payload: bytes = b"") -> str:
    return f"00 {type_} {len(payload):08x} {payload.hex()}"


def data_ack(number: str, type_: str, payload: bytes = b"") -> str:
    return f"01 {number} {type_} {len(payload):08x} {payload.hex()}"


def ack(number: str) -> str:
    return f"02 {number}"


def error(number: str, type_: str, payload: bytes = b"") -> str:
    return f"05 {number} {type_} {len(payload):08x} {payload.hex()}"


def error_undef(number: str) -> str:
    return f"06 {number}"


@asynccontextmanager
async def mesh() -> AsyncIterator[WholeMesh]:
    async with whole_mesh(
        listener("asks", "hsp", types=TYPES),
        listener("hears", "hsp", types=TYPES, subscribe=["temp.>", "hsp.*"]),
        listener("plain", "hsp", types=TYPES, subscribe=["temp.>"], deliver="plain"),
        listener("serves", "hsp", types=TYPES, serve=["orders.*"]),
        listener("careful", "hsp", types=TYPES, ack="delivered"),
    ) as running:
        yield running


async def standing(running: WholeMesh, name: str) -> Foreign:
    """hsp has no handshake: the mesh says nothing until it has something to say."""
    peer = await running.dial(name)
    await running.stands(name)
    return peer


@asynccontextmanager
async def peers_at(*names: str) -> AsyncIterator[list[Foreign]]:
    """Yields peers of these listeners whose sessions stand."""
    async with mesh() as running:
        yield [await standing(running, name) for name in names]


class TestData:
    async def test_data_of_any_type_and_length_arrives_and_is_acknowledged_both_ways(self) -> None:
        async with mesh() as running:
            receiver, sender = await standing(running, "hears"), await standing(running, "asks")
            sender.says(data(TEMP, b"hot"), data("0099", b"xyz"), data("0099"), data_ack(ANY_ID, TEMP, b"hotter"))
            await sender.hears(ack(ANY_ID))
            await receiver.hears(data_ack(FIRST_ID, TEMP, b"hot"), data_ack("00000002", "0099", b"xyz"))
            await receiver.hears(data_ack("00000003", "0099"), data_ack("00000004", TEMP, b"hotter"))
            receiver.says(ack("00000003"), ack(FIRST_ID), error("00000002", "1234", b"no"), error_undef("00000004"))
            receiver.says(PING)
            await receiver.hears(PONG)
            outcomes = running.kafka.outcomes
            await until(lambda: len(outcomes()) == 4)
            assert sorted(one.outcome for one in outcomes()) == ["confirmed", "confirmed"] + ["undeliverable"] * 2

    async def test_an_id_may_be_used_again_once_it_was_answered(self) -> None:
        async with peers_at("asks") as [sender]:
            for _ in range(3):
                sender.says(data_ack("00000000", TEMP))
                await sender.hears(ack("00000000"))

    async def test_a_listener_may_send_without_asking_to_be_acknowledged(self) -> None:
        async with peers_at("plain", "asks") as (receiver, sender):
            sender.says(data(TEMP, b"hot"))
            await receiver.hears(data(TEMP, b"hot"))

    async def test_an_acknowledgement_may_wait_for_all_who_get_it(self) -> None:
        async with peers_at("hears", "careful") as (receiver, sender):
            sender.says(data_ack(ANY_ID, TEMP, b"hot"), PING)
            await sender.hears(PONG)
            await receiver.hears(data_ack(FIRST_ID, TEMP, b"hot"))
            receiver.says(ack(FIRST_ID))
            await sender.hears(ack(ANY_ID))


class TestRequests:
    async def test_the_answer_s_body_goes_ahead_of_its_acknowledgement(self) -> None:
        async with peers_at("serves", "asks") as (server, client):
            client.says(data_ack(ANY_ID, ORDER, b"two"))
            await server.hears(data_ack(FIRST_ID, ORDER, b"two"))
            server.says(ack(FIRST_ID))
            await client.hears(data(ORDERED), ack(ANY_ID))

    async def test_an_error_arrives_as_it_was_said(self) -> None:
        async with peers_at("serves", "asks") as (server, client):
            client.says(data_ack(ANY_ID, DROP), data_ack("00000007", DROP))
            await server.hears(data_ack(FIRST_ID, DROP), data_ack("00000002", DROP))
            server.says(error_undef("00000002"), error(FIRST_ID, "1234", b"sold out"))
            await client.hears(error_undef("00000007"), error(ANY_ID, "1234", b"sold out"))

    async def test_a_request_that_nobody_serves_is_an_error(self) -> None:
        async with peers_at("asks") as [client]:
            client.says(data_ack(ANY_ID, ORDER))
            await client.hears(f"05 {ANY_ID} ff00")
            size = int.from_bytes(await client.reads(4), "big")
            assert b'"no_responder"' in await client.reads(size)

    async def test_a_type_may_stand_for_a_subscription(self) -> None:
        async with peers_at("asks", "careful") as (peer, sender):
            peer.says(data_ack(ANY_ID, SUBSCRIBE, b'{"subject":"temp.*"}'))
            await peer.hears(ack(ANY_ID))
            sender.says(data(TEMP, b"hot"))
            await peer.hears(data_ack(FIRST_ID, TEMP, b"hot"))

    @pytest.mark.parametrize("body", [b"", b"no json", b'{"subject":"a..b"}', b'{"subject":">.a"}', b'{"subject":7}'])
    async def test_a_subscription_that_is_none_is_an_error(self, body: bytes) -> None:
        async with peers_at("asks") as [peer]:
            peer.says(data_ack(ANY_ID, SUBSCRIBE, body))
            await peer.hears(f"05 {ANY_ID} ff00")
            size = int.from_bytes(await peer.reads(4), "big")
            assert b'"bad_request"' in await peer.reads(size)


class TestPing:
    async def test_each_ping_has_one_pong_also_while_an_answer_is_owed(self) -> None:
        async with peers_at("serves", "asks") as (server, client):
            client.says(data_ack(ANY_ID, DROP), PING, PING, PING)
            await client.hears(PONG, PONG, PONG)
            await server.hears(data_ack(FIRST_ID, DROP))
            server.says(ack(FIRST_ID))
            await client.hears(ack(ANY_ID))


BROKEN = {
    "a command nobody knows": "07",
    "a PONG without a PING": PONG,
    "an ACK of nothing": ack(ANY_ID),
    "an ERROR of nothing": error(ANY_ID, "1234"),
    "an ERROR_UNDEF of nothing": error_undef(ANY_ID),
    "a payload of DATA that nobody takes": "00 0011 40000000",
    "a payload of DATA_ACK that nobody takes": "01 00000001 0011 ffffffff",
    "a payload of ERROR that nobody takes": "05 00000001 0011 00100001",
}


@pytest.mark.parametrize("what", BROKEN)
async def test_what_is_broken_ends_the_connection_without_a_word_and_harms_no_other(what: str) -> None:
    async with peers_at("asks", "hears") as (bad, good):
        bad.says(PING, BROKEN[what])
        assert await bad.is_left() == bytes.fromhex(PONG)
        good.says(PING)
        await good.hears(PONG)
