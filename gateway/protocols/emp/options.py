"""What a listener or link of emp can be told, beside what all take."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from gateway.content import BINARY
from gateway.protocols.emp.frames import FIRST_APPLICATION_TYPE, MessageType
from gateway.protocols.spec import Options
from gateway.subjects import configured_subject

ApplicationType = Annotated[int, Field(ge=FIRST_APPLICATION_TYPE, le=255)]


class EmpOptions(Options):
    """`subjects` names what comes without an envelope: by the type of its message."""

    subjects: dict[Literal["data"] | ApplicationType, Annotated[str, AfterValidator(configured_subject)]] = Field(
        default_factory=dict
    )
    content_type: str = BINARY
    envelope: Literal["auto", "always", "never"] = "auto"
    compress: Literal["auto", "always", "never"] = "auto"
    compress_over_bytes: int = Field(default=4096, ge=0)
    # As much as the largest frame: what is larger could be passed on to no peer uncompressed.
    uncompressed_bytes: int = Field(default=1_048_576, ge=1)
    ping_seconds: float = Field(default=30, gt=0)
    pong_timeout_seconds: float = Field(default=10, gt=0)

    def subject_of(self, type_: int) -> str:
        if type_ == MessageType.DATA:
            return self.subjects.get("data", "emp.data")
        return self.subjects.get(type_, f"emp.type.{type_}")

    def type_for(self, subject: str) -> int | None:
        """The type that stands for a subject; data, then the lowest, if there are several."""
        return self._types_by_subject.get(subject.replace("/", "."))

    @cached_property
    def _types_by_subject(self) -> dict[str, int]:
        known = (*range(255, FIRST_APPLICATION_TYPE - 1, -1), MessageType.DATA)
        return {self.subject_of(type_).replace("/", "."): int(type_) for type_ in known}
