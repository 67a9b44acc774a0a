"""The published messages of emp, both ways, and cut in every way a stream can cut them."""

from __future__ import annotations

import pytest

from gateway.core.envelope import Envelope
from gateway.core.event import Kind
from gateway.core.reasons import Reason, Rejected
from gateway.protocols.emp.codec import (
    decode,
    decode_error,
    decode_hello,
    encode,
    encode_error,
    encode_hello,
    split,
)
from gateway.protocols.emp.extensions import (
    EmpContent,
    compression_block,
    deflate,
    envelope_block,
    request_block,
    understand,
)
from gateway.protocols.emp.frames import (
    BadExtension,
    Block,
    ExtensionErrorCode,
    Failure,
    Message,
    MessageType,
    RequestMark,
    Scheme,
)

LIMIT = 1_048_576

ASKS_1 = request_block(RequestMark(1, asks=True))
ANSWERS_1 = request_block(RequestMark(1, asks=False))

VECTORS = {
    "hello v1": ("0000000c 00000000 01000000", Message(MessageType.HELLO, bytes.fromhex("01000000"))),
    "bye": ("00000008 01000000", Message(MessageType.BYE)),
    "ping": ("00000008 02000000", Message(MessageType.PING)),
    "pong": ("00000008 03000000", Message(MessageType.PONG)),
    "error 3": (
        "00000012 04000000 03000000 0004 74657374",
        Message(MessageType.ERROR, bytes.fromhex("03000000000474657374")),
    ),
    "data": ("0000000b 05000000 010203", Message(MessageType.DATA, b"\x01\x02\x03")),
    "type 128": ("0000000b 80000000 010203", Message(128, b"\x01\x02\x03")),
    "request 1": (
        "0000001e 05800000 00000014 00000000 80000000 0000000000000001 6869",
        Message(MessageType.DATA, b"hi", (ASKS_1,)),
    ),
    "response 1": (
        "0000001e 05800000 00000014 00000000 00000000 0000000000000001 6f6b",
        Message(MessageType.DATA, b"ok", (ANSWERS_1,)),
    ),
    "gzip": (
        "0000002a 05800000 0000000c 01000000 01000000 1f8b0800000000000003cbc80400ac2a93d802000000",
        Message(MessageType.DATA, deflate(b"hi"), (compression_block(Scheme.GZIP),)),
    ),
    "request 1 with identity compression": (
        "0000002a 05800000 00000014 00800000 80000000 0000000000000001 0000000c 01000000 00000000 6869",
        Message(MessageType.DATA, b"hi", (ASKS_1, compression_block(Scheme.IDENTITY))),
    ),
}
each_vector = pytest.mark.parametrize(("hexdump", "message"), VECTORS.values(), ids=VECTORS)


@each_vector
def test_a_message_is_read_and_written_as_published(hexdump: str, message: Message) -> None:
    data = bytes.fromhex(hexdump)
    assert decode(data) == message
    assert encode(message) == data


@each_vector
def test_a_message_is_split_off_only_when_whole(hexdump: str, message: Message) -> None:
    data = bytes.fromhex(hexdump)
    assert [split(data[:cut], 0, LIMIT) for cut in range(len(data))] == [0] * len(data)
    assert split(data, 0, LIMIT) == len(data)
    assert split(b"\xff" + data + b"\xff", 1, LIMIT) == len(data)


def test_the_bodies_of_hello_and_error_are_read_and_written_as_published() -> None:
    assert encode_hello() == bytes.fromhex("0000000c 00000000 01000000")
    assert decode_hello(bytes.fromhex("01ffffff")) == 1
    failure = Failure(4, "test", 1, 1)
    assert encode_error(failure) == bytes.fromhex("00000012 04000000 04010100 0004 74657374")
    assert decode_error(bytes.fromhex("04010100 0004 74657374")) == failure


def test_unused_bits_are_ignored() -> None:
    assert decode(bytes.fromhex("0000001e 05ffffff 00000014 007fffff ffffffff 0000000000000001 6869")) == Message(
        MessageType.DATA, b"hi", (Block(0, bytes.fromhex("ffffffff0000000000000001")),)
    )


UNDERSTOOD = {
    "data": EmpContent(Kind.EVENT, b"\x01\x02\x03"),
    "request 1": EmpContent(Kind.REQUEST, b"hi", 1),
    "response 1": EmpContent(Kind.RESPONSE, b"ok", 1),
    "gzip": EmpContent(Kind.EVENT, b"hi", compressed=True),
    "request 1 with identity compression": EmpContent(Kind.REQUEST, b"hi", 1),
}


@pytest.mark.parametrize(("name", "content"), UNDERSTOOD.items(), ids=UNDERSTOOD)
def test_extensions_say_what_a_message_is(name: str, content: EmpContent) -> None:
    assert understand(VECTORS[name][1], LIMIT) == content


BROKEN = {
    "size 7": "00000007 05000000",
    "size past its end": "00000009 05000000",
    "type 6": "00000008 06000000",
    "type 127": "00000008 7f000000",
    "E without a block": "00000008 05800000",
    "E with half a block": "0000000f 05800000 00000007 000000",
    "request id 0": "0000001c 05800000 00000014 00000000 80000000 0000000000000000",
}


@pytest.mark.parametrize("hexdump", BROKEN.values(), ids=BROKEN)
def test_a_broken_message_is_an_error_of_the_protocol(hexdump: str) -> None:
    with pytest.raises(Rejected) as caught:
        understand(decode(bytes.fromhex(hexdump)), LIMIT)
    assert not isinstance(caught.value, BadExtension)
    assert not caught.value.can_continue


BAD_BLOCKS = {
    "block of size 7": ("00000010 05800000 00000007 00000000", 0),
    "block past the end": ("00000010 05800000 00000009 01000000", 1),
    "M on the last block": ("00000014 05800000 0000000c 01800000 00000000", 1),
    "M without another block, and a body": ("00000016 05800000 0000000c 01800000 00000000 6869", 1),
    "the second of two, which is undone first": (
        "0000001c 05800000 0000000c 01800000 02000000 00000008 ff000000",
        255,
    ),
    "unknown extension": ("00000010 05800000 00000008 02000000", 2),
    "scheme 2": ("00000014 05800000 0000000c 01000000 02000000", 1),
    "request-response block of 19": ("0000001b 05800000 00000013 00000000 80000000 00000000000000", 0),
    "request-response block of 21": ("0000001d 05800000 00000015 00000000 80000000 000000000000000100", 0),
    "compression block of 11": ("00000013 05800000 0000000b 01000000 000000", 1),
    "two request-response blocks": (
        "00000030 05800000 00000014 00800000 80000000 0000000000000001 00000014 00000000 80000000 0000000000000001",
        0,
    ),
    "a body that is no gzip": ("00000016 05800000 0000000c 01000000 01000000 6869", 1),
    "a gzip body that is cut": ("00000020 05800000 0000000c 01000000 01000000 1f8b0800000000000003cbc8", 1),
    "an extension on ping": ("0000001c 02800000 00000014 00000000 80000000 0000000000000001", 0),
    "an envelope of version 2": ("00000020 05800000 00000018 80000000 02000000 0000000000000000 00000000", 128),
}


@pytest.mark.parametrize(("hexdump", "extension"), BAD_BLOCKS.values(), ids=BAD_BLOCKS)
def test_a_bad_block_is_an_error_of_its_extension(hexdump: str, extension: int) -> None:
    with pytest.raises(BadExtension) as caught:
        understand(decode(bytes.fromhex(hexdump)), LIMIT)
    assert caught.value.extension == extension
    assert not caught.value.can_continue


@pytest.mark.parametrize("size", [0, 7])
def test_a_block_that_is_no_block_is_not_asked_what_it_means(size: int) -> None:
    with pytest.raises(BadExtension) as caught:
        decode(bytes.fromhex(f"00000010 05800000 {size:08x} ff000000"))
    assert (caught.value.extension, caught.value.code) == (255, ExtensionErrorCode.BROKEN_BLOCK)


def test_a_message_has_one_block_of_each_extension_and_no_more() -> None:
    blocks = (ASKS_1, compression_block(Scheme.IDENTITY))
    envelope = envelope_block(Envelope(Kind.REQUEST, 1, "s"))
    assert understand(decode(encode(Message(MessageType.DATA, b"hi", (envelope, *blocks)))), LIMIT).body == b"hi"
    one_more = encode(Message(MessageType.DATA, b"hi", (envelope, *blocks, compression_block(Scheme.GZIP))))
    with pytest.raises(BadExtension) as caught:
        decode(one_more)
    assert caught.value.extension == 1


@pytest.mark.parametrize("second", Scheme)
def test_a_body_may_not_be_compressed_twice(second: Scheme) -> None:
    blocks = (compression_block(second), compression_block(Scheme.GZIP))
    with pytest.raises(BadExtension) as caught:
        understand(Message(MessageType.DATA, deflate(deflate(b"hi")), blocks), LIMIT)
    assert (caught.value.extension, caught.value.code) == (1, ExtensionErrorCode.BROKEN_BLOCK)


def test_a_body_may_be_of_several_gzip_members_but_not_of_many() -> None:
    block = (compression_block(Scheme.GZIP),)
    assert understand(Message(MessageType.DATA, deflate(b"a") * 16, block), LIMIT).body == b"a" * 16
    too_many = Message(MessageType.DATA, deflate(b"a") * 17, block)
    with pytest.raises(BadExtension) as caught:
        understand(too_many, LIMIT)
    assert (caught.value.reason, caught.value.code) == (Reason.MALFORMED, ExtensionErrorCode.BAD_BODY)


def test_decompression_stops_at_its_limit() -> None:
    block = (compression_block(Scheme.GZIP),)
    assert len(understand(Message(MessageType.DATA, deflate(bytes(1000)), block), 1000).body) == 1000
    bomb = Message(MessageType.DATA, deflate(bytes(1001)), block)
    with pytest.raises(BadExtension) as caught:
        understand(bomb, 1000)
    assert caught.value.reason is Reason.BOMB
