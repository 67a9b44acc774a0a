"""Numbers as options take them, by names that people know: click's own are `float range` and `integer range`."""

from __future__ import annotations

import click


class Whole(click.IntRange):
    name = "whole number"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:  # noqa: ARG002 - click's signature
        return "COUNT"


class Number(click.FloatRange):
    name = "number"


class Seconds(click.FloatRange):
    name = "number of seconds"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:  # noqa: ARG002 - click's signature
        return "SECONDS"
