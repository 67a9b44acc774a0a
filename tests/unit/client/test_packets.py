"""The packets a client of emm writes are those that the mesh accepts."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from gateway.auth.keyring import Key, KeyRing
from gateway.auth.verification import public_of
from gateway.client.message_ids import MessageIds
from gateway.client.packet_key import PacketKey
from gateway.client.packets import ALGORITHMS, PLAIN, GrantedLease, PacketReader, PacketWriter, Wrapping, grant_of
from gateway.core.content import BINARY, JSON, TEXT
from gateway.core.event import Auth, Event
from gateway.core.reasons import Reason, Rejected
from gateway.protocols.emm import PROTOCOL
from gateway.protocols.emm.options import EmmOptions
from gateway.protocols.emm.signing import Signer
from gateway.protocols.spec import CodecContext
from gateway.records.raw_log.frames import FrameSource, RawFrame
from tests.refusals import reason_of

NODE = bytes(range(16))
KEY_ID = bytes.fromhex("00000001")
SECRET, SEED, ENCRYPTION = b"s" * 32, b"e" * 32, b"c" * 32
NOW = 1_700_000_000_000_000
KEYS = KeyRing({NODE: {KEY_ID: Key(KEY_ID, SECRET, public_of(SEED), ENCRYPTION, default=True)}})
KEY = PacketKey(Signer(NODE, KEY_ID, SECRET, SEED), ENCRYPTION)


def token(size: int) -> bytes:
    return b"\xff" * size


def writer(key: PacketKey | None = KEY) -> PacketWriter:
    return PacketWriter(key, token, lambda: NOW)


def judged(packet: bytes, **options: object) -> Event:
    """Answered by the mesh."""
    raw = RawFrame(packet, FrameSource("emm", "devices", "edge-0", 1), NOW)
    return PROTOCOL.to_event(
        raw, "0-0-0", EmmOptions.model_validate({"encryption": "open", **options}), CodecContext(KEYS)
    )


@pytest.mark.parametrize(
    ("signer", "auth"),
    [
        (Signer(NODE, KEY_ID, SECRET), Auth.HMAC),
        (Signer(NODE, KEY_ID, ed25519_private=SEED), Auth.ED25519),
        (Signer(NODE, KEY_ID, SECRET, SEED), Auth.HMAC_ED25519),
        (Signer(NODE, None, SECRET), Auth.HMAC),
    ],
)
def test_a_packet_proves_what_its_key_can_prove(signer: Signer, auth: Auth) -> None:
    event = judged(writer(PacketKey(signer)).event("temp.high", b"81", JSON))
    assert (event.subject, event.body, event.content_type, event.auth) == ("temp.high", b"81", JSON, auth)


def test_without_a_key_it_proves_nothing() -> None:
    event = judged(writer(None).event("temp.high", b"warm", TEXT), unauthenticated="accept")
    assert (event.body, event.auth, event.node) == (b"warm", Auth.NONE, "")


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("encrypt", [None, *ALGORITHMS])
@pytest.mark.parametrize("urgent", [False, True])
def test_however_it_is_wrapped_the_mesh_unwraps_it(compress: bool, encrypt: str | None, urgent: bool) -> None:
    wrapping = Wrapping(urgent, compress, ALGORITHMS[encrypt] if encrypt else None)
    event = judged(writer().event("temp.high", b"warm" * 50, TEXT, wrapping))
    kept = TEXT if wrapping in (PLAIN, Wrapping(urgent=True)) else BINARY
    assert (event.body, event.content_type, event.urgent) == (b"warm" * 50, kept, urgent)


def test_encrypting_needs_a_key_for_it() -> None:
    unable = writer(PacketKey(Signer(NODE, KEY_ID, SECRET)))
    with pytest.raises(Rejected) as refused:
        unable.event("temp.high", b"warm", TEXT, Wrapping(encrypt=ALGORITHMS["aes-256-gcm"]))
    assert refused.value.reason is Reason.UNKNOWN_KEY


def test_an_event_that_no_packet_holds_is_refused() -> None:
    assert reason_of(writer().event, "temp.high", b"x" * 548, TEXT) is Reason.TOO_LARGE


def message_ids(seed: bytes, count: int) -> list[int]:
    ids = MessageIds(lambda size: seed * size)
    return [int.from_bytes(ids.next(), "big") for _ in range(count)]


def test_message_ids_do_not_meet_again() -> None:
    count = 200_000  # of as many random ones some four pairs would be equal
    assert len(set(message_ids(b"a", count))) == count


def test_message_ids_cannot_be_foretold_from_those_before_nor_without_the_secret() -> None:
    ids = message_ids(b"a", 1_000)
    steps = [(later - earlier) % 2**32 for earlier, later in pairwise(ids)]
    assert len(set(steps)) == len(steps)
    assert not set(ids) & set(message_ids(b"b", 1_000))


def test_each_packet_has_an_id_of_its_own() -> None:
    packets = writer()
    made = [packets.event("temp.high", b"", ""), packets.hello(["a"]), packets.heartbeat()]
    assert [one[1:5] for one in made] == [one.to_bytes(4, "big") for one in message_ids(b"\xff", 3)]


def test_a_hello_asks_for_a_lease_and_a_heartbeat_renews_it() -> None:
    asked_lease = PROTOCOL.asked_lease
    assert asked_lease is not None
    hello = asked_lease(judged(writer().hello(["temp.>", "door.*"])), EmmOptions())
    heartbeat = asked_lease(judged(writer().heartbeat()), EmmOptions())
    assert hello is not None
    assert heartbeat is not None
    assert (hello.subscribe, hello.renews, heartbeat.renews) == (("temp.>", "door.*"), False, True)


class TestReading:
    def test_without_keys_all_is_taken_as_it_says_it_is(self) -> None:
        event = PacketReader(None, verify=False).read(writer().event("temp.high", b"81", JSON), "mesh", NOW)
        assert (event.body, event.auth, event.node) == (b"81", Auth.NONE, "00010203-0405-0607-0809-0a0b0c0d0e0f")

    def test_what_is_encrypted_stays_so_without_keys(self) -> None:
        sealed = writer().event("temp.high", b"81", JSON, Wrapping(encrypt=ALGORITHMS["aes-256-gcm"]))
        assert PacketReader(None, verify=False).read(sealed, "mesh", NOW).headers["encrypted"] == "aes-256-gcm"
        assert PacketReader(KEYS, verify=False).read(sealed, "mesh", NOW).body == b"81"

    def test_who_verifies_takes_only_what_is_proven(self) -> None:
        packet = writer().event("temp.high", b"81", JSON)
        reader = PacketReader(KEYS, verify=True)
        assert reader.read(packet, "mesh", NOW).auth is Auth.HMAC_ED25519
        with pytest.raises(Rejected) as refused:
            reader.read(writer(None).event("temp.high", b"81", JSON), "mesh", NOW)
        assert refused.value.reason is Reason.UNAUTHENTICATED

    @pytest.mark.parametrize("garbage", [b"", b"\x01", b"\x00" * 40, b"\x01" * 548])
    def test_garbage_is_refused(self, garbage: bytes) -> None:
        assert reason_of(PacketReader(None, verify=False).read, garbage, "mesh", NOW) in Reason


class TestGrants:
    def granted(self, said: object) -> GrantedLease | None:
        body = said if isinstance(said, bytes) else json.dumps(said).encode()
        hello = PacketReader(None, verify=False).read(writer().hello([]), "mesh", NOW)
        return grant_of(replace(hello, body=body))

    def test_the_meshs_hello_says_what_it_granted(self) -> None:
        granted = self.granted({"lease_seconds": 90, "subscribed": ["temp.>"], "more": 2})
        assert granted == GrantedLease(90.0, frozenset({"temp.>"}), 2)

    @pytest.mark.parametrize(
        "said",
        [
            *({"subscribe": ["temp.>"]}, {"lease_seconds": 90}, {"lease_seconds": "x", "subscribed": []}, [], b"\xff"),
            *({"lease_seconds": seconds, "subscribed": []} for seconds in (0, -1, 0.9, float("nan"), 10**400)),
        ],
    )
    def test_any_other_hello_grants_nothing(self, said: object) -> None:
        assert self.granted(said) is None

    def test_an_event_grants_nothing(self) -> None:
        packet = writer().event("temp.high", b'{"lease_seconds": 90, "subscribed": []}', JSON)
        assert grant_of(PacketReader(None, verify=False).read(packet, "mesh", NOW)) is None
