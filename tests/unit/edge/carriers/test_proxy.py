"""The PROXY protocol, version 2, byte by byte."""

from __future__ import annotations

import pytest

from gateway.core.reasons import Reason
from gateway.edge.carriers.proxy import HEAD_BYTES, MAX_REST_BYTES, rest_length, source
from tests.refusals import reason_of

SIGNATURE = bytes.fromhex("0d0a0d0a000d0a515549540a")
V4 = bytes.fromhex("c0000201 c6336402 d431 13b2")  # 192.0.2.1:54321 to 198.51.100.2:5042
V6 = bytes.fromhex("20010db8000000000000000000000001 20010db8000000000000000000000002 d431 13b2")


def header(command: int, family: int, rest: bytes) -> tuple[bytes, bytes]:
    return SIGNATURE + bytes([command, family]) + len(rest).to_bytes(2, "big"), rest


@pytest.mark.parametrize(
    ("command", "family", "rest", "peer"),
    [
        (0x21, 0x11, V4, "192.0.2.1:54321"),
        (0x21, 0x21, V6, "[2001:db8::1]:54321"),
        (0x21, 0x11, V4 + bytes.fromhex("03 0004 00000000"), "192.0.2.1:54321"),  # a TLV is passed over
        (0x20, 0x00, b"", None),  # a health check
        (0x20, 0x11, V4, None),  # LOCAL: addresses are to be ignored
        (0x21, 0x00, b"", None),  # the balancer does not know
    ],
)
def test_a_header_names_the_peer(command: int, family: int, rest: bytes, peer: str | None) -> None:
    head, rest = header(command, family, rest)
    assert len(head) == HEAD_BYTES
    assert rest_length(head) == len(rest)
    assert source(head, rest) == peer


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"PROXY TCP4 192.0", Reason.UNSUPPORTED_VERSION),  # version 1
        (b"GET / HTTP/1.1\r\n", Reason.MALFORMED),
        (SIGNATURE + bytes.fromhex("31 11 000c"), Reason.UNSUPPORTED_VERSION),  # version 3
        (SIGNATURE + bytes.fromhex("22 11 000c"), Reason.UNSUPPORTED_VERSION),  # an unknown command
        (SIGNATURE + bytes.fromhex("21 11") + (MAX_REST_BYTES + 1).to_bytes(2, "big"), Reason.TOO_LARGE),
    ],
)
def test_what_is_no_header_of_version_2_is_refused(head: bytes, reason: Reason) -> None:
    assert reason_of(rest_length, head) is reason


def test_the_longest_header_is_taken() -> None:
    assert rest_length(SIGNATURE + bytes.fromhex("21 11") + MAX_REST_BYTES.to_bytes(2, "big")) == MAX_REST_BYTES


@pytest.mark.parametrize(
    ("family", "rest", "reason"),
    [
        (0x12, V4, Reason.MALFORMED),  # UDP
        (0x31, bytes(216), Reason.MALFORMED),  # a Unix socket
        (0x11, V4[:-1], Reason.TRUNCATED),
        (0x21, V4, Reason.TRUNCATED),
    ],
)
def test_addresses_that_are_no_tcp_or_too_short_are_refused(family: int, rest: bytes, reason: Reason) -> None:
    head, rest = header(0x21, family, rest)
    assert reason_of(source, head, rest) is reason
