"""`meshgate up`: a whole mesh on this machine."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import click

from gateway.auth.key_admin import ensure_identity
from gateway.cli.console import LOG_FORMAT, Output, show, timestamp
from gateway.cli.detached import start_detached
from gateway.cli.local_mesh import existing_config, own_config
from gateway.cli.options import config_option, dir_option, logging_options, output_option
from gateway.cli.signals import stop_on_signals
from gateway.config import Config, ConfigError, Fault, check_files, find_config, load
from gateway.config.default import write_default
from gateway.local.mesh import LocalMesh


@click.command()
@config_option
@dir_option
@click.option(
    "--accept-loss",
    is_flag=True,
    help="At the router's first start go over records of the raw log that are gone, as `meshgate router` does.",
)
@click.option(
    "--detach", is_flag=True, help="Return once the mesh is ready, and leave it running: see status, logs, down."
)
@click.option("--timed", is_flag=True, hidden=True, help="Begin each line with its time, as a log does.")
@output_option
@logging_options
def command(
    config_file: str | None, state_dir: Path | None, accept_loss: bool, detach: bool, timed: bool, output: Output
) -> int | None:
    """A whole mesh on this machine: a real Kafka, one edge, and the router on local Spark.

    Where there is no configuration it writes a commented one into DIR (default ./mesh), with keys. Ctrl-C ends
    everything in order; the next `up` goes on from the state in DIR. With --detach the mesh goes on in the background.
    """
    config = _configuration(config_file, state_dir, output)
    if faults := _file_faults(config):
        raise ConfigError(faults)
    if detach:
        options = ["--output", output.value, "--log-format", LOG_FORMAT.get()]
        return start_detached(config, [*options, *(["--accept-loss"] if accept_loss else [])])
    identity = config.identity
    ensure_identity(config.trust, str(identity.node) if identity.node else None, entry=identity.key)
    stop = threading.Event()
    stop_on_signals(stop.set)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup leaves it
        _stop_with_the_terminal(stop)
    at_first = ["--accept-loss"] if accept_loss else []
    say = _print_timed if timed else _print_line
    LocalMesh(config, lambda fields, text: say(fields, output, text), at_first, LOG_FORMAT.get()).run(stop)
    return None


def _file_faults(config: Config) -> list[Fault]:
    """Returns the faults of the files that the edge would not start with. Imported late: most name no certificates."""
    if all(getattr(endpoint, "tls", None) is None for endpoint in (*config.listeners, *config.peers)):
        return check_files(config)
    from gateway.checkup.files import file_faults

    return file_faults(config)


def _print_timed(event_fields: Mapping[str, object], output: Output, text: str) -> None:
    at = timestamp(time.time())
    _print_line({"time": at, **event_fields}, output, f"{at} {text}")


def _print_line(fields: Mapping[str, object], output: Output, text: str) -> None:
    """Whoever listens may go, for instance at `ready`, and so may a terminal: the mesh goes on, unheard."""
    try:
        if fields["event"] == "fetching" and output is Output.TEXT:
            _show_progress(fields, text)
        else:
            show(fields, output, text)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # what is still in the buffer goes there too, at the latest at exit
        os.close(nowhere)


def _show_progress(event_fields: Mapping[str, object], text: str) -> None:
    """Draws the bar anew on a terminal; into a file goes its beginning and its end."""
    is_over = event_fields["bytes"] == event_fields["of_bytes"]
    if sys.stdout.isatty():
        click.echo(f"\r{text}", nl=is_over)
    elif is_over or not event_fields["bytes"]:
        click.echo(text)


def _stop_with_the_terminal(stop: threading.Event) -> None:
    """A SIGHUP that asks for the configuration to be read again is done with as it comes: each part follows the file.
    But a terminal that is closed sends one too."""
    had_terminal = _has_terminal()

    def hung_up(_number: int, _frame: object) -> None:
        if had_terminal and not _has_terminal():
            stop.set()

    signal.signal(signal.SIGHUP, hung_up)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _configuration(config_file: str | None, state_dir: Path | None, output: Output) -> Config:
    """The one that is named; else ./meshgate.yaml, as for every verb, or DIR's own, which is made if it is missing."""
    if config_file is not None:
        return load(find_config(config_file), state_dir=state_dir)
    path = existing_config(state_dir)
    if path is None:
        path = own_config(state_dir)
        write_default(path.parent)
        _print_line({"event": "wrote", "path": str(path)}, output, f"wrote {path}")
    return load(path, state_dir=state_dir)
