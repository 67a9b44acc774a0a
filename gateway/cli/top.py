"""`meshgate top`: rates, latencies, lags and rejections, refreshed."""

from __future__ import annotations

import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from gateway.cli.console import Output, UnavailableError, show_line
from gateway.cli.numbers import Seconds, Whole
from gateway.cli.options import common_options, read_config
from gateway.cli.part_options import edges_option, router_option
from gateway.cli.top_text import painted, plain, screen
from gateway.core.address import HostPort
from gateway.core.clock import now_us
from gateway.inspect.live.busy_subjects import shares_of
from gateway.inspect.live.mesh_parts import edge_parts, router_part
from gateway.inspect.live.metrics_poller import MetricsPoller, samples_source
from gateway.inspect.live.node_labels import node_labels
from gateway.inspect.live.topic_watcher import TopicWatcher
from gateway.records.cloud_event import rfc3339

SUBJECTS_TOLD = 20
NODES_TOLD = 20
LEAST_SECONDS = 0.2
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""The terminal's other screen, without a cursor; and back to what was there."""
HOME, REST_OF_LINE, REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


@click.command("top")
@click.option(
    "--interval",
    type=Seconds(min=LEAST_SECONDS),
    default=2.0,
    show_default=True,
    help="The time between two screens.",
)
@click.option("-n", "--count", type=Whole(min=1), help="End after COUNT screens.")
@click.option("--once", is_flag=True, help="Show one screen, as with -n 1.")
@edges_option
@router_option
@common_options
def command(
    config_file: str | None,
    output: Output,
    interval: float,
    count: int | None,
    once: bool,
    edges: tuple[HostPort, ...],
    router: HostPort | None,
) -> None:
    """Show what flows through the mesh now, until Ctrl-C.

    Rates and latencies are those between two looks at the metrics of the edges and the router; the busiest subjects are
    of a sample of the events. A part that goes away is named, and shown again when it is back. Where the output is no
    terminal, each screen follows the one before.
    """
    config = read_config(config_file)
    parts = [*edge_parts(config, edges), router_part(config, router)]
    poller = MetricsPoller({f"{part.setting} {part.address}": samples_source(part) for part in parts})
    first = poller.look()
    if len(first["missing"]) == len(parts):
        raise UnavailableError("; ".join(first["missing"].values()))
    labels = node_labels(config)
    watcher = TopicWatcher(config, lambda: frozenset({"events"}))
    watcher.start()
    turns = 1 if once else count
    try:
        with _stopped() as stop, _drawing(output, stays=turns is not None) as draw:
            for _ in _turns(stop, interval, turns):
                draw(document(config.mesh, poller.look(), watcher, labels))
    finally:
        watcher.stop()


def document(mesh: str, flow: dict[str, Any], watcher: TopicWatcher, labels: Mapping[str, str]) -> dict[str, Any]:
    """Returns what one screen shows."""
    events = flow["stages"]["events"]["per_second"]
    nodes = shares_of(watcher.nodes.busiest(NODES_TOLD), events)
    return {
        "mesh": mesh,
        "at": rfc3339(now_us()),
        "trouble": watcher.trouble,
        **flow,
        "subjects": shares_of(watcher.subjects.busiest(SUBJECTS_TOLD), events),
        "nodes": [{"node": row["subject"], "label": labels.get(row.pop("subject")), **row} for row in nodes],
    }


def _turns(stop: threading.Event, interval: float, count: int | None) -> Iterator[int]:
    turn = 0
    while turn != count and not stop.wait(interval):
        turn += 1
        yield turn


@contextmanager
def _stopped() -> Iterator[threading.Event]:
    """Yields what Ctrl-C and SIGTERM set, for the terminal has to be left as it was."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _drawing(output: Output, *, stays: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Screens that are counted are a report, and stay: the terminal's other screen goes with all that was on it."""
    if stays or output is Output.JSON or not sys.stdout.isatty():
        yield lambda shown: _print(shown, output)
        return
    sys.stdout.write(ENTER)
    try:
        yield _paint
    finally:
        sys.stdout.write(LEAVE)
        sys.stdout.flush()


def _print(shown: dict[str, Any], output: Output) -> None:
    if output is Output.JSON:
        show_line(shown, output, "")
        return
    lines, columns = screen(shown), shutil.get_terminal_size().columns
    written = (painted(line, columns) for line in lines) if sys.stdout.isatty() else plain(lines)
    click.echo("\n".join(written) + "\n")


def _paint(shown: dict[str, Any]) -> None:
    """Draws over what is there, line by line, so that nothing flickers. What has no room is left out."""
    room = shutil.get_terminal_size()
    lines: Iterable[str] = (painted(line, room.columns) for line in screen(shown)[: room.lines - 1])
    if click.get_current_context().color is False:
        lines = map(click.unstyle, lines)
    sys.stdout.write(HOME + "".join(f"{line}{REST_OF_LINE}\r\n" for line in lines) + REST_OF_SCREEN)
    sys.stdout.flush()
