"""A bad peer: each of its tricks has its right answer or its right silence, is counted, and holds little memory."""

from __future__ import annotations

import gzip
import tracemalloc
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gateway.auth.keyring import KeyRing
from gateway.core.reasons import Reason, Rejected
from gateway.protocols.actions import FramesReceived
from gateway.protocols.spec import CodecContext
from gateway.protocols.wolpertinger import receipts
from gateway.protocols.wolpertinger.codec import encode
from gateway.protocols.wolpertinger.fragments import EXPIRY_SECONDS, MAX_OPEN_SETS, OPEN_WHOLES
from gateway.protocols.wolpertinger.frames import LINE_BYTES, WHOLE_BYTES, RemoteError
from gateway.protocols.wolpertinger.layer_one import BEFORE_LOGIN_BYTES
from gateway.protocols.wolpertinger.mapping import to_event
from gateway.protocols.wolpertinger.options import WolpertingerOptions
from gateway.protocols.wolpertinger.transmission import MAX_TAGS
from tests.unit.protocols.contract.conversation import raw
from tests.unit.protocols.wolpertinger.talk import (
    CALL_LINE,
    CALL_XML,
    VECTOR_CIPHER,
    Talk,
    call,
    confirmations,
    received,
    refused,
    talk,
)

CALL = encode(call("Core", "testMethod1"))
MIB = 1 << 20


def sealed(data: bytes, metadata: bytes = b"") -> bytes:
    """Returns a line of bytes that are encrypted already."""
    return b"message_id:7;encryption:aes;" + metadata + b64encode(data)


def zipped(data: bytes, length: int) -> bytes:
    return b"message_id:7;gzip:%d;" % length + b64encode(data)


def xml(text: str) -> bytes:
    data = gzip.compress(text.encode())
    return zipped(data, len(data))


def entity(declaration: str) -> bytes:
    return xml(f"<!DOCTYPE x [{declaration}]>" + CALL.decode().replace("Core", "&l9;"))


ZIPPED = gzip.compress(CALL)
LAUGHS = '<!ENTITY l0 "ha">' + "".join(f'<!ENTITY l{n + 1} "{f"&l{n};" * 10}">' for n in range(9))

LAYER_ONE = [
    pytest.param(sealed(VECTOR_CIPHER.encrypt(CALL)[:-16]), 4, Reason.BAD_CIPHERTEXT, id="wrong padding"),
    pytest.param(sealed(b"not a block"), 4, Reason.BAD_CIPHERTEXT, id="no block"),
    pytest.param(zipped(ZIPPED, len(ZIPPED) + 1), 5, Reason.MALFORMED, id="a gzip length that lies"),
    pytest.param(zipped(CALL, len(CALL)), 5, Reason.MALFORMED, id="no gzip"),
    pytest.param(zipped(bomb := gzip.compress(bytes(40 * MIB)), len(bomb)), 5, Reason.BOMB, id="a bomb of gzip"),
    pytest.param(xml("<a>" * 100_000 + "</a>" * 100_000), 5, Reason.BOMB, id="deep nesting"),
    pytest.param(xml(f"<Hello>{'<b/>' * (MAX_TAGS - 1)}</Hello>"), 5, Reason.BOMB, id="too many tags"),
    pytest.param(b"message_id:7;gzip:3;not base64", 5, Reason.BAD_ENCODING, id="not base64"),
    pytest.param(b"message_id:7;fragment_count:4000000000;fragment_index:1;AAAA", 3, Reason.MALFORMED, id="a count"),
    pytest.param(b"message_id:7;" + b"A" * LINE_BYTES, 3, Reason.TOO_LARGE, id="a long line"),
]

LAYER_TWO = [
    pytest.param(entity(LAUGHS), 301, id="an entity bomb"),
    pytest.param(entity('<!ENTITY l9 SYSTEM "file:///etc/hostname">'), 301, id="an external entity"),
    pytest.param(entity('<!ENTITY % l SYSTEM "http://127.0.0.1:9/">%l;'), 301, id="an external parameter entity"),
    pytest.param(xml("<a>" * 5_000 + "</a>" * 5_000), 301, id="deep nesting"),
    pytest.param(xml(f'<RemoteError a="{"x" * 900_000}"/>'), 301, id="a huge attribute"),
    pytest.param(xml("<Hello" + "".join(f' a{n}="x"' for n in range(15_000)) + "/>"), 302, id="many attributes"),
    pytest.param(xml(f"<Hello>{'<b/>' * (MAX_TAGS - 2)}</Hello>"), 302, id="as many tags as there may be"),
]


@contextmanager
def holding_at_most(limit_bytes: int) -> Iterator[None]:
    """What Python holds while this runs; libxml2's own is 40 times the document's at worst, and is given back."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < limit_bytes


@pytest.mark.parametrize(("line", "result", "reason"), LAYER_ONE)
def test_what_layer_1_can_tell_is_answered_with_its_result_and_counted(
    line: bytes, result: int, reason: Reason
) -> None:
    conversation = talk()
    conversation.session.cipher = VECTOR_CIPHER
    with holding_at_most(5 * MIB):
        assert confirmations(conversation.hears(line)) == [(7, result)]
    assert refused(conversation) == [reason]
    assert conversation.ended is None


@pytest.mark.parametrize(("line", "code"), LAYER_TWO)
def test_what_layer_2_can_tell_is_answered_with_its_code_and_rejected_by_the_stream(line: bytes, code: int) -> None:
    conversation = talk()
    with holding_at_most(5 * MIB):
        conversation.log(conversation.receives(line + b"\n"))
    assert conversation.answers() == [RemoteError("Core", code)]
    (logged,) = [action for action in conversation.said if isinstance(action, FramesReceived)]
    frame = raw(logged.data, "wolpertinger")
    with pytest.raises(Rejected) as raised:
        to_event(frame, "0-0-0", WolpertingerOptions(), CodecContext(KeyRing()))
    assert raised.value.reason is Reason.BAD_XML
    assert conversation.ended is None


def test_ten_thousand_open_sets_hold_no_more_than_their_bound(conversation: Talk) -> None:
    head = b"message_id:%d;fragment_count:1024;fragment_index:0;"
    with holding_at_most(OPEN_WHOLES * WHOLE_BYTES + 4 * MIB):
        for message_id in range(1, 10_001):
            conversation.receives(head % message_id + b"A" * 60_000 + b"\n")
            conversation.sends()
            conversation.said.clear()
    assert len(conversation.session._fragments._sets) <= MAX_OPEN_SETS


def test_ten_thousand_open_sets_are_refused_beyond_the_bound_and_harm_no_message(conversation: Talk) -> None:
    opened = 10_000
    lines = [b"message_id:%d;fragment_count:2;fragment_index:0;aGVs" % n for n in range(2, opened + 2)]
    said = confirmations(conversation.hears(*lines))
    assert said == [(n, 3) for n in range(2 + MAX_OPEN_SETS, opened + 2)]
    assert refused(conversation) == [Reason.OVERLOAD] * (opened - MAX_OPEN_SETS)
    conversation.hears(CALL_LINE[:-1], b"message_id:2;fragment_count:2;fragment_index:1;bG8=")
    assert received(conversation) == [CALL_XML, b"hello"]


def test_pieces_that_hold_nothing_hold_no_more_than_their_bound(conversation: Talk) -> None:
    with holding_at_most(OPEN_WHOLES * WHOLE_BYTES + 4 * MIB):
        for index in range(540):
            lines = [b"message_id:%d;fragment_count:1024;fragment_index:%d;" % (n, index) for n in range(1, 65)]
            conversation.receives(b"\n".join(lines) + b"\n")
            conversation.sends()
    assert Reason.OVERLOAD in refused(conversation)


def test_a_peer_that_confirms_no_error_makes_us_hold_no_more_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts, "MAX_UNCONFIRMED_BYTES", MIB // 4)
    conversation = talk({"require_trust": 1}, opens=False, handshake_seconds=1e9)
    untrusted = encode(call("C" * 250, "m"))
    with holding_at_most(MIB):
        for _ in range(600):
            conversation.is_told(untrusted)
            conversation.sends()
            conversation.said.clear()
    assert conversation.session._unconfirmed.full


def test_a_line_that_never_ends_is_not_kept(conversation: Talk) -> None:
    with holding_at_most(MIB):
        for _ in range(100):
            conversation.receives(b"A" * 10_000)
    assert conversation.ended is None


def test_fragments_that_never_end_expire_and_are_counted(conversation: Talk) -> None:
    conversation.hears(b"message_id:8;fragment_count:3;fragment_index:0;aGVs")
    conversation.waits(EXPIRY_SECONDS - 0.1)
    assert refused(conversation) == []
    conversation.waits(0.1)
    assert refused(conversation) == [Reason.TIMEOUT]


def test_a_bomb_is_refused_with_its_result() -> None:
    conversation = talk({"decompressed_bytes": 1000})
    bomb = gzip.compress(bytes(1001))
    said = conversation.hears(b"message_id:5;gzip:%d;" % len(bomb) + b64encode(bomb))
    assert confirmations(said) == [(5, 5)]
    assert refused(conversation) == [Reason.BOMB]


UNDECRYPTABLE = [
    pytest.param(sealed(VECTOR_CIPHER.encrypt(CALL)[:-16]), id="wrong padding"),
    pytest.param(sealed(b"not a block"), id="no block"),
    pytest.param(sealed(VECTOR_CIPHER.encrypt(CALL), b"gzip:7;"), id="a gzip length that lies"),
    pytest.param(sealed(VECTOR_CIPHER.encrypt(CALL), b"gzip:%d;" % len(CALL)), id="no gzip"),
]


@pytest.mark.parametrize("line", UNDECRYPTABLE)
def test_encrypted_messages_that_do_not_unpack_are_not_told_apart_and_the_fifth_ends_the_session(line: bytes) -> None:
    conversation = talk()
    conversation.session.cipher = VECTOR_CIPHER
    lines = [line.replace(b"message_id:7;", b"message_id:%d;" % number) for number in range(1, 6)]
    assert conversation.hears(*lines[:4]) == [b"result:4;message_id:%d;" % number for number in range(1, 5)]
    assert refused(conversation) == [Reason.BAD_CIPHERTEXT] * 4
    assert conversation.ended is None
    assert conversation.hears(lines[4]) == [b"result:4;message_id:5;"]
    assert conversation.ended == Reason.BAD_CIPHERTEXT


@pytest.mark.parametrize(("over", "results"), [(0, [(7, 0)]), (1, [(7, 5)])])
def test_a_peer_that_has_not_logged_in_may_not_send_much_in_a_small_gzip(over: int, results: list[object]) -> None:
    conversation = talk({"require_trust": 1}, opens=False)
    padding = BEFORE_LOGIN_BYTES - len(CALL) + over
    data = gzip.compress(CALL + b" " * padding)
    assert confirmations(conversation.hears(zipped(data, len(data))))[:1] == results
