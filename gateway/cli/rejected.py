"""`meshgate rejected`: what was refused, why, and sending it through again."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

import click

from gateway.cli.console import CommandError, Output, printable_lines, show, show_table
from gateway.cli.event_id import EventId
from gateway.cli.numbers import Whole
from gateway.cli.options import common_options, config_group, read_config
from gateway.cli.protocol_option import protocol_option
from gateway.cli.times import from_time, time_range, to_time
from gateway.core.event import SECOND_US
from gateway.core.ids import FramePosition
from gateway.core.reasons import Reason, Stage
from gateway.inspect.history.frame_trace import ROUTED_SECONDS, SKEW_SECONDS
from gateway.inspect.history.rejections import Rejection, RejectionFilter, rejections, with_whole_frame
from gateway.inspect.history.topics import History
from gateway.records.cloud_event import rfc3339

Verb = TypeVar("Verb", bound=Callable[..., Any])
COLUMNS = ("at", "event_id", "reason", "stage", "protocol", "peer", "node", "bytes", "detail")


def filter_options(verb: Verb) -> Verb:
    """Adds `chosen: Filter`, `start` and `end`."""
    for option in reversed((
        click.option("--reason", "reasons", type=click.Choice([reason.value for reason in Reason]), multiple=True,
                     metavar="SLUG", help="Only frames that were refused for this reason; may be repeated."),
        click.option("--stage", "stages", type=click.Choice([stage.value for stage in Stage]), multiple=True,
                     help="The stage at which it was refused."),
        click.option("--event-id", "event_ids", type=EventId(), multiple=True, help="Only this frame."),
        protocol_option("Only frames of this protocol."),
        click.option("--node", default="", metavar="NODE", help="Only frames of this node."),
        click.option("--from", "start", type=from_time, metavar="TIME", help="RFC 3339, or relative (-1h)."),
        click.option("--to", "end", type=to_time, metavar="TIME", help="As --from."),
    )):  # fmt: skip
        verb = option(verb)
    return verb


@config_group("rejected")
def command() -> None:
    """Frames that were refused, and events that could not be delivered.

    `rejected list` says why, `rejected show EVENT_ID` shows the bytes. When the cause is mended, `rejected redrive`
    sends them through again. The page Troubleshooting of `meshgate docs` explains each reason.
    """


@command.command("list")
@filter_options
@click.option("-n", "--limit", type=Whole(min=1), default=50, show_default=True, help="Show the newest COUNT.")
@common_options
def list_(
    config_file: str | None, output: Output, limit: int, start: datetime | None, end: datetime | None, **filters: Any
) -> None:
    """List them, the newest first."""
    between = time_range(start, end)
    with History(read_config(config_file)) as history:
        matching = rejections(history, _filter(**filters), *between)
        show_table([_row(rejection) for rejection in islice(matching, limit)], COLUMNS, output)


@command.command("show")
@click.argument("event_id", type=EventId())
@common_options
def show_(config_file: str | None, output: Output, event_id: FramePosition) -> None:
    """Show one of them with its bytes.

    Of a large frame the first 4096 are kept with its reason. The others come from the raw log, while that has them.
    """
    with History(read_config(config_file)) as history:
        matching = [with_whole_frame(history, rejection) for rejection in _of_frame(history, event_id)]
    if not matching:
        raise CommandError(f"{event_id.event_id} was not refused, or that is no longer kept")
    show(
        [{**_row(rejection), "frame": rejection.frame.hex()} for rejection in matching],
        output,
        printable_lines("\n\n".join(map(_text, matching))),
    )


@command.command("redrive", short_help="Send them through again.")
@click.argument("named", metavar="[EVENT_ID]...", nargs=-1, type=EventId())
@filter_options
@click.option("--all", "everything", is_flag=True, help="Send all frames that are kept. Without it, say which.")
@click.option("--dry-run", is_flag=True, help="Only tell what would be done.")
@common_options
def redrive(
    config_file: str | None,
    output: Output,
    named: tuple[FramePosition, ...],
    everything: bool,
    dry_run: bool,
    start: datetime | None,
    end: datetime | None,
    **filters: Any,
) -> None:
    """Send frames through again: those that today's keys, rules and code accept.

    A frame keeps its id, and is judged as received when it was; it goes to whoever wants it now and has not got it.
    Requests, answers and subscriptions are over and are left alone, and so is what its sender has repeated since.
    """
    from streaming_jobs.replay.redrive import redrive as send_again

    chosen = _filter(**filters | {"event_ids": (*named, *filters["event_ids"])})
    if not everything and chosen == RejectionFilter() and start is None:
        raise click.UsageError("say which frames: EVENT_ID, --reason, --stage, --protocol, --node or --from; or --all")
    between, config = time_range(start, end), read_config(config_file)
    with History(config) as history:
        matching = list(rejections(history, chosen, *between))
        if missing := chosen.event_ids - {rejection.event_id for rejection in matching}:
            raise CommandError(f"{' '.join(sorted(missing))}: not refused, or no longer kept; nothing is sent")
        result = send_again(config, history, matching, dry_run=dry_run)
    rows = [
        {
            "id": redriven.event_id,
            "event_id": redriven.event_id,
            "put_in_as": redriven.place or None,
            "left_alone": redriven.why or None,
        }
        for redriven in result
    ]
    if rows or output is Output.JSON:
        show_table(rows, ("event_id", "put_in_as", "left_alone"), output)
    else:
        click.echo("nothing to send again")


def _filter(
    reasons: tuple[str, ...], stages: tuple[str, ...], event_ids: tuple[FramePosition, ...], protocol: str, node: str
) -> RejectionFilter:
    names = frozenset(position.event_id for position in event_ids)
    return RejectionFilter(names, frozenset(reasons), frozenset(stages), protocol, node)


def _of_frame(history: History, event_id: FramePosition) -> list[Rejection]:
    """Around the time it was logged; else, where its raw record is gone or it was refused much later, anywhere."""
    chosen = RejectionFilter(frozenset({event_id.event_id}))
    logged = history.record("raw", event_id.partition, event_id.offset)
    if logged is not None:
        since = logged.logged_at - SKEW_SECONDS * SECOND_US
        if matching := list(rejections(history, chosen, since, since + ROUTED_SECONDS * SECOND_US)):
            return matching
    return list(rejections(history, chosen, None, None))


def _row(rejection: Rejection) -> dict[str, Any]:
    """Returns a row with both names of the id: verbs that take one call it so, and a row's id is its event id."""
    fields = {name: value for name, value in asdict(rejection).items() if name != "frame"}
    return {
        "id": rejection.event_id,
        **fields,
        "at": rfc3339(rejection.at),
        "bytes": len(rejection.frame) + rejection.truncated_bytes,
    }


def _text(rejection: Rejection) -> str:
    fields = {name: value for name, value in _row(rejection).items() if name != "id" and value not in ("", None, 0)}
    lines = [f"{name:<10}{value}" for name, value in fields.items()]
    dump = textwrap.wrap(rejection.frame.hex(" "), width=16 * 3)
    return "\n".join([*lines, *(f"{16 * at:08x}  {line}" for at, line in enumerate(dump))])
