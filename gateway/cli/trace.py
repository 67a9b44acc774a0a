"""`meshgate trace`: one frame's whole way."""

from __future__ import annotations

from datetime import datetime
from itertools import islice

import click

from gateway.cli.console import CommandError, Output, note, printable_lines, show
from gateway.cli.event_id import EventId
from gateway.cli.numbers import Seconds
from gateway.cli.options import common_options, read_config
from gateway.cli.times import from_time, microseconds
from gateway.cli.trace_text import way_as_json, way_as_text
from gateway.config import Config
from gateway.core.ids import FramePosition
from gateway.inspect.history.frame_trace import FrameTrace, way_of
from gateway.inspect.history.logged_frame import NotFoundError, find_frame
from gateway.inspect.history.messages import find_message
from gateway.inspect.history.put_in_again import put_in_again
from gateway.inspect.history.topics import History

FROM = "-1h"
SHOWN_MESSAGES = 5
"""The messages shown of one id: a sender counts, and begins again some day."""
LOOK_BACK_SECONDS = 10.0
"""Whoever asks for a repeat wants to know of what: the log of a busy mesh's dedup window is not read in a second."""


@click.command("trace")
@click.argument("event_id", type=EventId(), required=False)
@click.option("--node", metavar="NODE", help="The sender's node, where the event id is not known.")
@click.option("--message-id", metavar="ID", help="The id that its sender gave it.")
@click.option(
    "--from",
    "start",
    type=from_time,
    default=FROM,
    show_default=True,
    metavar="TIME",
    help="How far back to look for it.",
)
@click.option(
    "--look-back",
    "seconds",
    type=Seconds(min=0),
    default=LOOK_BACK_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long to look for the first frame of which this one is a repeat, or for where it was put in again.",
)
@common_options
def command(
    config_file: str | None,
    output: Output,
    event_id: FramePosition | None,
    node: str | None,
    message_id: str | None,
    start: datetime,
    seconds: float,
) -> None:
    """Show one frame's whole way, from the topics alone: received, judged, sent on, and what became of that.

    EVENT_ID is <raw partition>-<offset>-<index>, as it stands in ce_id of an event or event_id of a refusal. Who sent
    the frame knows --node and --message-id instead: the newest such message is shown.
    """
    if (event_id is None) is not (node is not None and message_id is not None):
        raise click.UsageError("name an EVENT_ID, or --node and --message-id together")
    config = read_config(config_file)
    with History(config) as history:
        try:
            position = event_id or _position_of(history, str(node), str(message_id), start)
            way = way_of(history, config, find_frame(history, position))
        except NotFoundError as missing:
            raise CommandError(str(missing)) from None
        key, repeats = _repeated(history, config, way, seconds)
        later = put_in_again(history, way.logged, seconds) if way.may_be_put_in_again else ()
        ways_again = [way_of(history, config, logged) for logged in list(later)]
    document = way_as_json(way, key, repeats) | {"put_in_again": [way_as_json(one, key, None) for one in ways_again]}
    texts = [way_as_text(way, key, repeats), *(way_as_text(one, key, None) for one in ways_again)]
    show(document, output, printable_lines("\n".join(texts)))


def _position_of(history: History, node: str, message_id: str, start: datetime) -> FramePosition:
    """Raises NotFoundError."""
    matching = list(islice(find_message(history, node, message_id, microseconds(start) or 0), SHOWN_MESSAGES))
    if not matching:
        since = f"since {start:%Y-%m-%dT%H:%M:%SZ}"
        raise NotFoundError(f"node {node} has sent no message {message_id} {since}: look further back with --from")
    if len(matching) > 1:
        note(f"there are more of that id: {' '.join(matching[1:])}")
    return FramePosition.parse(matching[0])


def _repeated(history: History, config: Config, way: FrameTrace, seconds: float) -> tuple[str | None, str | None]:
    """The key by which a repeat of it is known today; and what it repeats itself, if nothing else became of it."""
    from streaming_jobs.reprocess.duplicates import Duplicates
    from streaming_jobs.reprocess.reprocessor import Reprocessor
    from streaming_jobs.routing.known_ids import repeat_horizon_seconds

    repeats = Duplicates(history, Reprocessor.of_today(config), way.logged, repeat_horizon_seconds(config))
    if way.event is not None or way.refusals or repeats.key is None:
        return repeats.key, None
    earlier = list(repeats.earlier(seconds))
    return repeats.key, earlier[-1] if earlier else ""
