"""A mesh in one process, for clients to talk to: real sockets, the protocols' own sessions, and a router of forty lines
that forgets everything. What the real one promises is tested elsewhere."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

from websockets.asyncio.server import Server, ServerConnection, serve

from gateway.auth.keyring import KeyRing
from gateway.core.content import JSON, decode_value
from gateway.core.event import Event, Kind
from gateway.core.reasons import MeshError
from gateway.core.subjects import matches
from gateway.protocols import protocols
from gateway.protocols.actions import AbandonRequests, Action, Delivery, FramesReceived, Opened, Terminated
from gateway.protocols.session import Session
from gateway.protocols.session_settings import SessionSettings
from gateway.protocols.spec import CodecContext, Options, ProtocolSpec, Target
from gateway.records.raw_log.frames import FrameSource, RawFrame, ReplyAddress

ENV = CodecContext(KeyRing())


class Peer:
    """One connection of the mesh's."""

    def __init__(self, mesh: LoopbackMesh, *, messages: bool = False) -> None:
        self.mesh = mesh
        self.interests: set[tuple[str, str]] = set()
        self.source = FrameSource(mesh.spec.name, "loop", "edge-0", 1, next(mesh.numbers))
        self.session: Session = mesh.new_session(messages)

    def put(self, data: list[bytes]) -> None:
        raise NotImplementedError

    def hang_up(self) -> None:
        raise NotImplementedError

    def begin(self) -> None:
        self.mesh.peers.append(self)
        self.session.start(time.monotonic())
        self.pump()

    def receive(self, data: bytes) -> None:
        self.session.receive(data, time.monotonic())
        self.pump()

    def end(self) -> None:
        self.session.receive_eof()
        self.pump()
        if self in self.mesh.peers:
            self.mesh.peers.remove(self)

    def drain(self, redirect_url: str | None = None) -> None:
        self.session.drain(time.monotonic(), redirect_url)
        self.pump()

    def wants(self, verb: str, subject: str) -> bool:
        return any(of == verb and matches(pattern, subject) for of, pattern in self.interests)

    def deliver(self, event: Event, *, reply: ReplyAddress | None = None, request: ReplyAddress | None = None) -> None:
        asked = request.request if request else ""
        target = Target(self.source.protocol, "loop", self.source.facts, asked, not request or request.progressive)
        encoded = self.mesh.spec.from_event(event, target, self.mesh.options, ENV)
        delivery = Delivery(event.id, event.kind, event.subject, encoded.frame, encoded.stamps, reply, asked)
        self.session.deliver(delivery, time.monotonic())
        self.pump()

    def owe_nothing(self, call: Event) -> None:
        self.session.deliver(Delivery("", Kind.EVENT, call.subject, b"", request=call.message_id), time.monotonic())
        self.pump()

    def pump(self) -> None:
        while actions := self.session.actions():
            for action in actions:
                self.act(action)
        self.put(self.session.data_to_send())
        if self.session.closed:
            self.hang_up()

    def act(self, action: Action) -> None:
        match action:
            case Opened(facts):
                self.source = replace(self.source, facts=dict(facts))
            case FramesReceived():
                if action.tag is not None:
                    self.session.logged(action.tag, time.monotonic())
                at = 0
                for length in action.lengths:
                    self.mesh.route(self, RawFrame(action.data[at : at + length], self.source, 1, action.replies))
                    at += length
            case AbandonRequests(replies, error):
                for reply in replies:
                    self.mesh.tell_error(reply, error)
            case Terminated(reason):
                self.mesh.ended.append(reason)


class StreamPeer(Peer, asyncio.Protocol):
    """Over TCP or TLS."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.begin()

    def data_received(self, data: bytes) -> None:
        self.receive(data)

    def eof_received(self) -> bool:
        self.end()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.end()

    def put(self, data: list[bytes]) -> None:
        if not self.transport.is_closing():
            self.transport.writelines(data)

    def hang_up(self) -> None:
        self.transport.close()


class WebSocketPeer(Peer):
    def __init__(self, mesh: LoopbackMesh, socket: ServerConnection) -> None:
        super().__init__(mesh, messages=True)
        self.socket = socket
        self.outgoing: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def talk(self) -> None:
        self.begin()
        writer = asyncio.create_task(self.write_all())
        async for message in self.socket:
            assert isinstance(message, str) is self.mesh.spec.text_messages
            self.receive(message.encode() if isinstance(message, str) else message)
        self.end()
        await writer

    async def write_all(self) -> None:
        while (data := await self.outgoing.get()) is not None:
            await self.socket.send(data.decode() if self.mesh.spec.text_messages else data)
        await self.socket.close()

    def put(self, data: list[bytes]) -> None:
        for message in data:
            self.outgoing.put_nowait(message)

    def hang_up(self) -> None:
        self.outgoing.put_nowait(None)


class LoopbackMesh:
    """`heard`: every event it was sent, as it understood it."""

    def __init__(self, spec: ProtocolSpec[Any], options: Options, request_seconds: float) -> None:
        self.spec = spec
        self.options = options
        self.request_seconds = request_seconds
        self.peers: list[Peer] = []
        self.heard: list[Event] = []
        self.ended: list[str] = []
        self.numbers = itertools.count(1)
        self.ids = itertools.count(1)
        self.port = 0
        self.loop = asyncio.get_running_loop()

    def new_session(self, messages: bool) -> Session:
        assert self.spec.session is not None
        settings = SessionSettings(
            token=os.urandom, request_timeout_seconds=self.request_seconds, message_transport=messages
        )
        session: Session = self.spec.session(settings, self.options)
        return session

    def route(self, peer: Peer, raw: RawFrame) -> None:
        event = self.spec.to_event(raw, f"0-0-{next(self.ids)}", self.options, ENV)
        self.heard.append(event)
        if event.kind.answers:
            for reply in raw.reply_addresses:
                self.answer(reply, event)
        elif event.subject in ("mesh.subscribe", "mesh.serve", "mesh.unsubscribe", "mesh.unserve"):
            self.control(peer, event)
        elif event.kind is Kind.CANCEL:
            for server in self.wanting("serve", event.subject):
                server.deliver(event, reply=replace(self.address(peer, event), request=event.correlation))
        elif event.kind is Kind.REQUEST:
            self.request(peer, event)
        else:
            for subscriber in self.wanting("subscribe", event.subject):
                subscriber.deliver(event)

    def request(self, peer: Peer, event: Event) -> None:
        if servers := self.wanting("serve", event.subject):
            servers[0].deliver(event, reply=self.address(peer, event))
        elif self.spec.calls_may_be_events and (subscribers := self.wanting("subscribe", event.subject)):
            for subscriber in subscribers:
                subscriber.deliver(replace(event, kind=Kind.EVENT))
            peer.owe_nothing(event)
        else:
            self.tell_error(self.address(peer, event), MeshError.NO_RESPONDER)

    def control(self, peer: Peer, event: Event) -> None:
        verb = event.subject.removeprefix("mesh.")
        pattern = decode_value(event.body, event.content_type)["subject"]
        if pattern == "forbidden":
            self.tell_error(self.address(peer, event), MeshError.FORBIDDEN)
            return
        if verb.startswith("un"):
            peer.interests.discard((verb.removeprefix("un"), pattern))
        else:
            peer.interests.add((verb, pattern))
        self.tell(self.address(peer, event), Kind.RESPONSE, True)

    def tell_error(self, to: ReplyAddress, error: MeshError) -> None:
        self.tell(to, Kind.ERROR, {"code": error, "message": "said the loopback mesh"}, {"mesh-error": error})

    def tell(self, to: ReplyAddress, kind: Kind, value: Any, headers: Mapping[str, str] | None = None) -> None:
        body = json.dumps(value).encode()
        event = Event(f"0-0-{next(self.ids)}", kind, to.subject, "mesh", "loop", "edge-0", "", "", "", 1,
                      content_type=JSON, body=body, headers=headers or {})  # fmt: skip
        self.answer(to, event)

    def answer(self, to: ReplyAddress, event: Event) -> None:
        """Whoever has gone meanwhile gets none."""
        for peer in self.peers:
            if peer.source.session == to.session:
                peer.deliver(event, request=to)

    def address(self, peer: Peer, event: Event) -> ReplyAddress:
        source, progressive = peer.source, event.headers.get("progressive") != "false"
        return ReplyAddress(source.protocol, "loop", "edge-0", 1, source.session, event.message_id, event.subject,
                            progressive, source.facts)  # fmt: skip

    def wanting(self, verb: str, subject: str) -> list[Peer]:
        return [peer for peer in self.peers if peer.wants(verb, subject)]


@asynccontextmanager
async def loopback(
    protocol: str, options: Mapping[str, Any] | None = None, *, tls: ssl.SSLContext | None = None,
    websocket: bool = False, request_seconds: float = 30.0,
) -> AsyncIterator[LoopbackMesh]:  # fmt: skip
    spec = protocols()[protocol]
    mesh = LoopbackMesh(spec, spec.options.model_validate(options or {}), request_seconds)
    server: asyncio.Server | Server
    if websocket:
        server = await serve(lambda socket: WebSocketPeer(mesh, socket).talk(), "127.0.0.1", 0, ssl=tls)
    else:
        server = await asyncio.get_running_loop().create_server(lambda: StreamPeer(mesh), "127.0.0.1", 0, ssl=tls)
    mesh.port = next(iter(server.sockets)).getsockname()[1]
    try:
        yield mesh
    finally:
        server.close()
        for peer in list(mesh.peers):
            peer.drain()
        await server.wait_closed()
