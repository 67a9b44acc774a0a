"""wolpertinger by its text: peers that write and read the messages themselves, across a whole mesh."""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from gzip import compress
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7

from tests.unit.edge.running import Peer, listener, until
from tests.unit.protocols.by_the_text.whole_mesh import WholeMesh, whole_mesh

CALL_ID = "F5AFEC97-5839-4666-B8D3-8C108B241720"
OTHER_CALL_ID = "00000000-0000-4000-8000-000000000001"
CALL_OF_THE_TEXT = f"""
<RemoteMethodCall>
    <ComponentName>Core</ComponentName>
    <CallId>{CALL_ID}</CallId>
    <MethodName>testMethod1</MethodName>
    <Parameters>
        <object type="string">This is a string-example</object>
        <object type="boolean">true</object>
    </Parameters>
</RemoteMethodCall>"""
PARAMETERS_OF_THE_TEXT = [("string", "This is a string-example"), ("boolean", "True")]
CLUSTER_KEY, TOKEN_ROUNDS = "000102030405060708090a0b0c0d0e0f", 1000
IV = bytes(range(16))


def call(component: str, method: str, *texts: str, call_id: str = CALL_ID) -> str:
    objects = "".join(f'<object type="string">{text}</object>' for text in texts)
    return (
        f"<RemoteMethodCall><ComponentName>{component}</ComponentName><CallId>{call_id}</CallId>"
        f"<MethodName>{method}</MethodName><Parameters>{objects}</Parameters></RemoteMethodCall>"
    )


def response(component: str, call_id: str, value: str) -> str:
    return (
        f"<RemoteMethodResponse><ComponentName>{component}</ComponentName><CallId>{call_id}</CallId>"
        f"<ResponseValue>{value}</ResponseValue></RemoteMethodResponse>"
    )


@dataclass
class Said:
    """What the other side has said: the name of the message, its texts, and the typed values in it."""

    name: str
    texts: dict[str, str] = field(default_factory=dict)
    values: list[tuple[str | None, str | None]] = field(default_factory=list)

    @classmethod
    def of(cls, document: bytes) -> Said:
        root = ET.fromstring(document)  # noqa: S314 - of our own making
        texts = {_name(child): child.text or "" for child in root if not len(child)}
        values = [(one.get("type"), one.text) for one in root.iter() if _name(one) == "object"]
        return cls(_name(root), texts, values)


def _name(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


@dataclass
class Line:
    """A connection of lines. `key`: once agreed, all that is said is encrypted with it."""

    peer: Peer
    last_id: int = 0
    key: bytes = b""

    def writes(self, line: str) -> None:
        self.peer.sends(line.encode() + b"\r\n")

    async def reads(self) -> str:
        return (await self.peer.reader.readuntil(b"\n")).decode().rstrip("\n")

    def says(self, document: str) -> None:
        self.last_id += 1
        data, head = document.encode(), ""
        if self.key:
            padder, cipher = PKCS7(128).padder(), Cipher(AES(self.key), CBC(IV)).encryptor()
            data, head = cipher.update(padder.update(data) + padder.finalize()) + cipher.finalize(), "encryption:aes;"
        self.writes(f"{head}message_id:{self.last_id};{b64encode(data).decode()}")

    async def is_confirmed(self, result: int = 0) -> None:
        assert await self.reads() == f"result:{result};message_id:{self.last_id};"

    async def hears(self) -> Said:
        """The next message, confirmed."""
        line = await self.reads()
        found = re.fullmatch(r"message_id:(\d+);(encryption:aes;)?([^:;]*)", line)
        assert found is not None, line
        data = b64decode(found[3])
        if found[2]:
            unpadder, cipher = PKCS7(128).unpadder(), Cipher(AES(self.key), CBC(IV)).decryptor()
            data = unpadder.update(cipher.update(data) + cipher.finalize()) + unpadder.finalize()
        self.writes(f"message_id:{found[1]};result:0;")
        return Said.of(data)

    async def asks(self, document: str) -> Said:
        self.says(document)
        await self.is_confirmed()
        return await self.hears()


@asynccontextmanager
async def mesh() -> AsyncIterator[WholeMesh]:
    trusted: dict[str, Any] = {"require_trust": 3, "auth": {"cluster_key": CLUSTER_KEY, "users": {"bob": "hunter2"}}}
    async with whole_mesh(
        listener("calls", "wolpertinger"),
        listener("serves", "wolpertinger", serve=["Core.testMethod1"], confirm_seconds=0.05),
        listener("hears", "wolpertinger", subscribe=["Temp.>"]),
        listener("trusted", "wolpertinger", **trusted),
    ) as running:
        yield running


async def dialled(running: WholeMesh, name: str) -> Line:
    line = Line(await running.edge.dial(name))
    if name != "trusted":
        await running.stands(name)
    return line


@asynccontextmanager
async def peers_at(*names: str) -> AsyncIterator[list[Line]]:
    """Yields peers of these listeners whose sessions stand."""
    async with mesh() as running:
        yield [await dialled(running, name) for name in names]


class TestTransmission:
    async def test_metadata_come_in_any_order_and_case(self) -> None:
        async with peers_at("calls") as [peer]:
            text = b64encode(call("Mesh", "Ping").encode()).decode()
            zipped = compress(call("Mesh", "Ping", call_id=OTHER_CALL_ID).encode())
            peer.writes(f"FRAGMENT_INDEX:0;Message_Id:7;fragment_count:1;{text}")
            assert await peer.reads() == "result:0;message_id:7;"
            await peer.hears()
            peer.writes(f"gzip:{len(zipped)};message_id:8;{b64encode(zipped).decode()}")
            assert await peer.reads() == "result:0;message_id:8;"

    async def test_pieces_come_in_any_order_and_are_confirmed_once(self) -> None:
        async with peers_at("calls") as [peer]:
            text = b64encode(call("Mesh", "Ping").encode()).decode()
            pieces = [text[:10], text[10:11], text[11:]]
            for index in (2, 0, 0, 1):
                peer.writes(f"message_id:8;fragment_count:3;fragment_index:{index};{pieces[index]}")
            assert await peer.reads() == "result:0;message_id:8;"
            assert (await peer.hears()).name == "RemoteMethodResponse"

    async def test_what_is_sent_again_is_confirmed_again_and_done_once(self) -> None:
        async with mesh() as running:
            caller, server = await dialled(running, "calls"), await dialled(running, "serves")
            for _ in range(3):
                caller.last_id = 0
                caller.says(CALL_OF_THE_TEXT)
                await caller.is_confirmed()
            assert (await server.hears()).texts["MethodName"] == "testMethod1"
            calls = [event for event in running.kafka.events if event.subject == "Core.testMethod1"]
            assert len(calls) == 1

    async def test_who_does_not_confirm_hears_it_three_times_and_then_its_caller_hears_of_it(self) -> None:
        async with peers_at("calls", "serves") as (caller, server):
            caller.says(CALL_OF_THE_TEXT)
            await caller.is_confirmed()
            assert len({await server.reads() for _ in range(3)}) == 1
            assert (await caller.hears()).texts["ErrorCode"] == "400"

    @pytest.mark.parametrize(
        ("line", "result"),
        [
            ("message_id:7;not base64", "result:5;message_id:7;"),
            ("message_id:7;encryption:aes;aGVsbG8=", "result:4;message_id:7;"),
            ("message_id:7;encryption:des;aGVsbG8=", "result:4;message_id:7;"),
            ("message_id:7;gzip:abc;aGVsbG8=", "result:5;message_id:7;"),
            ("message_id:7;fragment_count:2;fragment_index:2;aGVsbG8=", "result:3;message_id:7;"),
            ("message_id:7;fragment_index:0;aGVsbG8=", "result:3;message_id:7;"),
        ],
    )
    async def test_what_does_not_come_whole_is_told_with_its_code(self, line: str, result: str) -> None:
        async with peers_at("calls") as [peer]:
            peer.writes(line)
            assert await peer.reads() == result

    @pytest.mark.parametrize(
        "line",
        [
            "hello", "aGVsbG8=", "message_id:7;message_id:7;aGVsbG8=", "message_id:7;secure:aes;aGVsbG8=",
            "message_id:7;gzip;aGVsbG8=", "message_id:7;gzip:1:2;aGVsbG8=", "message_id:4294967296;aGVsbG8=",
            "message_id:-1;aGVsbG8=", "result:0;message_id:7;", "result:0;message_id:0;", "", "\x00\xff",
        ],
    )  # fmt: skip
    async def test_what_nobody_can_be_answered_for_is_passed_over(self, line: str) -> None:
        async with peers_at("calls") as [peer]:
            peer.writes(line)
            assert (await peer.asks(call("Mesh", "Ping"))).name == "RemoteMethodResponse"


class TestMessages:
    async def test_the_call_of_the_text_reaches_its_server_and_the_answer_its_caller(self) -> None:
        async with peers_at("calls", "serves") as (caller, server):
            caller.says(CALL_OF_THE_TEXT)
            await caller.is_confirmed()
            asked = await server.hears()
            assert (asked.texts["ComponentName"], asked.texts["MethodName"]) == ("Core", "testMethod1")
            assert asked.values == PARAMETERS_OF_THE_TEXT
            server.says(response("Core", asked.texts["CallId"].upper(), '<object type="boolean">true</object>'))
            await server.is_confirmed()
            answer = await caller.hears()
            assert answer.name == "RemoteMethodResponse"
            assert (answer.texts["ComponentName"], answer.texts["CallId"]) == ("Core", CALL_ID)
            assert answer.values == [("boolean", "True")]

    async def test_a_foreign_error_keeps_its_code(self) -> None:
        async with peers_at("calls", "serves") as (caller, server):
            caller.says(CALL_OF_THE_TEXT)
            await caller.is_confirmed()
            asked = await server.hears()
            server.says(
                f"<RemoteError><ComponentName>Core</ComponentName><ErrorCode>1</ErrorCode>"
                f"<CallId>{asked.texts['CallId']}</CallId></RemoteError>"
            )
            await server.is_confirmed()
            answer = await caller.hears()
            assert (answer.name, answer.texts["ErrorCode"], answer.texts["CallId"]) == ("RemoteError", "1", CALL_ID)

    async def test_a_call_that_somebody_subscribes_to_is_an_event_and_hears_nothing(self) -> None:
        async with peers_at("calls", "hears") as (caller, subscriber):
            caller.says(call("Temp", "High", "81"))
            await caller.is_confirmed()
            heard = await subscriber.hears()
            assert (heard.texts["ComponentName"], heard.texts["MethodName"]) == ("Temp", "High")
            assert heard.values == [("string", "81")]
            subscriber.says(response("Temp", heard.texts["CallId"], ""))  # nobody has asked for it
            await subscriber.is_confirmed()
            ping = call("Mesh", "Ping", call_id=OTHER_CALL_ID)
            assert (await caller.asks(ping)).name == "RemoteMethodResponse"

    async def test_a_subscription_is_a_call_in_any_case(self) -> None:
        async with peers_at("calls", "hears") as (peer, caller):
            assert (await peer.asks(call("mEsH", "subscribe", "Late.*"))).values == [("boolean", "True")]
            caller.says(call("Late", "News"))
            await caller.is_confirmed()
            assert (await peer.hears()).texts["MethodName"] == "News"

    @pytest.mark.parametrize(
        ("document", "code"),
        [
            ("no xml", "301"),
            ("<Hello/>", "302"),
            (call("A", "b").replace("CallId", "Id"), "301"),
            (call("A", "b", call_id="7"), "301"),
            (call("A", "b", "x").replace('"string"', '"int32"'), "305"),
            (f"<!DOCTYPE a [<!ENTITY l 'x'>]>{call('A', 'b', '&l;')}", "301"),
            (call("Nobody", "here"), "304"),
            (call("Core", "testMethod2"), "303"),
            (call("Mesh", "Subscribe", "a..b"), "305"),
        ],
    )
    async def test_what_is_wrong_is_answered_with_its_code(self, document: str, code: str) -> None:
        async with peers_at("calls", "serves") as (peer, _):
            answer = await peer.asks(document)
            assert (answer.name, answer.texts["ErrorCode"]) == ("RemoteError", code)


class TestTrust:
    async def test_below_the_trust_that_is_asked_for_every_call_is_201(self) -> None:
        async with peers_at("trusted") as [peer]:
            for component, method in (("Core", "testMethod1"), ("Mesh", "Subscribe")):
                assert (await peer.asks(call(component, method))).texts["ErrorCode"] == "201"

    async def test_after_the_key_exchange_and_the_proof_the_peer_is_who_it_says(self) -> None:
        async with mesh() as running:
            peer = await dialled(running, "trusted")
            assert (await peer.asks(call("Authentication", "EstablishConnection"))).values == [("boolean", "True")]
            await agree(peer)
            ((_, token),) = (await peer.asks(call("Authentication", "ClusterAuthGetToken"))).values
            key = proof(CLUSTER_KEY, token)
            assert (await peer.asks(call("authentication", "ClusterAuthVerify", key))).values == [("boolean", "True")]
            await until(lambda: [one.source.node for one in running.edge.life.sessions] == ["cluster:member"])
            assert (await peer.asks(call("Mesh", "Ping"))).name == "RemoteMethodResponse"
            ((_, token),) = (await peer.asks(call("Authentication", "UserAuthGetToken"))).values
            key = proof("hunter2", token)
            await peer.asks(call("Authentication", "UserAuthVerify", "bob", key))
            await until(lambda: [one.source.node for one in running.edge.life.sessions] == ["user:bob"])


async def agree(peer: Line) -> None:
    """P-521, its public keys in blobs of `ECK5`, the size of a coordinate, X and Y."""
    private = ec.generate_private_key(ec.SECP521R1())
    mine = private.public_key().public_numbers()
    head = b"ECK5" + (66).to_bytes(4, "little")
    blob = head + mine.x.to_bytes(66, "big") + mine.y.to_bytes(66, "big")
    texts = b64encode(blob).decode(), b64encode(IV).decode()
    ((_, theirs),) = (await peer.asks(call("Authentication", "KeyExchange", *texts))).values
    other = b64decode(theirs or "")
    assert other[:8] == head
    x, y = int.from_bytes(other[8:74], "big"), int.from_bytes(other[74:], "big")
    public = ec.EllipticCurvePublicNumbers(x, y, ec.SECP521R1()).public_key()
    peer.key = hashlib.sha256(private.exchange(ec.ECDH(), public)).digest()


def proof(secret: str, token: str | None) -> str:
    return b64encode(hashlib.pbkdf2_hmac("sha1", secret.encode(), b64decode(token or ""), TOKEN_ROUNDS, 64)).decode()
