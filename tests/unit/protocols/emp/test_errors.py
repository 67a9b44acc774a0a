"""Errors of the protocol: what breaks it is told in an error message."""

from __future__ import annotations

import pytest

from gateway.core.reasons import Reason
from gateway.protocols.actions import FramesReceived
from tests.unit.protocols.contract.conversation import only
from tests.unit.protocols.emp.talk import data, emp, failure

MALFORMED = {
    "size 7": ("00000007", 3, Reason.MALFORMED),
    "size 0": ("00000000", 3, Reason.MALFORMED),
    "type 6": ("00000008 06000000", 3, Reason.UNKNOWN_TYPE),
    "type 127": ("00000008 7f000000", 3, Reason.UNKNOWN_TYPE),
    "a second hello": ("0000000c 00000000 01000000", 3, Reason.MALFORMED),
    "an error that is cut": ("0000000b 04000000 030000", 3, Reason.TRUNCATED),
    "an error whose text is cut": ("00000010 04000000 03000000 0004 7465", 3, Reason.TRUNCATED),
    "an error with more than its text": ("00000010 04000000 03000000 0001 7465", 3, Reason.MALFORMED),
    "an error that is not UTF-8": ("0000000f 04000000 03000000 0001 ff", 3, Reason.BAD_ENCODING),
    "E without a block": ("00000008 05800000", 3, Reason.MALFORMED),
    "request id 0": ("0000001c 05800000 00000014 00000000 80000000 0000000000000000", 3, Reason.MALFORMED),
}


@pytest.mark.parametrize(("hexdump", "code", "reason"), MALFORMED.values(), ids=MALFORMED)
def test_what_breaks_the_protocol_is_told_and_ends_the_session(hexdump: str, code: int, reason: Reason) -> None:
    talk = emp()
    talk.receives(bytes.fromhex(hexdump))
    said = failure(talk)
    assert (said.code, said.extension, said.extension_code) == (code, 0, 0)
    assert talk.ended == reason


@pytest.mark.parametrize("size", [1025, 0xFFFFFFFF])
def test_a_size_over_the_limit_is_told_as_soon_as_it_is_read(size: int) -> None:
    talk = emp(frame_bytes=1024)
    talk.receives(size.to_bytes(4, "big"))
    assert failure(talk).code == 3
    assert talk.ended == Reason.TOO_LARGE


def test_a_message_at_the_limit_is_taken() -> None:
    assert only(FramesReceived, emp(frame_bytes=1024).receives(data(bytes(1016)))).lengths == (1024,)
