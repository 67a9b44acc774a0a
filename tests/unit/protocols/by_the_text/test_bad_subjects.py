"""A request on a bad subject is refused at once in every protocol; the router records it, and no session keeps it."""

from __future__ import annotations

import pytest

from gateway.core.envelope import Envelope
from gateway.core.event import Kind
from gateway.core.reasons import Reason, Rejected
from gateway.protocols.actions import FramesReceived
from gateway.protocols.emp.codec import encode as encode_emp
from gateway.protocols.emp.extensions import envelope_block, request_block
from gateway.protocols.emp.frames import Message, MessageType, RequestMark
from gateway.protocols.hsp.codec import encode as encode_hsp
from gateway.protocols.hsp.frames import ENVELOPE_TYPE, Command, Frame
from gateway.protocols.session import Session
from gateway.protocols.wolpertinger.codec import encode as encode_wolpertinger
from gateway.protocols.wolpertinger.frames import Call
from gateway.protocols.wolpertinger.transmission import encode as encode_messages
from gateway.protocols.wolpertinger.transmission import pack
from gateway.protocols.yamp.codec import encode as encode_yamp
from gateway.protocols.yamp.frames import UID_BYTES, Request
from gateway.records.raw_log.frames import FrameSource, RawFrame
from tests.unit.protocols.contract.conversation import Conversation, received
from tests.unit.protocols.contract.pair import ENV, cut_frames
from tests.unit.protocols.contract.streams import examples, found, new_session

LONG = "a" * 256
"""A yamp uri cannot be as long."""
UID = bytes(UID_BYTES)


def emp(subject: str) -> bytes:
    blocks = (request_block(RequestMark(1, asks=True)), envelope_block(Envelope(Kind.REQUEST, 1, subject)))
    return encode_emp(Message(MessageType.DATA, b"body", blocks))


def hsp(subject: str) -> bytes:
    return encode_hsp(Frame(Command.DATA_ACK, 1, ENVELOPE_TYPE, Envelope(Kind.REQUEST, 1, subject).encode()))


def yamp(subject: str) -> bytes:
    return encode_yamp(Request(UID, subject, b"1", True))


def wolpertinger(subject: str) -> bytes:
    component, _, method = subject.rpartition(".")
    xml = encode_wolpertinger(Call(component, "00000000-0000-4000-8000-000000000001", method))
    return b"".join(message + b"\n" for message in encode_messages(1, pack(xml, None, compress=False)))


REQUESTS = {"emp": emp, "hsp": hsp, "yamp": yamp, "wolpertinger": wolpertinger}
BAD = [("temp.a b"), ("temp.*"), ("temp.\u0085"), (".".join("a" * 33)), LONG]


def ask(session: Session, protocol: str, subject: str) -> tuple[bytes, list[FramesReceived]]:
    """Returns what the peer is told, and what is logged, once Kafka has it."""
    talk = Conversation(session)
    talk.receives(examples(protocol).opening)
    talk.sends()
    logged = received(talk.receives(REQUESTS[protocol](subject)))
    for run in logged:
        if run.tag is not None:
            talk.logs(run.tag)
    assert talk.ended is None
    return talk.sends(), logged


@pytest.mark.parametrize("protocol", REQUESTS)
@pytest.mark.parametrize("subject", [*BAD, "a" * 255])
def test_a_request_on_a_bad_subject_is_answered_at_once_and_kept_by_nobody(protocol: str, subject: str) -> None:
    if subject == LONG and protocol == "yamp":
        return
    with found(protocol) as spec:
        session = new_session(spec)
        told, logged = ask(session, protocol, subject)
        if subject not in BAD:
            assert session.open_requests == 1
            return
        assert told
        assert session.open_requests == 0
        source = FrameSource(protocol, "plc", "edge-0", 1, 3, facts={"format": "json"})
        [frame] = [frame for run in logged for frame in cut_frames(run)]
        with pytest.raises(Rejected) as refused:
            spec.to_event(RawFrame(frame, source, 5), "0-0-0", spec.options(), ENV)
        assert refused.value.reason is Reason.BAD_SUBJECT
