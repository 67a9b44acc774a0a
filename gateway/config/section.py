"""The field types of a configuration, with their unit's bounds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo
from pydantic_core import PydanticCustomError

from gateway.core.reasons import Rejected
from gateway.core.subjects import check_pattern

PATH, FILES, FOLDER, STATE = "path", "files", "folder", "state"
"""Keys of pydantic's validation context: the file read, those put into it, and where relative paths and those of
state start."""


def _from(start: str) -> Callable[[Path, ValidationInfo], Path]:
    def resolve(path: Path, info: ValidationInfo) -> Path:
        folder = (info.context or {}).get(start)
        return path if folder is None else Path(folder) / path

    return resolve


def _pattern(text: str) -> str:
    try:
        check_pattern(text)
    except Rejected as refused:
        raise PydanticCustomError("pattern", "expected a subject pattern: {why}", {"why": refused.detail}) from None
    return text


def _text(value: Any) -> Any:
    """A name written as a bare number (`name: 17`) means its text."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


RelativePath = Annotated[Path, AfterValidator(_from(FOLDER))]
StatePath = Annotated[Path, AfterValidator(_from(STATE))]
Pattern = Annotated[str, AfterValidator(_pattern)]
NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$"
Name = Annotated[str, Field(pattern=NAME), BeforeValidator(_text)]
Count = Annotated[int, Field(ge=1)]
Bytes = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]
SecondsOrZero = Annotated[float, Field(ge=0)]
WholeSeconds = Annotated[int, Field(ge=1)]
Milliseconds = Annotated[float, Field(ge=0)]
