"""The id of a frame, as the type of an option: `ce_id` of its event, `event_id` of its refusal."""

from __future__ import annotations

from typing import Any

import click

from gateway.core.ids import FramePosition


class EventId(click.ParamType[FramePosition]):
    name = "EVENT_ID"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> FramePosition:
        try:
            return value if isinstance(value, FramePosition) else FramePosition.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
