"""Tests what the router wrote for this edge: to sessions, to addresses, and what became of it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from contextlib import closing

import pytest

from gateway.core.event import Kind
from gateway.edge.datagrams.calls import AT_ONCE
from gateway.edge.delivery.offset_tracker import Checkpoint, CommittedState
from gateway.edge.delivery.poison import GIVEN_UP
from gateway.edge.delivery.redelivery import OWED_TOO_LONG
from gateway.records.deliveries import DeliveryOutcome
from gateway.records.egress import Deliver, Group, InterestApplied, Position
from gateway.records.egress_codec import EgressBuilder, EgressRecord, Route
from gateway.records.egress_codec import decode as decode_egress
from gateway.records.raw_log.control_frames import RequestsAbandoned
from gateway.records.raw_log.frames import ReplyAddress
from gateway.records.rejected_frame import KEPT_BYTES, TRUNCATED_HEADER
from tests.unit.edge.fake_kafka import FakeKafka
from tests.unit.edge.running import Peer, RunningEdge, configured, listener, running, until, with_session

DATA = bytes.fromhex("00 0099 00000003 78797a")
DATA_ACK_0 = bytes.fromhex("01 00000000 0007 00000005 68656c6c6f")
DATA_ACK_1 = bytes.fromhex("01 00000001 0007 00000005 68656c6c6f")
ACK_1 = bytes.fromhex("02 00000001")
PING, PONG = b"\x03", b"\x04"
ERROR_UNDEF_1 = bytes.fromhex("06 00000001")
REPLY = ReplyAddress("yamp", "apps", "edge-1", 7, 3, "0102", "sum")


def name(edge: RunningEdge, session: int) -> str:
    return f"edge-0.{edge.life.epoch:x}.{session}"


async def ends(edge: RunningEdge, count: int = 1) -> list[tuple[str, str, str]]:
    await until(lambda: len(edge.kafka.outcomes()) >= count)
    return [(row.destination, row.outcome, row.detail) for row in edge.kafka.outcomes()]


async def test_a_frame_is_written_to_each_session_it_is_for_and_to_no_other() -> None:
    async with running(configured(listener("plc", "hsp"))) as edge:
        peers = await edge.opens("plc", 3)
        edge.delivers(DATA, sessions=(1, 3))
        for wanted in (0, 2):
            assert await peers[wanted].reads(len(DATA)) == DATA
        assert await ends(edge, 2) == [(name(edge, 1), "written", ""), (name(edge, 3), "written", "")]
        assert edge.of("egress_delivered_total", "plc", outcome="written") == 2
        row = edge.kafka.outcomes()[0]
        assert (row.event_id, row.part, row.node) == ("0-1-0", 0, f"anon:edge-0:{name(edge, 1)}")
        assert edge.sample("end_to_end_duration_seconds_count", **{"from": "emm", "to": "hsp"}) == 2


async def test_a_delivery_is_confirmed_when_the_peer_has_acknowledged_it() -> None:
    async with with_session(configured(listener("plc", "hsp")), "plc") as (edge, peer):
        edge.delivers(DATA_ACK_0, stamps=(1,), sessions=(1,))
        assert await peer.reads(len(DATA_ACK_1)) == DATA_ACK_1
        assert edge.sample("egress_queue_frames") == 1
        assert edge.kafka.outcomes() == []
        peer.sends(ACK_1)
        assert await ends(edge) == [(name(edge, 1), "confirmed", "")]
        assert edge.sample("egress_queue_frames") == 0


async def test_the_age_of_the_egress_is_that_of_the_oldest_delivery_without_an_outcome() -> None:
    async with with_session(configured(listener("plc", "hsp")), "plc") as (edge, peer):
        edge.delivers(DATA_ACK_0, stamps=(1,), sessions=(1,))
        assert await peer.reads(len(DATA_ACK_1)) == DATA_ACK_1
        ages = []
        for _ in range(3):
            edge.life.tick()
            ages.append(edge.sample("egress_age_seconds"))
        assert ages[0] == 0 < ages[1] < ages[2]
        peer.sends(ACK_1)

        def is_over() -> bool:
            edge.life.tick()
            return edge.sample("egress_age_seconds") == 0

        await until(is_over)


async def test_what_cannot_be_delivered_stands_in_rejected_with_its_reason() -> None:
    async with running(configured(listener("plc", "hsp"))) as edge:
        edge.delivers(DATA, sessions=(9,))
        assert await ends(edge) == [(name(edge, 9), "undeliverable", "the session is gone")]
        assert edge.kafka.rejected() == [
            {
                "reason": "undeliverable",
                "stage": "deliver",
                "detail": "the session is gone",
                "event_id": "0-1-0",
                "protocol": "emm",
                "peer": name(edge, 9),
                "node": "",
            }
        ]


async def test_what_has_no_frame_has_expired_with_its_session_and_nothing_was_refused() -> None:
    async with running(configured(listener("plc", "hsp"))) as edge:
        edge.delivers(b"", sessions=(9,), request="7")
        assert await ends(edge) == [(name(edge, 9), "expired", "the session is gone")]
        assert edge.kafka.rejected() == []


async def test_deliveries_to_sessions_of_an_earlier_epoch_reach_nobody() -> None:
    async with running(configured(listener("plc", "hsp"))) as edge:
        await edge.opens("plc")
        edge.delivers(DATA, sessions=(1,), epoch=edge.life.epoch - 1)
        assert await ends(edge) == [(f"edge-0.{edge.life.epoch - 1:x}.1", "undeliverable", "the session is gone")]


async def test_a_repeat_of_the_router_reaches_nobody_twice() -> None:
    async with running(configured(listener("plc", "hsp"))) as edge:
        await edge.opens("plc")
        for offset in (5, 6, 5, 6, 7):
            edge.delivers(DATA, sessions=(1,), position=Position(0, offset, 0))
        await until(lambda: len(edge.kafka.outcomes()) == 3)
        assert [row.event_id for row in edge.kafka.outcomes()] == ["0-5-0", "0-6-0", "0-7-0"]
        assert edge.kafka.reader_.handled == 5


async def test_who_asked_a_server_that_is_gone_hears_it_at_once() -> None:
    async with running(configured(listener("plc", "hsp"))) as edge:
        edge.delivers(DATA_ACK_0, stamps=(1,), sessions=(9,), kind=Kind.REQUEST, reply=REPLY.pack())
        await until(lambda: RequestsAbandoned("undeliverable") in edge.kafka.mesh())
        assert edge.kafka.raw()[-1].replies == (REPLY,)


async def test_a_slow_peer_loses_frames_alone() -> None:
    config = configured(listener("plc", "hsp", queue_bytes=20_000))
    big = bytes.fromhex("00 0099 00004000") + bytes(16_384)
    async with running(config) as edge:
        slow, quick = await edge.opens("plc", 2)
        slow.stops_reading()
        for _ in range(600):
            edge.delivers(big, sessions=(1, 2))
            await quick.reads(len(big))
        rows = await ends(edge, 1200)
        assert {outcome for to, outcome, _ in rows if to == name(edge, 2)} == {"written"}
        lost = [detail for to, outcome, detail in rows if to == name(edge, 1) and outcome == "undeliverable"]
        assert set(lost) == {"the peer reads too slowly"}


@pytest.mark.parametrize(
    ("head", "stamps"),
    [(bytes.fromhex("00 0099 000003e8"), ()), (bytes.fromhex("01 00000000 0007 000003e8"), (1,))],
    ids=["in runs", "one by one"],
)
async def test_more_than_a_queue_at_once_reaches_a_peer_that_reads(head: bytes, stamps: tuple[int, ...]) -> None:
    frame = head + bytes(1_000)
    async with with_session(configured(listener("plc", "hsp", queue_bytes=20_000)), "plc") as (edge, peer):
        group = Group("hsp", b"", stamps, sessions=(1,))
        route = Route(Kind.EVENT, "temp.high", "emm", edge.life.epoch, (group,))
        records: list[EgressRecord] = []
        for offset in range(10):
            builder = EgressBuilder(0, offset, 1_000_000)
            for index in range(15):
                builder.deliver(index, 0, route, 0, frame)
            records += map(decode_egress, builder.finish())
        edge.kafka.reader_.put(*records)
        assert (await peer.reads(150 * len(frame))).count(bytes(1_000)) == 150
        assert edge.of("egress_delivered_total", "plc", outcome="undeliverable") == 0


async def test_who_asked_a_server_that_reads_too_slowly_hears_it_at_once() -> None:
    big = bytes.fromhex("01 00000000 0007 00004000") + bytes(16_384)
    async with with_session(configured(listener("plc", "hsp", queue_bytes=20_000)), "plc") as (edge, peer):
        peer.stops_reading()
        for _ in range(600):
            edge.delivers(big, stamps=(1,), sessions=(1,), kind=Kind.REQUEST, reply=REPLY.pack())
        assert (await ends(edge))[0] == (name(edge, 1), "undeliverable", "the peer reads too slowly")
        await until(lambda: RequestsAbandoned("undeliverable") in edge.kafka.mesh())


async def test_an_answer_waits_until_its_interest_stands_in_every_partition() -> None:
    async with with_session(configured(listener("plc", "hsp")), "plc") as (edge, peer):

        def applied(partition: int) -> InterestApplied:
            return InterestApplied(Position(partition, 50, 0), "0-1-0", partition)

        edge.delivers(DATA, sessions=(1,), ticket="0-1-0")
        edge.kafka.reader_.put(applied(0))
        await peer.hears_nothing()
        edge.kafka.reader_.put(applied(1))
        assert await peer.reads(len(DATA)) == DATA


async def test_datagrams_go_out_from_the_listeners_own_address() -> None:
    async with running(configured(listener("devices", "emm", "udp"))) as edge:
        received: asyncio.Queue[tuple[bytes, tuple[str, int]]] = asyncio.Queue()

        class Device(asyncio.DatagramProtocol):
            def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
                received.put_nowait((data, addr))

        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(Device, local_addr=("127.0.0.1", 0))
        host, port = transport.get_extra_info("sockname")
        address = f"{host}:{port}"
        edge.delivers(
            b"packet", protocol="emm", addresses=(("devices", address), ("gone", address), ("devices", "x:y"))
        )
        assert await received.get() == (b"packet", ("127.0.0.1", edge.port("devices")))
        assert sorted(await ends(edge, 3)) == [
            (f"devices {address}", "written", ""),
            ("devices x:y", "undeliverable", "no address of a peer"),
            (f"gone {address}", "undeliverable", "the listener is gone"),
        ]
        transport.close()


async def test_datagrams_of_one_batch_leave_in_its_order_and_each_has_its_outcome() -> None:
    async with running(configured(listener("devices", "emm", "udp"))) as edge:
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as device:
            device.bind(("127.0.0.1", 0))
            device.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1_048_576)
            device.settimeout(5)
            to = "devices", f"127.0.0.1:{device.getsockname()[1]}"
            frames = [bytes(70_000) if number == AT_ONCE // 2 else b"%d" % number for number in range(AT_ONCE + 2)]
            edge.kafka.reader_.put(*(for_datagram(edge, number, frame, to) for number, frame in enumerate(frames)))
            await until(lambda: len(edge.kafka.outcomes()) == len(frames))
            small = [frame for frame in frames if len(frame) < 70_000]
            assert [device.recv(2048) for _ in small] == small
        rows = edge.kafka.outcomes()
        assert [row.event_id for row in rows] == [f"0-{number}-0" for number in range(len(frames))]
        assert [row.detail for row in rows if row.outcome == "undeliverable"] == ["not sent: EMSGSIZE"]
        assert edge.of("egress_delivered_total", "devices", outcome="written") == len(small)
        assert edge.of("egress_delivered_total", "devices", outcome="undeliverable") == 1
        assert edge.sample("end_to_end_duration_seconds_count", **{"from": "emm", "to": "emm"}) == len(small)


async def test_a_fault_while_datagrams_are_sent_holds_back_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(configured(listener("devices", "emm", "udp"))) as edge:
        to = "devices", "127.0.0.1:9"
        with monkeypatch.context() as broken:
            broken.setattr(edge.life.endpoints.datagrams["devices"], "send", None)
            edge.kafka.reader_.put(for_datagram(edge, 0, b"one", to))
        edge.kafka.reader_.put(for_datagram(edge, 1, b"two", to))
        await until(lambda: committed(edge) == 2)
        assert [row.event_id for row in edge.kafka.outcomes()] == ["0-1-0"]


def for_datagram(edge: RunningEdge, number: int, frame: bytes, to: tuple[str, str]) -> Deliver:
    group = Group("emm", frame, addresses=(to,))
    return Deliver(Position(0, number, 0), edge.life.epoch, Kind.EVENT, "temp.high", "emm", 0, (group,))


async def test_a_record_that_cannot_be_handled_costs_itself_alone() -> None:
    async with with_session(configured(listener("plc", "hsp")), "plc") as (edge, peer):
        edge.delivers(DATA, sessions=(1,), reply=b"no reply address")
        edge.delivers(DATA, sessions=(1,))
        assert await peer.reads(len(DATA)) == DATA
        edge.life.tick()
        assert await ends(edge) == [(name(edge, 1), "written", "")]


async def test_the_committed_offset_does_not_pass_a_delivery_whose_outcome_is_not_durable() -> None:
    async with with_session(configured(listener("plc", "hsp")), "plc") as (edge, peer):
        edge.delivers(DATA, sessions=(1,))
        await until(lambda: committed(edge) == 1)
        edge.delivers(DATA_ACK_0, stamps=(1,), sessions=(1,))
        edge.delivers(DATA, sessions=(1,))
        await ends(edge, 2)
        assert committed(edge) == 1
        assert edge.sample("egress_lag_records") == 0
        peer.sends(ACK_1)
        await until(lambda: committed(edge) == 3)


def committed(edge: RunningEdge) -> int:
    edge.life.tick()
    return edge.kafka.reader_.commits[-1].checkpoint.offset


OWED = "node:link:plant@plant"


async def test_what_is_owed_to_a_node_that_is_away_holds_the_offset_until_it_has_it() -> None:
    async with await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0) as plant:
        port = plant.sockets[0].getsockname()[1]
    link = {"name": "plant", "protocol": "hsp", "connect": f"tcp://127.0.0.1:{port}", "redeliver_seconds": 60}
    async with running(configured(peers=[link])) as edge:
        edge.delivers(DATA_ACK_0, stamps=(1,), owed=(OWED,))
        edge.delivers(DATA, sessions=(9,))
        await ends(edge)
        assert committed(edge) == 0
        assert edge.sample("egress_queue_frames") == 1
        met: asyncio.Queue[Peer] = asyncio.Queue()
        async with await asyncio.start_server(lambda *peer: met.put_nowait(Peer(*peer)), "127.0.0.1", port):
            peer = edge.kept(await met.get())
            assert await peer.reads(len(DATA_ACK_1)) == DATA_ACK_1
            peer.sends(ACK_1)
            assert (await ends(edge, 2))[1] == (OWED, "confirmed", "")
            row = edge.kafka.outcomes()[1]
            assert (row.node, edge.of("egress_delivered_total", "plant", outcome="confirmed")) == ("link:plant", 1)
            await until(lambda: committed(edge) == 2)


async def test_what_a_peer_cannot_take_is_undeliverable_and_what_comes_after_it_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """hsp has no word for "too large": who gets more than it takes ends the connection, and would do so for ever."""
    monkeypatch.setattr("gateway.edge.carriers.links.FIRST_REST_SECONDS", 0.01)
    monkeypatch.setattr("gateway.edge.carriers.links.LONGEST_REST_SECONDS", 0.01)
    large = bytes.fromhex("01 00000000 0007 00001000") + bytes(4096)
    met: list[Peer] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A peer that takes 1,024 bytes at most."""
        met.append(Peer(reader, writer))
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionResetError):
            while command := (await reader.readexactly(1))[0]:
                if command == PING[0]:
                    writer.write(PONG)
                    continue
                message_id = await reader.readexactly(4)
                length = int.from_bytes((await reader.readexactly(6))[2:])
                if length > 1024:
                    break
                await reader.readexactly(length)
                writer.write(ACK_1[:1] + message_id)
        writer.close()

    plant = await asyncio.start_server(take, "127.0.0.1", 0)
    port = plant.sockets[0].getsockname()[1]
    link = {"name": "plant", "protocol": "hsp", "connect": f"tcp://127.0.0.1:{port}", "redeliver_seconds": 60}
    async with plant, running(configured(peers=[link])) as edge:
        await until(lambda: met)
        for frame in (DATA_ACK_0, large, DATA_ACK_0):
            edge.delivers(frame, stamps=(1,), owed=(OWED,))
        ended = await ends(edge, 3)
        assert [end[:2] for end in ended] == [(OWED, "confirmed"), (OWED, "undeliverable"), (OWED, "confirmed")]
        assert ended[1][2] == GIVEN_UP
        [rejected] = [record for record in edge.kafka.producer_.written if record.topic == "test.rejected"]
        headers = dict(rejected.settings["headers"])
        assert (rejected.value, headers["reason"]) == (large[:KEPT_BYTES], b"undeliverable")
        assert int(headers[TRUNCATED_HEADER]) == len(large) - KEPT_BYTES
        await until(lambda: committed(edge) == 3)


async def test_what_we_fail_to_write_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stamp beyond the frame is more than a session can write."""
    monkeypatch.setattr("gateway.edge.carriers.links.FIRST_REST_SECONDS", 0.01)
    met: asyncio.Queue[Peer] = asyncio.Queue()
    plant = await asyncio.start_server(lambda *peer: met.put_nowait(Peer(*peer)), "127.0.0.1", 0)
    port = plant.sockets[0].getsockname()[1]
    link = {"name": "plant", "protocol": "hsp", "connect": f"tcp://127.0.0.1:{port}", "redeliver_seconds": 60}
    async with plant, running(configured(peers=[link])) as edge:
        edge.kept(await met.get())
        await until(lambda: list(edge.life.sessions))
        edge.delivers(DATA_ACK_0, stamps=(1_000,), owed=(OWED,))
        edge.delivers(DATA_ACK_0, stamps=(1,), owed=(OWED,))
        assert await ends(edge) == [(OWED, "undeliverable", "internal error")]
        peer = edge.kept(await met.get())
        assert await peer.reads(len(DATA_ACK_1)) == DATA_ACK_1
        peer.sends(ACK_1)
        assert (await ends(edge, 2))[1] == (OWED, "confirmed", "")


async def test_what_is_owed_while_too_many_others_end_does_not_hold_the_offset_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.edge.runtime.MOST_OWED_OUTCOMES", 1)
    plant = listener("plant", "hsp", redeliver_seconds=60)
    async with running(configured(plant, limits={"queue_bytes": 4_000})) as edge:
        for size in (1_000, 5_000, 5_000):
            edge.delivers(bytes(size), owed=(OWED,))
            edge.life.tick()
        await ends(edge, 2)
        edge.life.tick()
        assert (await ends(edge, 3))[2] == (OWED, "undeliverable", OWED_TOO_LONG)
        await until(lambda: committed(edge) == 3)


async def test_a_killed_edge_finds_again_what_it_owed_and_sends_nothing_twice_that_was_confirmed() -> None:
    kafka = FakeKafka()
    kafka.reader_.end, kafka.reader_.resumption = 2, CommittedState(7, Checkpoint(0), 2, 0)
    kafka.known.add(DeliveryOutcome("0-1-0", OWED, "confirmed", "", 1))
    async with running(configured(listener("plant", "hsp", redeliver_seconds=60)), kafka) as edge:
        for _ in range(2):
            edge.delivers(DATA_ACK_0, stamps=(1,), owed=(OWED,), sessions=(3,), epoch=7)
            edge.life.tick()
        assert edge.sample("egress_queue_frames") == 1  # of the second event
        assert committed(edge) == 1
        assert edge.kafka.outcomes() == []  # the sessions of then lacked nothing
