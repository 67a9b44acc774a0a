"""A requester that speaks json and a server that speaks msgpack, each behind its own session, and the mesh between."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any

from gateway.auth.keyring import KeyRing
from gateway.core.content import JSON, from_json
from gateway.core.event import Event, Kind
from gateway.protocols.actions import Delivery, FramesReceived, Opened
from gateway.protocols.session_settings import SessionSettings
from gateway.protocols.spec import CodecContext, Target
from gateway.protocols.yamp import PROTOCOL
from gateway.protocols.yamp.options import YampOptions
from gateway.protocols.yamp.session import YampSession
from gateway.records.raw_log.frames import Facts, FrameSource, RawFrame, ReplyAddress
from tests.unit.protocols.contract.conversation import token

ENV = CodecContext(KeyRing())
NUMBERS = count(1)


@dataclass
class Side:
    """One end of a connection, and what it makes of what it hears. It says by `from_event` and hears by `to_event`."""

    session: YampSession
    facts: Facts = field(default_factory=dict)
    heard: list[Event] = field(default_factory=list)

    def says(self, kind: Kind, value: bytes = b"", reply: ReplyAddress | None = None, **to: Any) -> None:
        headers = to.pop("headers", {})
        event_id = f"0-{next(NUMBERS)}-0"
        said = Event(event_id, kind, "slow", "yamp", "", "", "", "", "", 1, "", "", JSON, value, headers)
        self.passes_on(said, reply, Target("yamp", "", self.facts, **to))

    def passes_on(self, event: Event, reply: ReplyAddress | None, target: Target) -> None:
        encoded = PROTOCOL.from_event(event, target, YampOptions(), ENV)
        to_send = Delivery(event.id, event.kind, event.subject, encoded.frame, encoded.stamps, reply, target.request)
        self.session.deliver(to_send, 0.0)

    def hears(self) -> None:
        for action in self.session.actions():
            if isinstance(action, Opened):
                self.facts = action.facts
            if isinstance(action, FramesReceived):
                source = FrameSource("yamp", "", "edge-0", 1, 1, facts=self.facts)
                raw = RawFrame(action.data, source, 1, action.replies)
                self.heard.append(PROTOCOL.to_event(raw, f"1-{next(NUMBERS)}-0", YampOptions(), ENV))

    @property
    def last(self) -> Event:
        return self.heard[-1]


def side(format_: str, *, dialled: bool) -> Side:
    options = YampOptions.model_validate({"formats": [format_]})
    made = Side(YampSession(SessionSettings(token=token, dialled=dialled), options))
    made.session.start(0.0)
    return made


def exchange(one: Side, other: Side) -> None:
    """Until neither has anything more to say."""
    quiet = False
    while not quiet:
        quiet = True
        for hearer, speaker in ((one, other), (other, one)):
            said = b"".join(speaker.session.data_to_send())
            hearer.session.receive(said, 0.0)
            hearer.hears()
            quiet = quiet and not said


class Mesh:
    """What the router does with a request and its answers, by hand: one requester, one server."""

    def __init__(self) -> None:
        self.client, self.at_client = side("json", dialled=True), side("json", dialled=False)
        self.server, self.at_server = side("msgpack", dialled=True), side("msgpack", dialled=False)
        self.settle()

    def settle(self) -> None:
        exchange(self.client, self.at_client)
        exchange(self.server, self.at_server)

    def carries(self, asked: Event) -> None:
        """A request or a cancel, from the requester's edge to the server's."""
        request = asked.message_id if asked.kind is Kind.REQUEST else asked.correlation
        reply = ReplyAddress("yamp", "", "edge-0", 1, 1, request, asked.subject)
        self.at_server.passes_on(asked, reply, Target("yamp", "", self.at_server.facts))
        self.settle()

    def carries_back(self) -> None:
        """What the server said last."""
        answered = self.at_server.last
        target = Target("yamp", "", self.at_client.facts, request=self.at_client.heard[0].message_id)
        self.at_client.passes_on(answered, None, target)
        self.settle()


MINE = ReplyAddress("yamp", "", "me", 0, 0, "1")


def test_a_request_is_answered_across_formats() -> None:
    mesh = Mesh()
    mesh.client.says(Kind.REQUEST, b"[1,2,3]", MINE)
    mesh.settle()
    mesh.carries(mesh.at_client.last)
    asked = mesh.server.last
    assert (asked.kind, asked.subject, asked.body) == (Kind.REQUEST, "slow", b"\x93\x01\x02\x03")
    mesh.server.says(Kind.PROGRESS, b"50", request=asked.message_id)
    mesh.settle()
    mesh.carries_back()
    mesh.server.says(Kind.RESPONSE, b'{"sum":6}', request=asked.message_id)
    mesh.settle()
    mesh.carries_back()
    assert [(one.kind, from_json(one.body)) for one in mesh.client.heard] == [
        (Kind.PROGRESS, 50),
        (Kind.RESPONSE, {"sum": 6}),
    ]


def test_a_cancel_reaches_the_server_under_the_uid_it_knows() -> None:
    mesh = Mesh()
    mesh.client.says(Kind.REQUEST, b"1", MINE)
    mesh.settle()
    mesh.carries(mesh.at_client.last)
    asked = mesh.server.last
    mesh.client.says(Kind.CANCEL, reply=MINE)
    mesh.settle()
    mesh.carries(mesh.at_client.last)
    assert (mesh.server.last.kind, mesh.server.last.correlation) == (Kind.CANCEL, asked.message_id)
    mesh.server.says(Kind.CANCELLED, request=asked.message_id)
    mesh.settle()
    mesh.carries_back()
    assert mesh.client.last.kind is Kind.CANCELLED


def test_a_kill_reaches_the_server_and_nothing_comes_back() -> None:
    mesh = Mesh()
    mesh.client.says(Kind.REQUEST, b"1", MINE)
    mesh.settle()
    mesh.carries(mesh.at_client.last)
    mesh.client.says(Kind.CANCEL, reply=MINE, headers={"kill": "true"})
    mesh.settle()
    mesh.carries(mesh.at_client.last)
    assert mesh.server.last.headers == {"kill": "true"}
    mesh.server.says(Kind.RESPONSE, b"6", request=mesh.server.heard[0].message_id)
    mesh.settle()
    assert mesh.at_server.heard == []
    assert mesh.client.heard == []
