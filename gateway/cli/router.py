"""`meshgate router`: the stream engine's job, in the foreground."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable
from pathlib import Path

import click

from gateway.cli.console import Output, show_line
from gateway.cli.options import common_options, dir_option, read_config
from gateway.cli.signals import stop_on_signals
from gateway.core.quantity import quantity


@click.command()
@click.option("--master", metavar="URL", help="The Spark master.  [default: local, with the cores the lanes need]")
@click.option(
    "--conf",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    callback=lambda _context, _option, texts: _settings(texts),
    help="A Spark setting, as spark-submit takes it; may be given many times.",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Go on although records of the raw log are gone that were not routed. The log and `audit` say which.",
)
@click.option(
    "--shares-management",
    is_flag=True,
    help="Another router has the same management address: answer there only while this one routes.",
)
@common_options
@dir_option
def command(
    config_file: str | None,
    state_dir: Path | None,
    master: str | None,
    settings: dict[str, str],
    accept_loss: bool,
    shares_management: bool,
    output: Output,
) -> None:
    """The router on Spark: decodes, authenticates, deduplicates and routes what the edges log. SIGHUP reads the
    configuration again.

    It waits up to half a minute for Kafka, which may be on its way up.
    """
    from streaming_jobs.spark.session import begin_jvm

    stop = threading.Event()
    stop_on_signals(stop.set)
    begin_jvm(master or "local", lists_classes=master is None)  # the slowest goes first: the rest is read beside it
    from streaming_jobs.router_job.job import Router

    config = read_config(config_file, state_dir)
    lanes, mode = config.lanes, config.router.mode
    fields = {
        "event": "ready",
        "part": "router",
        "lanes": lanes,
        "mode": mode,
        "management": str(config.router.management),
    }
    router = Router(config, master, settings, accepts_loss=accept_loss, shares_management=shares_management)
    signal.signal(signal.SIGHUP, lambda *_: router.reload())
    router.run(stop, on_running=lambda: show_line(fields, output, f"ready  {quantity(lanes, 'lane')}, {mode}"))


def _settings(settings: Iterable[str]) -> dict[str, str]:
    pairs = [setting.partition("=") for setting in settings]
    for name, equals, _ in pairs:
        if not (name.startswith("spark.") and equals):
            raise click.BadParameter(f"expected spark.NAME=VALUE, got {name}")
    return {name: value for name, _, value in pairs}
