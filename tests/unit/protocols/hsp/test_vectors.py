"""The published frames of hsp, both ways, and cut in every way a stream can cut them."""

from __future__ import annotations

import pytest

from gateway.core.reasons import Reason, Rejected
from gateway.protocols.hsp.codec import decode, encode, split
from gateway.protocols.hsp.frames import Command, Frame

LIMIT = 1_048_576

VECTORS = {
    "PING": ("03", Frame(Command.PING)),
    "PONG": ("04", Frame(Command.PONG)),
    "DATA": ("00 0099 00000003 78797a", Frame(Command.DATA, 0, 0x99, b"xyz")),
    "DATA, empty": ("00 0099 00000000", Frame(Command.DATA, 0, 0x99)),
    "DATA_ACK": ("01 00000001 0007 00000005 68656c6c6f", Frame(Command.DATA_ACK, 1, 7, b"hello")),
    "DATA_ACK, all ones": ("01 ffffffff ffff 00000000", Frame(Command.DATA_ACK, 0xFFFFFFFF, 0xFFFF)),
    "ACK": ("02 00000001", Frame(Command.ACK, 1)),
    "ERROR": ("05 ffeeddcc 1234 00000003 626164", Frame(Command.ERROR, 0xFFEEDDCC, 0x1234, b"bad")),
    "ERROR_UNDEF": ("06 ffeeddcc", Frame(Command.ERROR_UNDEF, 0xFFEEDDCC)),
}
each_vector = pytest.mark.parametrize(("hexdump", "frame"), VECTORS.values(), ids=VECTORS)


@each_vector
def test_a_frame_is_read_and_written_as_published(hexdump: str, frame: Frame) -> None:
    data = bytes.fromhex(hexdump)
    assert decode(data) == frame
    assert encode(frame) == data


@each_vector
def test_a_frame_is_split_off_only_when_whole(hexdump: str, frame: Frame) -> None:
    data = bytes.fromhex(hexdump)
    assert [split(data[:cut], 0, LIMIT) for cut in range(len(data))] == [0] * len(data)
    assert split(data, 0, LIMIT) == len(data)
    assert split(b"\xff" + data + b"\xff", 1, LIMIT) == len(data)


@each_vector
def test_bytes_that_are_not_exactly_a_frame_are_refused(hexdump: str, frame: Frame) -> None:
    data = bytes.fromhex(hexdump)
    with pytest.raises(Rejected) as caught:
        decode(data + b"\x00")
    assert caught.value.reason is Reason.MALFORMED
    with pytest.raises(Rejected) as caught:
        decode(data[:-1])
    assert caught.value.reason is Reason.TRUNCATED


@pytest.mark.parametrize("command", [7, 8, 0x7F, 0x80, 0xFF])
def test_an_unknown_command_is_refused_by_its_first_byte(command: int) -> None:
    with pytest.raises(Rejected) as caught:
        split(bytes((command,)), 0, LIMIT)
    assert caught.value.reason is Reason.UNKNOWN_TYPE
    assert not caught.value.can_continue


HEADS = {"DATA": "00 0099", "DATA_ACK": "01 00000001 0007", "ERROR": "05 00000001 0007"}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_a_payload_over_the_limit_is_refused_before_any_of_it_has_come(head: str) -> None:
    assert split(bytes.fromhex(head + "0000000a"), 0, 10) == 0
    with pytest.raises(Rejected) as caught:
        split(bytes.fromhex(head + "0000000b"), 0, 10)
    assert caught.value.reason is Reason.TOO_LARGE
