"""The whole path with nothing in place of anything: sockets, Kafka, Spark, Kafka, sockets."""

from __future__ import annotations

from gateway.protocols.emm.frames import HEADER_BYTES
from tests.integration.emm_peer import Device
from tests.integration.mesh import TestMesh
from tests.integration.topic import following, header


def test_a_signed_event_reaches_its_subscriber_byte_for_byte(device: Device) -> None:
    device.subscribe("first.>")
    packet = device.packet("first.event", "hello")
    device.send(packet)
    assert device.receive() == packet


def test_an_event_of_another_subject_does_not_come(device: Device) -> None:
    device.subscribe("wanted.>")
    device.send(device.packet("unwanted.event"))
    wanted = device.packet("wanted.event")
    device.send(wanted)
    assert device.receive() == wanted


def test_an_accepted_event_is_a_cloud_event(mesh: TestMesh, device: Device) -> None:
    device.subscribe("cloud.>")
    with following(mesh, "events") as find:
        device.send(device.packet("cloud.event", "body"))
        record = find(lambda one: header(one, "ce_subject") == "cloud.event")
    assert record.value == b"body"
    assert header(record, "ce_specversion") == "1.0"
    assert header(record, "ce_type") == "meshgate.event"
    assert header(record, "ce_source") == f"/mesh/test/emm/{device.node}"
    assert header(record, "ce_meshauth") == "hmac+ed25519"
    assert record.key == device.node.encode()


def test_what_is_no_packet_is_kept_with_its_reason(mesh: TestMesh, stranger: Device) -> None:
    with following(mesh, "rejected") as find:
        stranger.send(b"\x09 no packet at all, whoever sent it")
        record = find(lambda one: one.value.startswith(b"\x09 no packet"))
    assert (header(record, "reason"), header(record, "stage")) == ("unsupported_version", "decode")
    assert header(record, "event_id").count("-") == 2


def test_a_stranger_s_signature_is_an_unknown_key(mesh: TestMesh, stranger: Device) -> None:
    with following(mesh, "rejected") as find:
        packet = stranger.packet("from.a.stranger")
        stranger.send(packet)
        record = find(lambda one: one.value == packet)
    assert header(record, "reason") == "unknown_key"


def test_a_changed_byte_is_a_bad_tag(mesh: TestMesh, device: Device) -> None:
    device.subscribe("changed.>")
    with following(mesh, "rejected") as find:
        packet = bytearray(device.packet("changed.byte", "21"))
        packet[HEADER_BYTES + 4] ^= 1
        device.send(bytes(packet))
        record = find(lambda one: one.value == bytes(packet))
    assert header(record, "reason") == "bad_hmac"


def test_a_packet_sent_twice_arrives_once(device: Device) -> None:
    device.subscribe("once.>")
    packet, last = device.packet("once.only"), device.packet("once.last")
    for one in (packet, packet, packet, last):
        device.send(one)
    assert [device.receive(), device.receive()] == [packet, last]


def test_a_record_that_no_edge_wrote_is_kept_and_harms_nobody(mesh: TestMesh, device: Device) -> None:
    from kafka import KafkaProducer

    from gateway.config import load

    config = load(mesh.config_file)
    device.subscribe("foreign.>")
    with following(mesh, "rejected") as find:
        producer = KafkaProducer(**config.kafka.client_settings())
        producer.send(config.topic("raw"), value=b"not of this mesh", partition=0).get(10)
        producer.close()
        record = find(lambda one: one.value == b"not of this mesh")
    assert (header(record, "reason"), header(record, "stage")) == ("malformed", "log")
    packet = device.packet("foreign.none")
    device.send(packet)
    assert device.receive() == packet
