"""Extension blocks in the session: which the peer uses, and what a bad one comes to."""

from __future__ import annotations

import pytest

from gateway.core.event import Kind
from gateway.core.reasons import Reason
from gateway.protocols.actions import FramesReceived, Opened
from gateway.protocols.emp.extensions import compression_block, deflate
from gateway.protocols.emp.frames import Scheme
from tests.unit.protocols.contract.conversation import Conversation, only, received
from tests.unit.protocols.emp.talk import GZIP, HELLO, data, emp, envelope, failure, greeting


class TestFacts:
    def test_what_the_peer_uses_first_is_told_once(self, talk: Conversation) -> None:
        assert only(Opened, talk.receives(data(b"x", envelope(Kind.EVENT)) * 2)).facts == {"envelope": True}
        both = data(deflate(b"x"), envelope(Kind.EVENT), GZIP)
        assert only(Opened, talk.receives(both)).facts == {"envelope": True, "compression": True}
        assert [type(action) for action in talk.receives(both + data())] == [FramesReceived]

    def test_the_envelope_is_a_fact_from_the_start_where_the_listener_says_so(self) -> None:
        assert greeting({"envelope": "always"}).receives(HELLO) == [Opened({"envelope": True})]

    def test_identity_is_no_compression(self) -> None:
        actions = emp().receives(data(b"x", compression_block(Scheme.IDENTITY)))
        assert [type(action) for action in actions] == [FramesReceived]


MARK = "00000014 00{}0000 80000000 0000000000000001"

BAD_EXTENSIONS = {
    "block of size 7": ("00000010 05800000 00000007 00000000", 0, 2, Reason.MALFORMED),
    "block past the end": ("00000010 05800000 00000009 01000000", 1, 2, Reason.MALFORMED),
    "M on the last block": ("0000001c 05800000" + MARK.format("80"), 0, 2, Reason.MALFORMED),
    "extension 2": ("00000010 05800000 00000008 02000000", 2, 1, Reason.UNKNOWN_TYPE),
    "extension 255": ("00000010 80800000 00000008 ff000000", 255, 1, Reason.UNKNOWN_TYPE),
    "scheme 2": ("00000014 05800000 0000000c 01000000 02000000", 1, 1, Reason.UNKNOWN_TYPE),
    "no gzip": ("00000016 05800000 0000000c 01000000 01000000 6869", 1, 3, Reason.MALFORMED),
    "a block on ping": ("0000001c 02800000" + MARK.format("00"), 0, 2, Reason.MALFORMED),
    "a broken envelope": (
        "00000020 05800000 00000018 80000000 02000000 0000000000000000 00000000",
        128,
        2,
        Reason.UNSUPPORTED_VERSION,
    ),
}


@pytest.mark.parametrize(("hexdump", "extension", "code", "reason"), BAD_EXTENSIONS.values(), ids=BAD_EXTENSIONS)
def test_a_bad_block_is_told_with_its_extension_and_ends_the_session(
    hexdump: str, extension: int, code: int, reason: Reason
) -> None:
    talk = emp()
    talk.receives(bytes.fromhex(hexdump))
    said = failure(talk)
    assert (said.code, said.extension, said.extension_code) == (4, extension, code)
    assert talk.ended == reason


def test_a_bomb_is_told_and_ends_the_session() -> None:
    talk = emp({"uncompressed_bytes": 1000})
    assert received(talk.receives(data(deflate(bytes(1000)), GZIP))) != []
    talk.receives(data(deflate(bytes(1001)), GZIP))
    assert failure(talk).extension == 1
    assert talk.ended == Reason.BOMB
