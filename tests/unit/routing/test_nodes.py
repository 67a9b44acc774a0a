"""Packets without a session: who their sender is to the mesh, and what it may do as such."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from gateway.auth.keyring import Key, KeyRing
from gateway.auth.verification import public_of
from gateway.core.ids import FramePosition
from gateway.interests import InterestKey, Remove, Verb, changes
from gateway.protocols.emm import codec
from gateway.protocols.emm.frames import EventType, Field, FieldType
from gateway.protocols.emm.signing import Signer
from gateway.protocols.yamp.codec import decode, encode
from gateway.protocols.yamp.frames import Request, Response, UserEvent
from gateway.records.egress import Group
from gateway.records.raw_log import control_frames
from gateway.records.raw_log.container import ContainerBuilder
from gateway.records.raw_log.control_frames import MESH, InterestChanged
from gateway.records.raw_log.frames import FrameSource, RawFrame, Replayed
from streaming_jobs.routing.change_records import ROUTER
from streaming_jobs.routing.control_frames import FORGOTTEN_SECONDS, LOOK_SECONDS
from tests.unit.routing.mesh_in_a_log import EDGE, EPOCH, NOW, MeshInALog

NODE, NAME = bytes.fromhex("00112233445566778899aabbccddeeff"), "00112233-4455-6677-8899-aabbccddeeff"
KEY_ID, SECRET, SEED = b"\0\0\0\1", b"a secret of the node", b"\x05" * 32
BY_HMAC, BY_NOTHING = Signer(NODE, KEY_ID, SECRET), Signer(NODE)
BY_OWN_KEY = Signer(NODE, None, None, SEED, announce=True)
"""A key that the trust store does not know, brought by the packet."""
KEYS = {NODE: {KEY_ID: Key(KEY_ID, hmac=SECRET)}}
HERE, ELSEWHERE = "10.0.0.9:1", "10.0.0.8:2"


def mesh_that(*permissions: dict[str, Any], **policies: Any) -> MeshInALog:
    devices = {"name": "emm", "protocol": "emm", "listen": "udp://127.0.0.1:5050", **policies}
    apps = {"name": "yamp", "protocol": "yamp", "listen": "tcp://127.0.0.1:5042"}
    return MeshInALog(keys=KEYS, settings={"listeners": [devices, apps], "permissions": list(permissions)})


message_ids = itertools.count()


def event(subject: str, signer: Signer | None) -> bytes:
    return packet(EventType.EVENT, Field(FieldType.STRING, subject.encode()), signer)


def hello(signer: Signer, *patterns: str) -> bytes:
    return packet(EventType.HELLO, Field(FieldType.BINARY, json.dumps({"subscribe": patterns}).encode()), signer)


def packet(kind: EventType, field: Field, signer: Signer | None) -> bytes:
    return codec.encode(codec.Draft(next(message_ids).to_bytes(4, "big"), NOW, (field,), kind), signer)


def take(mesh: MeshInALog, *packets: bytes, peer: str = HERE, after: float = 0) -> None:
    """`after`: so many seconds after the mesh began they are received."""
    source = FrameSource("emm", "emm", EDGE, EPOCH, 0, peer)
    builder = ContainerBuilder(EDGE, EPOCH)
    for one in packets:
        builder.add(source, int((NOW + after) * 1_000_000), one)
    mesh.append(builder.build())


def heartbeat() -> bytes:
    return packet(EventType.HEARTBEAT, Field(FieldType.TIMESTAMP, NOW.to_bytes(8, "big")), BY_HMAC)


def granted(mesh: MeshInALog, at: str = HERE) -> list[str] | None:
    """What the mesh's own hello says that the node is subscribed to; None if it said none."""
    answers: list[Group] = mesh.sent_to_address(at)
    if not answers:
        return None
    capabilities = codec.decode(answers[-1].frame).value(FieldType.BINARY)
    patterns: list[str] = json.loads(capabilities or b"")["subscribed"]
    return patterns


def expiries(mesh: MeshInALog) -> set[float]:
    """When leases end, in seconds after the mesh began."""
    return {round((one.expires_at or 0) / 1_000_000 - NOW, 3) for one in mesh.state.table}


ADMINISTRATORS = {"nodes": [NAME], "publish": {"allow": [">"]}, "subscribe": {"allow": ["admin.>"]}}
NOBODY: dict[str, Any] = {"publish": {"allow": []}, "subscribe": {"allow": []}}


class TestPermissions:
    def test_a_node_that_proves_itself_may_do_what_its_rule_says(self) -> None:
        mesh = mesh_that(ADMINISTRATORS, NOBODY)
        take(mesh, event("admin.off", BY_HMAC), hello(BY_HMAC, "admin.>", "other.>"))
        assert [one.subject for one in mesh.events()] == ["admin.off", "mesh.emm.hello"]
        assert granted(mesh) == ["admin.>"]
        assert mesh.rejections() == [("match", "forbidden")]

    @pytest.mark.parametrize("signer", [BY_NOTHING, BY_OWN_KEY])
    def test_naming_a_node_is_not_being_it(self, signer: Signer) -> None:
        mesh = mesh_that(ADMINISTRATORS, NOBODY, unauthenticated="accept", public_key="any")
        take(mesh, event("admin.off", signer))
        assert (mesh.events(), mesh.rejections()) == ([], [("match", "forbidden")])

    @pytest.mark.parametrize("signer", [None, BY_NOTHING, BY_OWN_KEY])
    def test_who_proves_no_node_is_among_the_anonymous(self, signer: Signer | None) -> None:
        mesh = mesh_that({"nodes": ["anon:*"]}, NOBODY, unauthenticated="accept", public_key="any")
        take(mesh, event("news.local", signer))
        assert [one.subject for one in mesh.events()] == ["news.local"]


class TestPresence:
    @pytest.mark.parametrize("signer", [BY_NOTHING, BY_OWN_KEY])
    def test_who_does_not_prove_its_node_is_here_but_subscribes_to_nothing(self, signer: Signer) -> None:
        mesh = mesh_that(accept_presence=True, public_key="any")
        take(mesh, hello(signer, "a.>"))
        assert [(one.subject, one.node) for one in mesh.events()] == [("mesh.emm.hello", NAME)]
        assert not mesh.rejections()
        assert granted(mesh) is None
        assert len(mesh.state.table) == 0

    def test_both_spellings_of_a_pattern_are_one_and_the_node_is_answered_in_its_own(self) -> None:
        mesh = mesh_that()
        take(mesh, hello(BY_HMAC, "a/x"))
        assert granted(mesh) == ["a/x"]
        take(mesh, hello(BY_HMAC, "a.x", "a/x"), after=1)
        assert [one.pattern for one in mesh.state.table] == ["a.x"]

    @pytest.mark.parametrize("blob", [b"\1\2", b'{"model": "x1"}'])
    def test_a_hello_without_a_list_renews_the_last_one_and_moves_it_along(self, blob: bytes) -> None:
        mesh = mesh_that(lease_seconds=10)
        take(mesh, hello(BY_HMAC, "a.>", "b"))
        take(mesh, packet(EventType.HELLO, Field(FieldType.BINARY, blob), BY_HMAC), peer=ELSEWHERE, after=9)
        assert granted(mesh, ELSEWHERE) == ["a.>", "b"]
        assert expiries(mesh) == {19.0}
        assert {one.address for one in mesh.state.table} == {ELSEWHERE}

    def test_a_hello_that_is_played_back_from_elsewhere_sends_nothing_there(self) -> None:
        mesh = mesh_that()
        mesh.knows_ids = True
        said = hello(BY_HMAC, "a.>")
        take(mesh, said)
        take(mesh, said, peer=ELSEWHERE, after=1)
        take(mesh, event("a.b", BY_HMAC), after=2)
        assert {one.address for one in mesh.state.table} == {HERE}
        assert mesh.sent_to_address(ELSEWHERE) == []

    def test_a_heartbeat_from_elsewhere_keeps_no_lease_alive(self) -> None:
        """Else a hello that somebody has caught, and sent first from a victim's address, would flood it for good."""
        mesh = mesh_that(lease_seconds=10)
        take(mesh, hello(BY_HMAC, "a.>"), peer=ELSEWHERE)
        take(mesh, heartbeat(), after=9)
        assert expiries(mesh) == {10.0}
        mesh.forget_outputs()
        take(mesh, event("a.b", BY_HMAC), after=11)
        assert mesh.sent_to_address(ELSEWHERE) == []
        take(mesh, hello(BY_HMAC, "a.>"), after=12)
        take(mesh, heartbeat(), after=20)
        assert ({one.address for one in mesh.state.table}, expiries(mesh)) == ({HERE}, {30.0})

    def test_a_hello_without_a_list_brings_back_nothing_that_is_over(self) -> None:
        mesh = mesh_that(lease_seconds=10)
        take(mesh, hello(BY_HMAC, "a.>"))
        take(mesh, packet(EventType.HELLO, Field(FieldType.BINARY, b"\1"), BY_HMAC), after=10)
        assert granted(mesh) == []

    def test_a_list_replaces_the_last_one(self) -> None:
        mesh = mesh_that()
        take(mesh, hello(BY_HMAC, "a.>", "b"))
        take(mesh, hello(BY_HMAC, "b", "c"), after=1)
        assert granted(mesh) == ["b", "c"]
        assert {one.pattern for one in mesh.state.table} == {"b", "c"}

    @pytest.mark.parametrize(
        ("lease_seconds", "after", "until"),
        [(90, 1.5, 91.5), (90, 0.5, 90.0), (2, 0.3, 2.3), (2, 0.1, 2.0), (1, 0.9, 1.9)],
    )
    def test_every_heartbeat_renews_but_one_that_comes_at_once(
        self, lease_seconds: int, after: float, until: float
    ) -> None:
        mesh = mesh_that(lease_seconds=lease_seconds)
        take(mesh, hello(BY_HMAC, "a.>"))
        take(mesh, heartbeat(), after=after)
        assert expiries(mesh) == {until}

    def test_a_lease_long_over_is_forgotten_by_the_log_s_time(self) -> None:
        mesh = mesh_that(lease_seconds=10)
        take(mesh, hello(BY_HMAC, "a.>"))
        for after, known in ((10 + FORGOTTEN_SECONDS - 1, 1), (10 + FORGOTTEN_SECONDS + LOOK_SECONDS, 0)):
            mesh.append(something_changed(after))
            assert len(mesh.state.table) == known


def something_changed(after: float) -> bytes:
    change = Remove(InterestKey("edge-0.1.1", Verb.SUBSCRIBE, "", "x"), FramePosition(1, 0, 0))
    builder = ContainerBuilder(ROUTER, 0)
    frame = control_frames.encode(InterestChanged(changes.to_bytes(change).decode(), "", ""))
    builder.add(FrameSource(MESH, "", ROUTER, 0), int((NOW + after) * 1_000_000), frame)
    return builder.build()


def test_a_key_that_the_store_knows_is_no_foreign_one() -> None:
    keys = {NODE: {KEY_ID: Key(KEY_ID, ed25519=public_of(SEED))}}
    listener = {"name": "emm", "protocol": "emm", "listen": "udp://127.0.0.1:5050", "public_key": "any"}
    mesh = MeshInALog(keys=keys, settings={"listeners": [listener]})
    take(mesh, hello(BY_OWN_KEY, "a.>"))
    assert granted(mesh) == ["a.>"]


def test_a_request_to_what_only_a_device_says_it_serves_has_no_responder() -> None:
    mesh = mesh_that()
    capabilities = json.dumps({"serve": ["sum"]}).encode()
    take(mesh, packet(EventType.HELLO, Field(FieldType.BINARY, capabilities), BY_HMAC))
    requester = mesh.open("yamp", facts={"format": "json"})
    mesh.log(requester.source, encode(Request(b"r" * 16, "sum", b"1")))
    (answer,) = [decode(group.frame) for group in mesh.sent_to(requester)]
    assert isinstance(answer, Response)
    assert json.loads(answer.body)["code"] == "no_responder"


def test_what_is_sent_again_much_later_says_when_it_was_signed() -> None:
    """Its receivers would find the time of its creation stale; it is known by the same id as the first time."""
    mesh = mesh_that()
    take(mesh, hello(BY_HMAC, "a.>"))
    session = mesh.open("yamp", facts={"format": "json"})
    data, at = encode(UserEvent(b"e" * 16, "a.b", b"1")), (NOW + 60) * 1_000_000
    mesh.log(session.source, data)
    first = codec.decode(mesh.sent_to_address(HERE)[-1].frame)
    builder = ContainerBuilder(EDGE, EPOCH)
    builder.add_again(RawFrame(data, session.source, NOW * 1_000_000), Replayed(mesh.events()[-1].id, at))
    mesh.append(builder.build())
    later = codec.decode(mesh.sent_to_address(HERE)[-1].frame)
    assert (first.header, first.value(FieldType.TIMESTAMP)) == (later.header, None)
    assert later.value(FieldType.TIMESTAMP) == (NOW + 60).to_bytes(8, "big")
    assert len(later.raw) == len(first.raw) + 10


@pytest.mark.parametrize("subject", ["mesh.subscribe", "mesh.unsubscribe", "mesh.serve", "mesh.unserve"])
@pytest.mark.parametrize("signer", [BY_HMAC, None])
def test_a_datagram_may_neither_begin_nor_end_an_interest_and_writes_nothing_into_the_log(
    subject: str, signer: Signer | None
) -> None:
    mesh = mesh_that(unauthenticated="accept")
    wanted = (Field(FieldType.STRING, subject.encode()), Field(FieldType.JSON, b'{"subject":"a"}'))
    take(mesh, codec.encode(codec.Draft(b"m-id", NOW, wanted, EventType.EVENT), signer))
    assert mesh.rejections() == [("match", "forbidden")]
    assert not mesh.of("interests")
    assert not mesh.of("raw")


@pytest.mark.parametrize(
    ("data", "node"),
    [
        (event("a.b", BY_NOTHING), NAME),
        (event("mesh.x", BY_HMAC), NAME),
        (event("a.b", Signer(NODE, KEY_ID, b"another secret"))[:-1], NAME),
        (b"no packet", ""),
        (b"\1" * 17 + b"\x14\x0fno whole node id", ""),
    ],
)
def test_a_refused_packet_is_kept_with_the_node_it_names(data: bytes, node: str) -> None:
    mesh = mesh_that()
    take(mesh, data)
    (refused,) = mesh.of("rejected")
    assert dict(refused.headers or [])["node"].decode() == node


def test_what_a_listener_is_told_anew_holds_for_the_next_packet() -> None:
    mesh = mesh_that(unauthenticated="reject")
    for policy in ("reject", "accept", "reject"):
        mesh.state.reconfigure(mesh_that(unauthenticated=policy).state.config)
        mesh.forget_outputs()
        take(mesh, event("a.b", BY_NOTHING))
        assert bool(mesh.events()) is (policy == "accept")


def test_a_key_that_has_gone_from_the_store_proves_nothing_more() -> None:
    mesh = mesh_that()
    for keys in (KEYS, {}):
        mesh.state.use_keys(KeyRing(keys), None)
        mesh.forget_outputs()
        take(mesh, event("a.b", BY_HMAC))
        assert bool(mesh.events()) is bool(keys)
