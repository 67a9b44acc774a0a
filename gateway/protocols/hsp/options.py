"""The options of a listener or link of hsp, beside those of every protocol."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from gateway.core.content import BINARY
from gateway.core.event import Kind
from gateway.core.section import Section
from gateway.core.subjects import configured_subject, is_control
from gateway.protocols.hsp.frames import ENVELOPE_TYPE
from gateway.protocols.spec import Options

_UNMAPPED = re.compile(r"hsp\.(0|[1-9][0-9]{0,4})")


def _not_the_envelopes(type_: int) -> int:
    if type_ == ENVELOPE_TYPE:
        raise ValueError(f"{ENVELOPE_TYPE} is the type of the mesh envelope")
    return type_


Type = Annotated[int, Field(ge=0, le=0xFFFF), AfterValidator(_not_the_envelopes)]
"""A message type that a configuration may name."""


class TypeMapping(Section):
    """A message type stands for a subject. A DATA, which nobody can answer, is always an event."""

    subject: str
    """The message type stands for this subject, both ways."""
    kind: Literal["event", "request"] | None = None
    """A DATA_ACK of the type is an event, or a request. Without it, it is a request only with `ack: answered`."""
    reply_type: Type | None = None
    """Answers to requests of the type are sent as a DATA of this type. Without it the acknowledgement is the answer."""
    content_type: str | None = None
    """Bodies of the type are of this content type, instead of the listener's."""

    @model_validator(mode="after")
    def _names_one_subject(self) -> Self:
        configured_subject(self.subject)
        return self


def _subject_alone(value: Any) -> Any:
    return {"subject": value} if isinstance(value, str) else value


MappedType = Annotated[TypeMapping, BeforeValidator(_subject_alone, json_schema_input_type=str | TypeMapping)]


class HspOptions(Options):
    """A listener or link of hsp takes these settings beside those that all take."""

    types: dict[Type, MappedType] = Field(default_factory=dict)
    """This names what comes without an envelope: a subject for each message type, or `{subject, kind, reply_type,
    content_type}`."""
    unmapped_type: Type = 0
    """An event whose subject has no type is sent as this one if the peer knows no envelope: its subject is lost."""
    content_type: str = BINARY
    """Bodies that come without an envelope are of this type."""
    envelope: Literal["auto", "always", "never"] = "auto"
    """The mesh envelope, which carries the subject, is used once the peer has used it (`auto`), always, or never."""
    ack: Literal["durable", "delivered", "answered"] = "durable"
    """A DATA_ACK is acknowledged when it is in the log (`durable`), when every subscriber has it (`delivered`), or when
    it is answered as a request (`answered`)."""
    error_type: int = Field(default=0xFF00, ge=0, le=0xFFFF)
    """Errors are sent to the peer as this type, unless an hsp server has given the error a type of its own."""
    deliver: Literal["ack", "plain"] = "ack"
    """Events are sent as DATA_ACK, which the peer confirms (`ack`), or as DATA, which is delivered once it is written
    (`plain`)."""
    dedup: Literal["off", "payload"] = "off"
    """A DATA_ACK of the same node, subject and body is a repeat within the replay window (`payload`), or each is an
    event (`off`). Use it for peers that send again after a lost acknowledgement."""
    redeliver_seconds: int = Field(default=0, ge=0)
    """A node that is known by its certificate is owed what it misses for so long after its session. 0 owes nothing; a
    link without this setting owes 300 s."""
    ping_seconds: float = Field(default=30, gt=0)
    """A peer that has said nothing for so long is asked whether it is there."""
    pong_timeout_seconds: float = Field(default=10, gt=0)
    """A peer that does not answer a ping within this time is gone, and its session ends."""

    @model_validator(mode="after")
    def _a_repeat_is_acknowledged(self) -> Self:
        # A repeat that is dropped reaches no subscriber, so nobody would ever confirm it and the peer would repeat on.
        if self.dedup == "payload" and self.ack == "delivered":
            raise ValueError("`dedup: payload` goes with `ack: durable` or `ack: answered`, not with `ack: delivered`")
        return self

    def subject_of(self, type_: int) -> str:
        mapped = self.types.get(type_)
        return mapped.subject if mapped else f"hsp.{type_}"

    def content_type_of(self, type_: int) -> str:
        mapped = self.types.get(type_)
        return mapped.content_type or self.content_type if mapped else self.content_type

    def kind_of(self, type_: int) -> Kind:
        """Returns the kind of a DATA_ACK."""
        mapped = self.types.get(type_)
        if mapped and mapped.kind:
            return Kind(mapped.kind)
        return Kind.REQUEST if self.ack == "answered" else Kind.EVENT

    def waits(self, type_: int) -> bool:
        """Returns True if the router's answer, and not the log, acknowledges a DATA_ACK of this type."""
        return self.ack == "delivered" or self.kind_of(type_) is Kind.REQUEST or is_control(self.subject_of(type_))

    def type_for(self, subject: str, kind: Kind = Kind.EVENT) -> int | None:
        """Returns the type that stands for a subject: for a request one of requests, and of several the lowest."""
        types = self._types_of_requests if kind is Kind.REQUEST else self._types_of_events
        mapped = types.get(_dotted(subject))
        if mapped is None and (unmapped := _UNMAPPED.fullmatch(_dotted(subject))):
            type_ = int(unmapped[1])
            # A type with a mapping stands for that subject, and would say it to the peer.
            return type_ if type_ < ENVELOPE_TYPE and type_ not in self.types else None
        return mapped

    def reply_type_for(self, subject: str) -> int | None:
        type_ = self._types_of_requests.get(_dotted(subject))
        return None if type_ is None else self.types[type_].reply_type

    @cached_property
    def _types_of_events(self) -> dict[str, int]:
        return self._types_by_subject(asks=False)

    @cached_property
    def _types_of_requests(self) -> dict[str, int]:
        return self._types_by_subject(asks=True)

    def _types_by_subject(self, *, asks: bool) -> dict[str, int]:
        best_last = sorted(self.types, key=lambda type_: ((self.kind_of(type_) is Kind.REQUEST) is asks, -type_))
        return {_dotted(self.types[type_].subject): type_ for type_ in best_last}


def _dotted(subject: str) -> str:
    return subject.replace("/", ".")
