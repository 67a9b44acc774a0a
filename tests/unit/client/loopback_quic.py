"""The mesh of datagrams, reached by QUIC: aioquic's own server in front of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import DatagramFrameReceived, QuicEvent

from gateway.auth.keyring import GatewayIdentity, KeyRing
from tests.unit.client.certificates import Authority
from tests.unit.client.loopback_emm import Address, EmmMesh


class QuicMesh(EmmMesh):
    """Its addresses are numbers of connections."""

    def __init__(self, keys: KeyRing, identity: GatewayIdentity) -> None:
        super().__init__(keys, identity, deaf=0, lease_seconds=90)
        self.connections: list[QuicConnectionProtocol] = []
        self.transport = cast(asyncio.DatagramTransport, self)
        self.bound = 0

    @property
    def port(self) -> int:
        return self.bound

    def sendto(self, data: bytes, address: Address) -> None:
        connection = self.connections[address[1]]
        connection._quic.send_datagram_frame(data)
        connection.transmit()

    def end(self, code: int, reason: str) -> None:
        for connection in self.connections:
            connection.close(error_code=code, reason_phrase=reason)

    def connection(self, *arguments: Any, **named: Any) -> QuicConnectionProtocol:
        mesh, number = self, len(self.connections)

        class Connection(QuicConnectionProtocol):
            def quic_event_received(self, event: QuicEvent) -> None:
                if isinstance(event, DatagramFrameReceived):
                    mesh.datagram_received(event.data, ("", number))

        made = Connection(*arguments, **named)
        self.connections.append(made)
        return made


@asynccontextmanager
async def quic_loopback(
    keys: KeyRing, identity: GatewayIdentity, authority: Authority, **settings: Any
) -> AsyncIterator[QuicMesh]:
    usual: dict[str, Any] = {"alpn_protocols": ["emm"], "max_datagram_frame_size": 65_535}
    configuration = QuicConfiguration(is_client=False, **(usual | settings))
    configuration.load_cert_chain(*authority.sign("mesh"))
    mesh = QuicMesh(keys, identity)
    server = await serve("127.0.0.1", 0, configuration=configuration, create_protocol=mesh.connection)
    assert server._transport is not None
    mesh.bound = server._transport.get_extra_info("sockname")[1]
    try:
        yield mesh
    finally:
        server.close()
