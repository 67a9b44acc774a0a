"""The row of ids that Spark stores for a raw record."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming_jobs.routing.id_rows import DIGEST_BYTES, PACKET_KEY_BYTES, IdColumns, pack_row, read_rows

BEGIN = 1_700_000_000
keys = st.one_of(
    st.builds(
        lambda node, number: bytes([node]) * 16 + number.to_bytes(4, "big"),
        st.integers(0, 3),
        st.integers(0, 0xFFFFFFFF),
    ),
    st.binary(min_size=DIGEST_BYTES, max_size=DIGEST_BYTES),
)
rows_of_ids = st.lists(
    st.lists(st.tuples(keys, st.one_of(st.integers(BEGIN, BEGIN + 3), st.integers(1, 0xFFFFFFFF))), min_size=1)
)


def ids_of(columns: IdColumns) -> list[tuple[bytes, int]]:
    message_ids = [number.to_bytes(4, "big") for number in columns.message_ids.tolist()]
    nodes = [columns.nodes[place] for place in columns.places.tolist()]
    packets = [node + message_id for node, message_id in zip(nodes, message_ids, strict=True)]
    digests = [columns.digests[at : at + DIGEST_BYTES] for at in range(0, len(columns.digests), DIGEST_BYTES)]
    seconds = [*columns.packet_seconds.tolist(), *columns.digest_seconds.tolist()]
    return list(zip([*packets, *digests], seconds, strict=True))


@given(rows_of_ids.filter(bool))
def test_ids_are_read_as_they_were_packed(added: list[list[tuple[bytes, int]]]) -> None:
    expected = [
        pair for size in (PACKET_KEY_BYTES, DIGEST_BYTES) for row in added for pair in row if len(pair[0]) == size
    ]
    assert ids_of(read_rows([pack_row(row) for row in added])) == expected


@pytest.mark.parametrize("nodes", [1, 255, 256, 257, 70_000])
@pytest.mark.parametrize("apart", [0, 255, 256])
def test_many_nodes_and_seconds_fit(nodes: int, apart: int) -> None:
    added = [(node.to_bytes(16, "big") + bytes(4), BEGIN + apart * (node % 2)) for node in range(nodes)]
    assert ids_of(read_rows([pack_row(added)])) == added


def test_a_record_of_common_packets_takes_little() -> None:
    added = [(bytes([number % 16]) * 16 + number.to_bytes(4, "big"), BEGIN + number % 2) for number in range(100)]
    assert len(pack_row(added)) == 18 + 16 * 16 + 100 * 6


def test_a_record_that_added_nothing_has_no_row() -> None:
    assert pack_row([]) == b""


ROW = pack_row([(bytes(20), BEGIN), (bytes(12), BEGIN + 1), (b"x" * 20, BEGIN + 2)])


@pytest.mark.parametrize("size", range(len(ROW)))
def test_a_row_that_was_cut_is_refused(size: int) -> None:
    with pytest.raises((ValueError, struct.error)):
        read_rows([ROW[:size]])


@pytest.mark.parametrize("at", [0, 4, 12, 16, 17])
def test_a_row_with_another_head_is_refused(at: int) -> None:
    damaged = bytearray(ROW)
    damaged[at] ^= 3
    with pytest.raises(ValueError, match="a row of message ids has"):
        read_rows([bytes(damaged)])


def test_a_packet_of_a_node_that_is_not_there_is_refused() -> None:
    damaged = bytearray(ROW)
    damaged[18 + 2 * 16 + 2 * 4] = 2
    with pytest.raises(ValueError, match="has fewer nodes than its packets say"):
        read_rows([bytes(damaged)])
