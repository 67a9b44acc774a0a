"""A wolpertinger session under test, spoken to in layer-1 messages and in layer-2 messages."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

from gateway.core.event import Kind
from gateway.core.reasons import Reason
from gateway.protocols.actions import Action, FrameRefused, FramesReceived, Opened
from gateway.protocols.wolpertinger.cipher import Cipher
from gateway.protocols.wolpertinger.codec import call_id_offset
from gateway.protocols.wolpertinger.codec import decode as decode_message
from gateway.protocols.wolpertinger.codec import encode as encode_message
from gateway.protocols.wolpertinger.frames import Call, Confirmation, Message, Object, Piece
from gateway.protocols.wolpertinger.mapping import UNSTAMPED_CALL_ID
from gateway.protocols.wolpertinger.options import WolpertingerOptions
from gateway.protocols.wolpertinger.session import WolpertingerSession
from gateway.protocols.wolpertinger.transmission import decode, encode, pack, unpack
from gateway.records.raw_log.frames import ReplyAddress
from tests.unit.protocols.contract.conversation import Conversation, delivery, settings

CALL_ID = "f5afec97-5839-4666-b8d3-8c108b241720"
OTHER_CALL_ID = "00000000-0000-4000-8000-000000000001"

VECTOR_KEY = bytes(range(32))
VECTOR_IV = bytes(range(16, 32))
VECTOR_CIPHER = Cipher(VECTOR_KEY, VECTOR_IV)


def counted_token() -> Callable[[int], bytes]:
    """Returns bytes as unlike each other as random ones, and the same in every run."""
    numbers = count(1)
    return lambda size: next(numbers).to_bytes(size, "big")


def text(value: str) -> Object:
    return Object("string", value)


def call(component: str, method: str, *parameters: Object, call_id: str = CALL_ID) -> Call:
    return Call(component, call_id, method, parameters)


def line(data: bytes, message_id: int) -> bytes:
    return b"message_id:%d;" % message_id + b64encode(data) + b"\n"


CALL = call("Core", "testMethod1", text("a"))
CALL_XML = encode_message(CALL)
CALL_LINE = line(CALL_XML, 1)
HEARTBEAT = call("core", "HEARTBEAT", call_id=OTHER_CALL_ID)
UNSTAMPED = encode_message(call("Core", "testMethod1", call_id=UNSTAMPED_CALL_ID))
STAMPS = (call_id_offset(UNSTAMPED),)


class Talk(Conversation):
    """The log takes what it is given at once, unless `slow_log`."""

    session: WolpertingerSession
    slow_log = False
    used = 0

    def hears(self, *messages: bytes) -> list[bytes]:
        """Layer-1 messages come in; what goes out."""
        for message in messages:
            self.log(self.receives(message + b"\n"))
        return self.says()

    def says(self) -> list[bytes]:
        return self.sends().splitlines()

    def log(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, FramesReceived) and not self.slow_log:
                self.logs(action.tag)

    def is_told(self, *messages: Message | bytes, cipher: Cipher | None = None, compress: bool = False) -> list[Action]:
        """Layer-2 messages come in, each under an id of its own; what the session does."""
        done = []
        for message in messages:
            self.used += 1
            data = message if isinstance(message, bytes) else encode_message(message)
            for piece in encode(self.used, pack(data, cipher, compress=compress)):
                actions = self.receives(piece + b"\n")
                self.log(actions)
                done += actions
        return done

    def answers(self, cipher: Cipher | None = None) -> list[Message]:
        """The layer-2 messages that went out; each is confirmed."""
        pieces = [piece for line in self.says() if isinstance(piece := decode(line), Piece)]
        for piece in pieces:
            self.receives(b"result:0;message_id:%d;\n" % piece.message_id)
        return [decode_message(unpack(piece, cipher if piece.encrypted else None, 1 << 20)) for piece in pieces]


def talk(options: dict[str, Any] | None = None, *, opens: bool = True, **changes: Any) -> Talk:
    told = replace(settings(**changes), token=counted_token())
    conversation = Talk(WolpertingerSession(told, WolpertingerOptions.model_validate(options or {})))
    assert [type(action) for action in conversation.acts()] == ([Opened] if opens else [])
    return conversation


def confirmations(lines: list[bytes]) -> list[tuple[int, int]]:
    """(message id, result) of those among the lines."""
    found = [message for line in lines if isinstance(message := decode(line), Confirmation)]
    return [(confirmation.message_id, confirmation.result) for confirmation in found]


def received(conversation: Talk) -> list[bytes]:
    """Returns what has been given to the log."""
    return [action.data for action in conversation.said if isinstance(action, FramesReceived)]


def refused(conversation: Talk) -> list[Reason]:
    return [action.reason for action in conversation.said if isinstance(action, FrameRefused)]


def serve(conversation: Talk, reply: ReplyAddress) -> str:
    """The peer is asked; its CallId."""
    conversation.delivers(delivery(UNSTAMPED, Kind.REQUEST, stamps=STAMPS, reply=reply))
    (asked,) = conversation.answers()
    assert isinstance(asked, Call)
    return asked.call_id
