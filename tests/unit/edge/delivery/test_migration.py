"""Debts to a node that has moved: taken out at its old edge and into the raw log, and waited for at its new one."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from gateway.config import Config
from gateway.edge.delivery.migration import TOO_LARGE
from gateway.records.egress import Confirm, MigrationPhase, MigrationStep
from gateway.records.raw_log.control_frames import DeliveryMigrated, MigrationFinished, decode
from gateway.records.raw_log.frames import RawFrame
from tests.unit.edge.running import RunningEdge, configured, listener, running, until

DATA = bytes.fromhex("00 0099 00000003 78797a")
NODE = "node:plc-7@plant"
GIVE = MigrationPhase.GIVE, NODE, "0-9-0", "edge-1", "edge-0.1.1"
EXPECT, DONE = ((step, NODE, "0-9-0") for step in (MigrationPhase.EXPECT, MigrationPhase.DONE))


def plant() -> Config:
    return configured(listener("plant", "hsp", redeliver_seconds=60))


def owes(edge: RunningEdge, **more: Any) -> None:
    edge.delivers(DATA, stamps=(1,), owed=(NODE,), **more)


def tells(edge: RunningEdge, step: tuple[str, ...]) -> None:
    edge.tells(MigrationStep, *step)


def handed_over(edge: RunningEdge) -> list[tuple[RawFrame, DeliveryMigrated | MigrationFinished]]:
    found = ((frame, decode(frame.data)) for frame in edge.kafka.raw() if frame.source.edge == "edge-0")
    return [(frame, said) for frame, said in found if isinstance(said, DeliveryMigrated | MigrationFinished)]


def committed(edge: RunningEdge) -> int:
    edge.life.tick()
    return edge.kafka.reader_.commits[-1].checkpoint.offset


async def test_what_is_owed_goes_into_the_raw_log_with_an_end_behind_it() -> None:
    async with running(plant()) as edge:
        owes(edge)
        owes(edge)
        tells(edge, GIVE)
        await until(lambda: len(handed_over(edge)) == 3)
        (first, debt), (second, _), (_, end) = handed_over(edge)
        assert isinstance(debt, DeliveryMigrated)
        assert (debt.node, debt.move, debt.edge, b64decode(debt.frame), debt.stamps) == (
            NODE, "0-9-0", "edge-1", DATA, (1,),
        )  # fmt: skip
        assert [one.again and one.again.event_id for one in (first, second)] == ["0-1-0", "0-2-0"]
        assert end == MigrationFinished(NODE, "0-9-0", "edge-1")
        assert edge.kafka.outcomes() == []  # what becomes of them is told by who gives them
        await until(lambda: committed(edge) == 3)


async def test_what_is_too_large_for_the_log_as_a_debt_is_undeliverable_and_the_rest_goes_over() -> None:
    config = configured(
        listener("plant", "hsp", redeliver_seconds=60), kafka={"partitions": 2, "message_bytes": 1_200_000}
    )
    large = bytes.fromhex("00 0099 000f4240") + bytes(1_000_000)
    async with running(config) as edge:
        owes(edge)
        edge.delivers(large, stamps=(1,), owed=(NODE,), confirm=Confirm("edge-1", "0-2-0"))
        owes(edge)
        tells(edge, GIVE)
        await until(lambda: len(handed_over(edge)) == 3)
        again = [frame.again.event_id for frame, _ in handed_over(edge) if frame.again is not None]
        assert again == ["0-1-0", "0-3-0"]
        await until(edge.kafka.outcomes)
        [row] = edge.kafka.outcomes()
        assert (row.event_id, row.destination, row.outcome, row.detail) == ("0-2-0", NODE, "undeliverable", TOO_LARGE)
        assert [(one["event_id"], one["reason"]) for one in edge.kafka.rejected()] == [("0-2-0", "undeliverable")]
        await until(lambda: committed(edge) == 4)


async def test_an_edge_that_is_killed_before_the_log_has_its_debts_finds_them_again_and_the_move() -> None:
    async with running(plant()) as edge:
        owes(edge)
        edge.kafka.producer_.held = True
        tells(edge, GIVE)
        await until(lambda: len(handed_over(edge)) == 2)
        assert committed(edge) == 0
        edge.kafka.producer_.acknowledge()
        await until(lambda: committed(edge) == 2)


async def test_an_edge_that_owes_nothing_says_so() -> None:
    async with running(plant()) as edge:
        tells(edge, GIVE)
        await until(lambda: len(handed_over(edge)) == 1)


async def test_the_new_edge_keeps_its_offset_until_all_has_arrived() -> None:
    async with running(plant()) as edge:
        tells(edge, EXPECT)
        assert committed(edge) == 0
        owes(edge, is_migrated=True, first_id="0-0-7")
        assert committed(edge) == 0
        assert edge.sample("egress_queue_frames") == 1
        tells(edge, DONE)
        assert committed(edge) == 1  # and not beyond what is owed
