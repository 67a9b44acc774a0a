"""Clients of a mesh: one for every protocol that has sessions, one for the protocol of datagrams.

They are built on the protocols' own sessions and mappings, so a protocol that is added has its client at once.

    async with connect("yamp", "127.0.0.1", 5042) as client:
        await client.subscribe("temp.>")
        await client.publish("temp.high", b"81", "application/json")
        async for event in client.events():
            ...

    async with connect_emm("127.0.0.1", 5050, key=find_key("device.json")) as client:
        client.post("temp.high", b"81", "application/json")
"""

from __future__ import annotations

from gateway.client.connecting import connect, open_client
from gateway.client.datagram import DatagramClient, TlsFiles, connect_emm
from gateway.client.errors import (
    ClientError,
    EndedError,
    NoAnswerError,
    RefusedError,
    UndeliveredError,
    UnreachableError,
)
from gateway.client.packet_key import KeyNotFoundError, PacketKey, find_key
from gateway.client.packets import Wrapping
from gateway.client.serving import IncomingRequest
from gateway.client.stream import StreamClient
from gateway.client.translation import Answer

__all__ = [
    "Answer",
    "ClientError",
    "DatagramClient",
    "EndedError",
    "IncomingRequest",
    "KeyNotFoundError",
    "NoAnswerError",
    "PacketKey",
    "RefusedError",
    "StreamClient",
    "TlsFiles",
    "UndeliveredError",
    "UnreachableError",
    "Wrapping",
    "connect",
    "connect_emm",
    "find_key",
    "open_client",
]
