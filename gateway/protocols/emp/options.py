"""The options of a listener or link of emp, beside those of every protocol."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from gateway.core.content import BINARY
from gateway.core.subjects import configured_subject, is_login
from gateway.protocols.emp.frames import FIRST_APPLICATION_TYPE, MessageType, carries_data
from gateway.protocols.spec import Options

ApplicationType = Annotated[int, Field(ge=FIRST_APPLICATION_TYPE, le=255)]


class EmpOptions(Options):
    """A listener or link of emp takes these settings beside those that all take."""

    subjects: dict[Literal["data"] | ApplicationType, Annotated[str, AfterValidator(configured_subject)]] = Field(
        default_factory=dict
    )
    """This names what comes without an envelope: a subject for each message type, `data` or a number."""
    content_type: str = BINARY
    """Bodies that come without an envelope are of this type."""
    envelope: Literal["auto", "always", "never"] = "auto"
    """The mesh envelope, which carries the subject, is used once the peer has used it (`auto`), always, or never."""
    compress: Literal["auto", "always", "never"] = "auto"
    """Bodies are compressed once the peer has shown that it reads gzip (`auto`), always, or never."""
    compress_over_bytes: int = Field(default=4096, ge=0)
    """Only bodies larger than this are compressed: smaller ones hardly shrink."""
    uncompressed_bytes: int = Field(default=1_048_576, ge=1)
    """A compressed body may be at most this large when it is opened, or it is refused as a `bomb`. A larger one could
    be passed on to no peer uncompressed."""
    ping_seconds: float = Field(default=30, gt=0)
    """A peer that has said nothing for so long is asked whether it is there."""
    pong_timeout_seconds: float = Field(default=10, gt=0)
    """A peer that does not answer a ping within this time is gone, and its session ends."""

    def subject_of(self, type_: int) -> str:
        if type_ == MessageType.DATA:
            return self.subjects.get("data", "emp.data")
        return self.subjects.get(type_, f"emp.type.{type_}")

    def type_for(self, subject: str) -> int | None:
        """Returns the type that stands for a subject; data, then the lowest, if there are several."""
        return self._types_by_subject.get(subject.replace("/", "."))

    @cached_property
    def are_data(self) -> tuple[bool, ...]:
        """Tells of each type whether its messages carry data, and no login. To ask takes a session's start tenfold."""
        return tuple(carries_data(type_) and not is_login(self.subject_of(type_)) for type_ in range(256))

    @cached_property
    def _types_by_subject(self) -> dict[str, int]:
        types = (*range(255, FIRST_APPLICATION_TYPE - 1, -1), MessageType.DATA)
        return {self.subject_of(type_).replace("/", "."): int(type_) for type_ in types}
