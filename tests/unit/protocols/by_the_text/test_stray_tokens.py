"""A token that a peer sends on `mesh.login` in anything but a request is refused, and no log ever holds it."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.envelope import Envelope
from gateway.core.event import Kind
from gateway.core.reasons import Reason
from gateway.protocols.actions import FrameRefused
from gateway.protocols.emp.codec import encode as encode_emp
from gateway.protocols.emp.extensions import envelope_block, request_block
from gateway.protocols.emp.frames import Message, MessageType, RequestMark
from gateway.protocols.hsp.codec import encode as encode_hsp
from gateway.protocols.hsp.frames import ENVELOPE_TYPE, Command, Frame
from gateway.protocols.yamp.codec import encode as encode_yamp
from gateway.protocols.yamp.frames import UserEvent
from tests.unit.protocols.contract.conversation import Conversation, received
from tests.unit.protocols.contract.streams import examples, found, new_session

TOKEN = b"eyJhbGciOiJFZERTQSJ9"
UID = bytes(16)


def emp(kind: Kind, subject: str, type_: int = MessageType.DATA, body: bytes = TOKEN) -> bytes:
    return encode_emp(Message(type_, body, (envelope_block(Envelope(kind, kind is not Kind.EVENT, subject)),)))


def hsp(command: Command, kind: Kind, subject: str) -> bytes:
    envelope = Envelope(kind, kind is not Kind.EVENT, subject)
    return encode_hsp(Frame(command, 1, ENVELOPE_TYPE, envelope.encode() + TOKEN))


EMP_REQUEST = request_block(RequestMark(1, asks=True)), envelope_block(Envelope(Kind.REQUEST, 1, "temp"))
EMP_CANCEL = envelope_block(Envelope(Kind.CANCEL, 1, "mesh.login"))
ASKED_AND_CANCELLED = Message(MessageType.DATA, b"", EMP_REQUEST), Message(128, TOKEN, (EMP_CANCEL,))
TYPED: dict[str, dict[str, Any]] = {"emp": {"subjects": {"data": "mesh.login"}}, "hsp": {"types": {17: "mesh.login"}}}
STRAY: list[tuple[str, dict[str, Any], bytes]] = [
    ("emp", {}, emp(Kind.EVENT, "mesh.login")),
    ("emp", {}, emp(Kind.EVENT, "mesh/Login", 200)),
    ("emp", {}, emp(Kind.EVENT, "temp", body=b"1") + emp(Kind.EVENT, "mesh.login")),
    ("emp", TYPED["emp"], encode_emp(Message(MessageType.DATA, TOKEN))),
    ("emp", {}, b"".join(map(encode_emp, ASKED_AND_CANCELLED))),
    ("hsp", {}, hsp(Command.DATA, Kind.EVENT, "mesh.login")),
    ("hsp", {}, hsp(Command.DATA, Kind.EVENT, "MESH/login")),
    ("hsp", {}, hsp(Command.DATA, Kind.REQUEST, "mesh.login")),
    ("hsp", {}, hsp(Command.DATA, Kind.CANCEL, "mesh.login")),
    ("hsp", {}, hsp(Command.DATA_ACK, Kind.CANCEL, "mesh.login")),
    ("hsp", {"envelope": "always"}, hsp(Command.DATA, Kind.EVENT, "mesh.login")),
    ("hsp", TYPED["hsp"], encode_hsp(Frame(Command.DATA, 0, 17, TOKEN))),
    ("yamp", {}, encode_yamp(UserEvent(UID, "mesh.login", b'"' + TOKEN + b'"'))),
    ("yamp", {}, encode_yamp(UserEvent(UID, "Mesh/login", b'"' + TOKEN + b'"'))),
]  # fmt: skip


@pytest.mark.parametrize("dialled", [False, True])
@pytest.mark.parametrize(("protocol", "options", "stray"), STRAY)
def test_a_stray_token_is_counted_and_not_logged(
    protocol: str, options: dict[str, Any], stray: bytes, *, dialled: bool
) -> None:
    with found(protocol) as spec:
        session = new_session(spec, options, dialled=dialled)
        talk = Conversation(session)
        if dialled and protocol == "yamp":
            talk.receives(talk.sends())
        else:
            talk.receives(examples(protocol).opening)
        actions = talk.receives(stray)
        assert not any(TOKEN in run.data for run in received(actions))
        [refused] = [action for action in actions if isinstance(action, FrameRefused)]
        assert refused.reason is Reason.FORBIDDEN
        assert talk.ended is None
