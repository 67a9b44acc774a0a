"""emm by its text: devices that build, sign and verify packets themselves, across a whole mesh."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import socket
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from gateway.auth.keyring import GatewayIdentity, Key, KeyRing
from tests.unit.edge.running import listener, until
from tests.unit.protocols.by_the_text.whole_mesh import WholeMesh, whole_mesh

HELLO, HEARTBEAT, EVENT = 1, 2, 3
STRING, INTEGER, BINARY, JSON, HMAC, SIGNATURE, PUBLIC_KEY = 0x01, 0x02, 0x04, 0x05, 0x10, 0x12, 0x13
NODE_ID, TIMESTAMP, AUTH_KEY_ID, UNKNOWN = 0x14, 0x15, 0x18, 0x77
MAX_PAYLOAD_SIZE = 531
LEASE_SECONDS = 1

Field = tuple[int, bytes]
GATEWAY_SEED = b"\x0b" * 32


def header(message_id: bytes, flags: int, kind: int, timestamp: int, length: int, version: int = 1) -> bytes:
    return struct.pack(">B4sBBQH", version, message_id, flags, kind, timestamp, length)


def written(fields: list[Field]) -> bytes:
    return b"".join(bytes([type_, len(value)]) + value for type_, value in fields)


def read(packet: bytes) -> list[Field]:
    fields, at = [], 17
    while at < len(packet):
        fields.append((packet[at], packet[at + 2 : at + 2 + packet[at + 1]]))
        at += 2 + packet[at + 1]
    return fields


def canonical(packet: bytes) -> bytes:
    kept = [one for one in read(packet) if one[0] not in (HMAC, SIGNATURE)]
    return packet[:17] + written(sorted(kept, key=lambda one: one[0]))


@dataclass
class Device:
    """`at`: the listener it sends to."""

    at: tuple[str, int]
    node: bytes = field(default_factory=lambda: os.urandom(16))
    key_id: bytes = b"\0\0\0\x07"
    secret: bytes = field(default_factory=lambda: os.urandom(32))
    private: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    def __post_init__(self) -> None:
        self.socket = self.another_socket()

    def another_socket(self) -> socket.socket:
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        one.setblocking(False)
        one.bind(("127.0.0.1", 0))
        return one

    @property
    def key(self) -> Key:
        public = self.private.public_key().public_bytes_raw()
        return Key(self.key_id, hmac=self.secret, ed25519=public, default=True)

    def packet(
        self, *fields: Field, kind: int = EVENT, proofs: tuple[int, ...] = (HMAC,), flags: int = 0,
        timestamp: int | None = None, message_id: bytes = b"", names: tuple[int, ...] = (AUTH_KEY_ID,),
    ) -> bytes:  # fmt: skip
        """`proofs`: with which it is signed; `names`: how the key is named."""
        named = {AUTH_KEY_ID: self.key_id, PUBLIC_KEY: self.private.public_key().public_bytes_raw()}
        data = [*fields, (NODE_ID, self.node)]
        data += [(name, named[name]) for name in (PUBLIC_KEY, AUTH_KEY_ID) if name in names and proofs]
        size = len(written(data)) + sum({HMAC: 34, SIGNATURE: 66}[proof] for proof in proofs)
        at = int(time.time()) if timestamp is None else timestamp
        head = header(message_id or os.urandom(4), flags, kind, at, size)
        signed = canonical(head + written(data))
        tags = {
            HMAC: lambda: hmac.digest(self.secret, signed, hashlib.sha256),
            SIGNATURE: lambda: self.private.sign(signed),
        }
        return head + written(data) + written([(proof, tags[proof]()) for proof in proofs])

    def hello(self, *patterns: str, proofs: tuple[int, ...] = (HMAC,)) -> bytes:
        capabilities = json.dumps({"subscribe": patterns}).encode()
        return self.packet((BINARY, capabilities), kind=HELLO, proofs=proofs)

    def sends(self, packet: bytes, of: socket.socket | None = None, to: tuple[str, int] | None = None) -> None:
        (of or self.socket).sendto(packet, to or self.at)

    async def hears(self, of: socket.socket | None = None) -> bytes:
        return await asyncio.get_running_loop().sock_recv(of or self.socket, 2048)

    async def subscribes(self, *patterns: str, of: socket.socket | None = None) -> dict[str, Any]:
        """Returns what it is granted."""
        self.sends(self.hello(*patterns), of)
        answer = await self.hears(of)
        assert answer[6] == HELLO
        granted: dict[str, Any] = json.loads(next(value for type_, value in read(answer) if type_ == BINARY))
        return granted


@dataclass
class Devices:
    mesh: WholeMesh
    alice: Device
    bob: Device

    def listener(self, name: str) -> tuple[str, int]:
        return "127.0.0.1", self.mesh.edge.port(name)


@asynccontextmanager
async def devices() -> AsyncIterator[Devices]:
    """Two that the mesh trusts."""
    alice, bob = Device(("", 0)), Device(("", 0))
    keys = KeyRing({one.node: {one.key_id: one.key} for one in (alice, bob)})
    identity = GatewayIdentity(b"\x0a" * 16, b"\0\0\0\xff", GATEWAY_SEED)
    listeners = (
        listener("devices", "emm", "udp", lease_seconds=LEASE_SECONDS),
        listener("others", "emm", "udp"),
        listener("open", "emm", "udp", unauthenticated="accept"),
    )
    async with whole_mesh(*listeners, keys=keys, identity=identity) as running:
        both = Devices(running, alice, bob)
        alice.at = bob.at = both.listener("devices")
        yield both
        for one in (alice, bob):
            one.socket.close()


TEMP: Field = (STRING, b"temp.high")


class TestPackets:
    @pytest.mark.parametrize("proofs", [(HMAC,), (SIGNATURE,), (HMAC, SIGNATURE)])
    @pytest.mark.parametrize("names", [(AUTH_KEY_ID,), (), (PUBLIC_KEY, AUTH_KEY_ID)])
    async def test_a_signed_packet_arrives_as_it_was_sent(
        self, proofs: tuple[int, ...], names: tuple[int, ...]
    ) -> None:
        async with devices() as two:
            await two.bob.subscribes("temp.>")
            fields = [TEMP, (STRING, b"hot"), (INTEGER, b"\0\0\0\x51"), (JSON, b'{"a":1}')]
            packet = two.alice.packet(*fields, proofs=proofs, names=names)
            two.alice.sends(packet)
            assert await two.bob.hears() == packet

    async def test_fields_that_nobody_knows_are_signed_and_passed_over(self) -> None:
        async with devices() as two:
            await two.bob.subscribes("temp.>")
            packet = two.alice.packet((UNKNOWN, b"x"), TEMP, (UNKNOWN, b""), (0x00, b"y"))
            two.alice.sends(packet)
            assert await two.bob.hears() == packet

    async def test_the_largest_packet_arrives(self) -> None:
        async with devices() as two:
            await two.bob.subscribes("temp.>")
            rest = MAX_PAYLOAD_SIZE - len(written([TEMP, (NODE_ID, bytes(16)), (AUTH_KEY_ID, bytes(4))])) - 34 - 4
            packet = two.alice.packet(TEMP, (BINARY, bytes(255)), (BINARY, bytes(rest - 255)))
            assert len(packet) == 548
            two.alice.sends(packet)
            assert await two.bob.hears() == packet


REFUSED: dict[str, tuple[str, Any]] = {
    "another version": ("unsupported_version", lambda packet: b"\x02" + packet[1:]),
    "a reserved flag": ("reserved_flags", lambda packet: packet[:5] + b"\x08" + packet[6:]),
    "a byte less": ("truncated", lambda packet: packet[:-1]),
    "a byte more": ("malformed", lambda packet: packet + b"\0"),
    "a bit flipped in the name": ("bad_hmac", lambda packet: packet[:19] + b"T" + packet[20:]),
    "a bit flipped in the time": ("bad_hmac", lambda packet: packet[:14] + bytes([packet[14] ^ 1]) + packet[15:]),
    "no packet": ("truncated", lambda _: b"\x01short"),
    "a length over the largest": ("too_large", lambda packet: packet[:15] + b"\x02\x14" + packet[17:]),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_what_is_wrong_is_refused_with_its_reason_and_burns_no_id(what: str) -> None:
    reason, change = REFUSED[what]
    async with devices() as two:
        await two.bob.subscribes("temp.>")
        packet = two.alice.packet(TEMP)
        two.alice.sends(change(packet))
        await until(lambda: two.mesh.kafka.refusals)
        assert two.mesh.kafka.refusals == [reason]
        two.alice.sends(packet)
        assert await two.bob.hears() == packet


class TestReplay:
    async def test_what_comes_again_by_any_way_is_dropped(self) -> None:
        async with devices() as two:
            await two.bob.subscribes("temp.>")
            packet, fresh = two.alice.packet(TEMP), two.alice.packet(TEMP)
            two.alice.sends(packet)
            assert await two.bob.hears() == packet
            for name in ("devices", "others", "open"):
                two.alice.sends(packet, to=two.listener(name))
            two.alice.sends(packet, of=two.bob.socket)
            await until(lambda: two.mesh.kafka.frames().count(packet) == 5)
            two.alice.sends(fresh)
            assert await two.bob.hears() == fresh

    @pytest.mark.parametrize(("seconds", "reason"), [(-302, "stale"), (125, "future")])
    async def test_what_was_recorded_long_ago_or_prepared_is_refused(self, seconds: int, reason: str) -> None:
        async with devices() as two:
            now = int(time.time())
            two.alice.sends(two.alice.packet(TEMP, timestamp=now + seconds))
            signed_at = (TIMESTAMP, struct.pack(">Q", now + seconds))
            two.alice.sends(two.alice.packet(TEMP, signed_at, timestamp=now))
            await until(lambda: two.mesh.kafka.refusals == [reason, reason])

    async def test_the_time_of_signing_counts_before_that_of_creation(self) -> None:
        async with devices() as two:
            await two.bob.subscribes("temp.>")
            now = int(time.time())
            packet = two.alice.packet(TEMP, (TIMESTAMP, struct.pack(">Q", now)), timestamp=now - 9_000)
            two.alice.sends(packet)
            assert await two.bob.hears() == packet

    async def test_who_cannot_sign_burns_nobody_s_id(self) -> None:
        async with devices() as two:
            await two.bob.subscribes("temp.>")
            forged = two.alice.packet(TEMP, message_id=b"burn", proofs=())
            two.alice.sends(forged, to=two.listener("open"))
            assert await two.bob.hears() == forged
            honest = two.alice.packet(TEMP, message_id=b"burn")
            two.alice.sends(honest)
            assert await two.bob.hears() == honest


class TestPresence:
    async def test_a_hello_is_answered_with_the_mesh_s_own_and_signed(self) -> None:
        async with devices() as two:
            two.bob.sends(two.bob.hello("temp.>"))
            answer = await two.bob.hears()
            fields = dict(read(answer))
            assert json.loads(fields[BINARY]) == {"lease_seconds": LEASE_SECONDS, "subscribed": ["temp.>"]}
            public: Ed25519PublicKey = Ed25519PrivateKey.from_private_bytes(GATEWAY_SEED).public_key()
            public.verify(fields[SIGNATURE], canonical(answer))
            assert (fields[NODE_ID], fields[AUTH_KEY_ID]) == (b"\x0a" * 16, b"\0\0\0\xff")

    @pytest.mark.parametrize("proofs", [(), (HMAC,)])
    async def test_a_forged_hello_aims_the_mesh_at_nobody(self, proofs: tuple[int, ...]) -> None:
        async with devices() as two:
            stranger = Device(two.bob.at, node=two.bob.node)
            stranger.sends(stranger.hello(">", proofs=proofs))
            await until(lambda: two.mesh.kafka.refusals)
            assert len(two.mesh.kafka.state.table) == 0
            assert two.mesh.kafka.refusals == ["bad_hmac" if proofs else "unauthenticated"]
            stranger.socket.close()

    async def test_the_last_hello_says_what_and_where(self) -> None:
        async with devices() as two:
            elsewhere = two.bob.another_socket()
            await two.bob.subscribes("temp.>", "old.>")
            assert await two.bob.subscribes("temp.>", of=elsewhere)
            old, new = two.alice.packet((STRING, b"old.news")), two.alice.packet(TEMP)
            two.alice.sends(old)
            two.alice.sends(new)
            assert await two.bob.hears(elsewhere) == new
            with pytest.raises(BlockingIOError):
                two.bob.socket.recv(2048)
            elsewhere.close()

    async def test_a_lease_is_kept_by_heartbeats_and_over_without(self) -> None:
        async with devices() as two:
            await two.bob.subscribes("temp.>")
            begun = time.time()

            def alive() -> bool:
                now = time.time_ns() // 1000
                return any(one.alive_at(now) for one in two.mesh.kafka.state.table)

            while time.time() < begun + 2 * LEASE_SECONDS:
                two.bob.sends(two.bob.packet((TIMESTAMP, struct.pack(">Q", int(time.time()))), kind=HEARTBEAT))
                await asyncio.sleep(LEASE_SECONDS / 10)
            packet = two.alice.packet(TEMP)
            two.alice.sends(packet)
            assert await two.bob.hears() == packet
            await until(lambda: not alive())
            two.alice.sends(two.alice.packet(TEMP))
            await until(lambda: [event.subject for event in two.mesh.kafka.events].count("temp.high") == 2)
            with pytest.raises(BlockingIOError):
                two.bob.socket.recv(2048)
