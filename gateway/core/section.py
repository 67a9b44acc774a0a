"""The basis of every section of a configuration, options of a protocol included."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError


class Section(BaseModel):
    """Unknown keys are errors: a misspelt limit must not silently be no limit."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_truth_value(cls, value: Any, info: ValidationInfo) -> Any:
        """YAML's `yes` is a truth value, and Python would take it for the number 1."""
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation not in (bool, bool | None):
            raise PydanticCustomError("truth_value", "got a truth value, which this setting is not")
        return value
