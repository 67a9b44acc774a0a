"""Finding the common packet, from field to field and by its shape."""

from __future__ import annotations

from random import Random

import pytest

from gateway.protocols.emm import scan
from gateway.protocols.emm.frames import HEADER_BYTES, Field, FieldType
from gateway.protocols.emm.signing import Signer
from tests.unit.protocols.emm.packets import NAME, NODE_ID, packet
from tests.unit.protocols.emm.vectors import E1, E2, E3, KEY_ID, NODE, SEED, SIGNER

DATA, STAMP = Field(FieldType.JSON, b"1"), Field(FieldType.TIMESTAMP, bytes(8))
SIGNATURE = Signer(NODE, KEY_ID, None, SEED)


def scanned(data: bytes) -> list[int] | None:
    """Scans by a walk, by a scan that does not know its shape, and by one that does: they agree."""
    scan._shapes.clear()
    found = [scan.walk(data), scan.scan(data), scan.scan(data)]
    assert found[0] == found[1] == found[2]
    return None if found[0] is None else list(found[0])


@pytest.mark.parametrize(
    ("data", "places"),
    [
        pytest.param(E1, [19, 0, 30, 0, 48, 54, 0], id="E1"),
        pytest.param(packet(NAME, DATA, NODE_ID, STAMP, signer=SIGNER), [19, 30, 33, 51, 0, 61, 95], id="all but 18"),
        pytest.param(packet(NAME, NODE_ID, signer=SIGNATURE), [19, 0, 30, 0, 0, 0, 48], id="a signature alone"),
        pytest.param(packet(NAME, NAME, NODE_ID, signer=SIGNATURE), [19, 30, 41, 0, 0, 0, 59], id="01 twice"),
    ],
)
def test_the_common_packet_is_found(data: bytes, places: list[int]) -> None:
    assert scanned(data) == [0, *places]


LONG = Field(FieldType.BINARY, bytes(254))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(E1[:17], id="a header alone"),
        pytest.param(packet(), id="an empty payload"),
        pytest.param(packet(NAME, NODE_ID), id="no tag"),
        pytest.param(packet(NAME, signer=SIGNER), id="no node"),
        pytest.param(packet(NODE_ID, signer=SIGNER), id="no name"),
        pytest.param(packet(NODE_ID, NAME, signer=SIGNER), id="not in order"),
        pytest.param(packet(NAME, NODE_ID, NODE_ID, signer=SIGNER), id="the node twice"),
        pytest.param(packet(NAME, DATA, DATA, NODE_ID, signer=SIGNER), id="two data fields"),
        pytest.param(packet(Field(1, b"x" * 255), NODE_ID, signer=SIGNER), id="a name that may go on"),
        pytest.param(packet(NAME, Field(4, bytes(255)), NODE_ID, signer=SIGNER), id="a value that may go on"),
        pytest.param(packet(NAME, Field(2, bytes(3)), NODE_ID, signer=SIGNER), id="a wrong length"),
        pytest.param(packet(NAME, NODE_ID, Field(0x7F, b""), signer=SIGNER), id="an unknown field"),
        pytest.param(packet(NAME, NODE_ID, flags=2, signer=SIGNER), id="a flag but urgent"),
        pytest.param(packet(NAME, NODE_ID, event_type=2, signer=SIGNER), id="no event"),
        pytest.param(packet(Field(1, b"x" * 200), LONG, NODE_ID, signer=SIGNER), id="larger than a packet may be"),
        pytest.param(E2, id="E2: a public key"),
        pytest.param(E3, id="E3: encrypted"),
        pytest.param(E1[:-1], id="a byte less"),
        pytest.param(E1 + b"\0", id="a byte more"),
        pytest.param(E1[:53] + b"\x21" + E1[54:], id="an overrun"),
    ],
)
def test_what_is_not_plainly_common_is_left_to_the_plain_path(data: bytes) -> None:
    assert scanned(data) is None


def test_whatever_was_scanned_before_a_scan_finds_what_a_walk_does() -> None:
    random = Random(1)
    common = [packet(NAME, DATA, NODE_ID, STAMP, flags=flags, signer=SIGNER) for flags in (0, 1)]
    values = [at for at in scan.scan(common[0]) or () if at]
    told = [*range(HEADER_BYTES), *(head for at in values for head in (at - 2, at - 1))]
    for _ in range(20_000):
        data = bytearray(random.choice(common))
        for _ in range(random.randrange(3)):
            data[random.choice(told)] ^= 1 << random.randrange(8)
        assert scan.scan(bytes(data)) == scan.walk(bytes(data)), data.hex()


def test_shapes_are_kept_up_to_a_limit() -> None:
    scan._shapes.clear()
    for size in range(200):
        for name in range(1, 40):
            scan.scan(packet(Field(1, b"x" * name), Field(4, bytes(size)), NODE_ID, signer=SIGNER))
            assert len(scan._shapes) <= scan.SHAPES_KEPT
    assert scan.scan(E1) == scan.walk(E1)
