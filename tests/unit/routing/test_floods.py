"""The sources of datagrams that flood a raw record with what is refused are named to their edge, and no others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gateway.protocols.emm import codec
from gateway.protocols.emm.frames import EventType, Field, FieldType
from gateway.records.egress import RECORD_END, Entry, Position, SourceRefused
from gateway.records.raw_log.container import ContainerBuilder
from gateway.records.raw_log.frames import FrameSource, RawFrame, Replayed
from streaming_jobs.routing.floods import FEWEST_REFUSED, SHARE_REFUSED
from tests.unit.protocols.emm import vectors
from tests.unit.routing.asking import client
from tests.unit.routing.mesh_in_a_log import EDGE, EPOCH, NOW, MeshInALog

ATTACKER = FrameSource("emm", "emm", EDGE, EPOCH, peer="192.0.2.66:4000")
DEVICE = FrameSource("emm", "emm", EDGE, EPOCH, peer="192.0.2.7:4000")
FEW_GOOD = int(FEWEST_REFUSED / SHARE_REFUSED) - FEWEST_REFUSED


def good(number: int) -> bytes:
    name = Field(FieldType.STRING, b"temp.high")
    return codec.encode(codec.Draft(number.to_bytes(4, "big"), NOW, (name,), EventType.EVENT), vectors.SIGNER)


def forged(number: int) -> bytes:
    packet = good(number)
    return packet[:-1] + bytes([packet[-1] ^ 1])


def unlike_others(number: int) -> bytes:
    """A forged packet that the fast pass leaves to the plain path."""
    fields = (Field(FieldType.STRING, b"temp.high"), *[Field(FieldType.INTEGER, b"\1")] * (number % 7))
    return codec.encode(codec.Draft(number.to_bytes(4, "big"), NOW, fields, EventType.EVENT), None)


def told(*frames: tuple[FrameSource, Sequence[bytes]]) -> list[tuple[int, Entry]]:
    """Returns what the edge is told of one record with these frames. The key is one that the mesh knows."""
    mesh = MeshInALog(keys=vectors.RING.nodes)
    builder = ContainerBuilder(EDGE, EPOCH)
    for source, packets in frames:
        for packet in packets:
            builder.add(source, NOW * 1_000_000, packet)
    mesh.append(builder.build())
    return [(edge, entry) for edge, entry in mesh.told() if isinstance(entry, SourceRefused)]


@pytest.mark.parametrize("make", [forged, unlike_others, lambda _: b"\0"])
@pytest.mark.parametrize(("fewer", "is_named"), [(0, True), (1, False)])
def test_a_source_is_named_from_so_many_refused_packets_in_a_record_on(
    make: type[bytes], fewer: int, is_named: bool
) -> None:
    packets = [make(number) for number in range(FEWEST_REFUSED - fewer)]
    named = [(int(EDGE[-1]), SourceRefused(Position(0, 0, RECORD_END, 0), "emm", ATTACKER.peer))]
    assert told((ATTACKER, packets), (DEVICE, [good(0)])) == (named if is_named else [])


@pytest.mark.parametrize(("more", "is_named"), [(0, True), (1, False)])
def test_a_source_of_which_some_is_good_is_not_named(more: int, is_named: bool) -> None:
    refused = [forged(number) for number in range(FEWEST_REFUSED)]
    passed = [good(FEWEST_REFUSED + number) for number in range(FEW_GOOD + more)]
    assert bool(told((ATTACKER, [*refused, *passed]))) is is_named


def test_what_many_sources_send_together_names_none() -> None:
    sources = [FrameSource("emm", "emm", EDGE, EPOCH, peer=f"192.0.2.{number}:1") for number in range(200)]
    assert told(*((source, [forged(number)]) for number, source in enumerate(sources))) == []


def test_several_are_named_in_one_record_each_by_an_entry_of_its_own() -> None:
    packets = [forged(number) for number in range(FEWEST_REFUSED)]
    entries = [entry for _, entry in told((ATTACKER, packets), (DEVICE, packets))]
    assert [entry.position.part for entry in entries] == [0, 1]
    assert {entry.peer for entry in entries if isinstance(entry, SourceRefused)} == {ATTACKER.peer, DEVICE.peer}


def test_a_stream_is_not_named_for_its_edge_slows_it_down_by_itself() -> None:
    mesh = MeshInALog()
    builder = ContainerBuilder(EDGE, EPOCH)
    for _ in range(2 * FEWEST_REFUSED):
        builder.add(client(mesh).source, NOW * 1_000_000, b"\xff")
    mesh.append(builder.build())
    assert not [entry for _, entry in mesh.told() if isinstance(entry, SourceRefused)]


def test_what_somebody_puts_in_again_names_nobody() -> None:
    mesh = MeshInALog()
    builder = ContainerBuilder(EDGE, EPOCH)
    for number in range(2 * FEWEST_REFUSED):
        builder.add_again(RawFrame(b"\0", ATTACKER, NOW * 1_000_000), Replayed(f"0-0-{number}", 1))
    mesh.append(builder.build())
    assert mesh.told() == []
