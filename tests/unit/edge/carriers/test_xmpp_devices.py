"""Tests a peer's devices as an XMPP server reports them, of which it may invent any number."""

from __future__ import annotations

from gateway.edge.carriers import xmpp_carrier
from tests.unit.edge.carriers.test_xmpp import chat, closed
from tests.unit.edge.foreign_xmpp import ALICE, body, xmpp_server
from tests.unit.edge.running import configured, running, until


async def test_the_last_devices_that_a_server_names_are_remembered() -> None:
    async with xmpp_server() as server, running(configured(chat(server))) as edge:
        await server.accepts()
        server.message(body(1))
        invented = [f"{ALICE}/{number}" for number in range(xmpp_carrier.MOST_DEVICES + 6)]
        for device in invented:
            server.presence(device)
        for device in invented[6:]:
            server.presence(device, "unavailable")
        await until(lambda: closed(edge) == ["eof"])
