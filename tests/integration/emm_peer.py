"""A device for tests: signs its own packets with keys of its own, over a plain UDP socket."""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID, uuid4

import yaml

from gateway.auth.keyring import GatewayIdentity
from gateway.auth.verification import public_of
from gateway.protocols.emm import codec
from gateway.protocols.emm.frames import EventType, Field, FieldType
from gateway.protocols.emm.signing import Signer
from tests.integration.mesh import TestMesh


@dataclass
class Device:
    port: int
    identity: GatewayIdentity = field(
        default_factory=lambda: GatewayIdentity(
            uuid4().bytes, bytes.fromhex("00000001"), os.urandom(32), os.urandom(32)
        )
    )
    socket: socket.socket = field(default_factory=lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    host: str = "127.0.0.1"

    @property
    def node(self) -> str:
        return str(UUID(bytes=self.identity.node))

    def trusted_by(self, mesh: TestMesh) -> Device:
        """Its keys go into the mesh's trust store, as `keys new` would put them there."""
        return self.trusted_in(mesh.keys_file)

    def trusted_in(self, keys_file: Path) -> Device:
        store = yaml.safe_load(keys_file.read_text())
        assert self.identity.hmac is not None
        keys = {
            "hmac": self.identity.hmac.hex(),
            "ed25519": public_of(self.identity.ed25519_private).hex(),
            "default": True,
        }
        store.setdefault("nodes", {})[self.node] = {"keys": {self.identity.key_id.hex(): keys}}
        fresh = keys_file.with_suffix(".new")
        fresh.write_text(yaml.safe_dump(store))
        fresh.replace(keys_file)
        return self

    def packet(self, subject: str, body: str = "", event_type: EventType = EventType.EVENT) -> bytes:
        fields = [Field(FieldType.STRING, subject.encode())]
        if body:
            fields.append(Field(FieldType.STRING, body.encode()))
        return self._packet(event_type, tuple(fields))

    def hello(self, *patterns: str) -> bytes:
        """A signed hello that asks for these patterns."""
        capabilities = json.dumps({"subscribe": patterns}).encode()
        return self._packet(EventType.HELLO, (Field(FieldType.BINARY, capabilities),))

    def _packet(self, event_type: EventType, fields: tuple[Field, ...]) -> bytes:
        draft = codec.Draft(message_id=os.urandom(4), timestamp=int(time.time()), fields=fields, event_type=event_type)
        return codec.encode(draft, Signer.of(self.identity))

    def send(self, packet: bytes) -> None:
        self.socket.sendto(packet, (self.host, self.port))

    def subscribe(self, *patterns: str, seconds: float = 40.0) -> None:
        """Says hello until the mesh answers with its own."""
        deadline = time.monotonic() + seconds
        self.socket.settimeout(2)
        while time.monotonic() < deadline:
            self.send(self.hello(*patterns))
            try:
                answer = codec.decode(self.socket.recv(2048))
            except TimeoutError:
                continue
            assert answer.header.event_type == EventType.HELLO
            return
        raise AssertionError("the mesh did not answer a signed hello")

    def receive(self, seconds: float = 30.0) -> bytes | None:
        """The next event; answers to hellos that were sent more than once are passed over."""
        self.socket.settimeout(seconds)
        try:
            while True:
                packet = self.socket.recv(2048)
                if codec.decode(packet).header.event_type != EventType.HELLO:
                    return packet
        except TimeoutError:
            return None

    def close(self) -> None:
        self.socket.close()
