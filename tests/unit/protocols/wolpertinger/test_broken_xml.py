"""Layer-2 messages that cannot be validated: logged, confirmed, and answered with a RemoteError."""

from __future__ import annotations

import pytest

from gateway.protocols.actions import FramesReceived
from gateway.protocols.wolpertinger.codec import encode
from gateway.protocols.wolpertinger.frames import RemoteError
from tests.unit.protocols.contract.conversation import only
from tests.unit.protocols.wolpertinger.talk import CALL, CALL_ID, Talk, talk

BROKEN = [
    (b"hello", RemoteError("Core", 301)),
    (b"<Hello/>", RemoteError("Core", 302)),
    (encode(CALL).replace(b"MethodName", b"Method"), RemoteError("Core", 301, CALL_ID)),
    (encode(CALL).replace(b'"string"', b'"int32"'), RemoteError("Core", 305, CALL_ID)),
    (encode(RemoteError("Files", 500)).replace(b"500", b"many"), RemoteError("Files", 301)),
]


@pytest.mark.parametrize(("data", "error"), BROKEN)
def test_broken_xml_is_logged_and_answered_once_the_log_has_it(data: bytes, error: RemoteError) -> None:
    conversation = talk()
    conversation.slow_log = True
    logged = only(FramesReceived, conversation.is_told(data))
    assert logged.data == data
    assert conversation.says() == []
    conversation.logs(logged.tag)
    assert conversation.answers() == [error]
    conversation.waits(100.0)
    assert conversation.answers() == []
    assert conversation.ended is None


def test_the_confirmation_goes_before_the_error(conversation: Talk) -> None:
    assert [line.split(b";")[0] for line in conversation.hears(b"message_id:7;aGVsbG8=")] == [
        b"result:0",
        b"message_id:1",
    ]
