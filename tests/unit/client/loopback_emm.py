"""A mesh of datagrams in one process: it grants leases, and sends events to those who hold one."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from gateway.auth.keyring import GatewayIdentity, KeyRing
from gateway.core.event import Event
from gateway.core.reasons import Rejected
from gateway.core.subjects import matches
from gateway.protocols.emm import PROTOCOL
from gateway.protocols.emm.options import EmmOptions
from gateway.protocols.emm.presence import hello_reply
from gateway.protocols.spec import CodecContext
from gateway.records.raw_log.frames import FrameSource, RawFrame

Address = tuple[str, int]
FORBIDDEN = "forbidden"


class EmmMesh(asyncio.DatagramProtocol):
    """`deaf`: so many hellos are lost on their way."""

    transport: asyncio.DatagramTransport

    def __init__(self, keys: KeyRing, identity: GatewayIdentity, deaf: int, lease_seconds: int) -> None:
        self.env = CodecContext(keys, identity)
        self.deaf = deaf
        self.lease_seconds = lease_seconds
        self.leases: dict[Address, tuple[str, ...]] = {}
        self.heard: asyncio.Queue[Event | Rejected] = asyncio.Queue()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.DatagramTransport, transport)

    @property
    def port(self) -> int:
        port: int = self.transport.get_extra_info("sockname")[1]
        return port

    def datagram_received(self, data: bytes, addr: Address) -> None:
        raw = RawFrame(data, FrameSource("emm", "loop", "edge-0", 1), time.time_ns() // 1000)
        try:
            event = PROTOCOL.to_event(raw, f"0-{time.monotonic_ns()}-0", EmmOptions(encryption="open"), self.env)
        except Rejected as refused:
            self.heard.put_nowait(refused)
            return
        self.heard.put_nowait(event)
        if event.subject == "mesh.emm.hello":
            self.grant(event, addr)
        for subscriber, patterns in self.leases.items():
            if any(matches(pattern, event.subject) for pattern in patterns):
                self.transport.sendto(data, subscriber)

    def grant(self, hello: Event, address: Address) -> None:
        if self.deaf > 0:
            self.deaf -= 1
            return
        wanted = [pattern for pattern in json.loads(hello.body)["subscribe"] if pattern != FORBIDDEN]
        self.leases[address] = tuple(wanted)
        self.transport.sendto(hello_reply(hello, self.lease_seconds, wanted, self.env), address)


@asynccontextmanager
async def emm_loopback(
    keys: KeyRing, identity: GatewayIdentity, *, deaf: int = 0, lease_seconds: int = 90
) -> AsyncIterator[EmmMesh]:
    loop = asyncio.get_running_loop()
    transport, mesh = await loop.create_datagram_endpoint(
        lambda: EmmMesh(keys, identity, deaf, lease_seconds), local_addr=("127.0.0.1", 0)
    )
    try:
        yield mesh
    finally:
        transport.close()
