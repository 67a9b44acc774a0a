"""Starts `meshgate up` in the background, and shows what it says until the mesh is ready."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import click

from gateway.cli.console import Exit
from gateway.cli.logs import LogTail
from gateway.config import Config
from gateway.local import mesh_record
from gateway.local.mesh import DETACHED, prepare_state
from gateway.local.mesh_record import MeshRecord
from gateway.local.processes import program, refuse_running

LOOK_SECONDS = 0.1
ERROR_MARKS = ("meshgate: ", '{"time": ')
"""A line of an error on standard error begins with one of these, as text and as JSON. What `up` says of its progress
begins otherwise."""

LINE_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\S+Z ")
"""Stands before a line in the log, and is left out in the terminal."""


def start_detached(config: Config, options: Sequence[str]) -> int:
    """Returns 0 once the mesh is ready, else the exit code of the `up` that failed.

    The child has a session of its own, so it outlives this terminal; its output goes to a log that `logs up` shows.
    """
    state = config.state_dir / "state"
    record_path, log_path = state / mesh_record.FILE_NAME, state / "logs" / f"{DETACHED}.log"
    refuse_running(MeshRecord.read(record_path), record_path)
    prepare_state(config)  # here: without room, what the child says of it could not be written either
    log_path.parent.mkdir(parents=True, exist_ok=True)
    tail = LogTail(log_path)
    list(tail.new_lines())  # what earlier meshes have said
    with log_path.open("ab") as log:
        supervisor = subprocess.Popen(  # noqa: S603 - our own program
            [*program(), "up", "--timed", "-c", str(config.path), "--dir", str(config.state_dir), *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        return _follow(supervisor, tail, record_path)
    except KeyboardInterrupt:
        supervisor.terminate()
        supervisor.wait()
        _show(tail)
        return Exit.INTERRUPTED


def _follow(supervisor: subprocess.Popen[bytes], tail: LogTail, record_path: Path) -> int:
    while True:
        code = supervisor.poll()
        written = MeshRecord.read(record_path)
        is_ready = written is not None and written.supervisor.pid == supervisor.pid and written.is_ready
        _show(tail)
        if code is not None:
            return code or Exit.FAILURE
        if is_ready:
            return Exit.OK
        time.sleep(LOOK_SECONDS)


def _show(tail: LogTail) -> None:
    for line in tail.new_lines():
        click.echo(LINE_TIME.sub("", line), err=line.startswith(ERROR_MARKS))
