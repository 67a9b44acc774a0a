"""The id of a frame, as the type of an option: `ce_id` of its event, `event_id` of its refusal."""

from __future__ import annotations

from typing import Any

import click

from gateway.inspect.history.positions import position_of
from gateway.records.egress import Position


class EventId(click.ParamType[Position]):
    name = "EVENT_ID"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Position:
        try:
            return value if isinstance(value, Position) else position_of(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
