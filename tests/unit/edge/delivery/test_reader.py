"""Tests what an edge makes of records of its egress partition that it cannot read."""

from __future__ import annotations

import pytest
from confluent_kafka import Message

from gateway.core.errors import SetupError
from gateway.edge.delivery.reader import read_record
from gateway.records.egress_codec.layout import MAGIC, VERSION


def message(value: bytes) -> Message:
    return Message(topic="mesh.egress", partition=0, offset=7, value=value)


def test_a_record_of_a_newer_build_ends_the_edge_because_skipping_it_would_lose_its_deliveries() -> None:
    with pytest.raises(SetupError) as refused:
        read_record(message(MAGIC + bytes([VERSION + 1]) + bytes(20)))
    assert "egress offset 7" in str(refused.value)
    assert f"this build reads 1 and {VERSION}" in str(refused.value)


@pytest.mark.parametrize("value", [b"", b"nonsense", MAGIC, MAGIC + bytes([VERSION]) + bytes(20), b"\x91\x03"])
def test_a_record_that_no_router_wrote_is_skipped(value: bytes) -> None:
    assert read_record(message(value)) is None
