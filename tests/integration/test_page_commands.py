"""Runs every command of the pages that needs a mesh, as it stands there, against the mesh of this run."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.integration.emm_peer import Device
from tests.integration.mesh import TestMesh, wait_until
from tests.integration.threads import running_threads
from tests.integration.verbs import note_of, running_verb
from tests.unit.docs.page_shell import PAGES, Shell, opened_shell, to_run


@pytest.fixture(scope="module")
def values(mesh: TestMesh) -> Iterator[dict[str, str]]:
    """Values for the reader's own: of a session, of a refused frame, of addresses. Meanwhile somebody publishes."""
    with ExitStack() as stack:
        stranger = stack.enter_context(closing(Device(mesh.ports["devices"])))
        stranger.send(stranger.packet("temp.stranger"))
        subscriber = stack.enter_context(running_verb(mesh, "sub", "temp.nothing"))
        assert note_of(subscriber).startswith("subscribed")
        listed = json.loads(mesh.command("interests", "list", "--subject", "temp.nothing", "--json").stdout)
        (session,) = [interest["subscriber"] for interest in listed if interest["pattern"] == "temp.nothing"]
        own = {"config": str(mesh.config_file), "event_id": _refused(mesh, stranger), "session": session}
        trusted = stack.enter_context(closing(Device(mesh.ports["devices"]).trusted_by(mesh)))
        stopped = threading.Event()
        stack.enter_context(running_threads(stopped, lambda: _publish(trusted, stopped)))
        yield own | {name: str(port) for name, port in mesh.ports.items()}


def _refused(mesh: TestMesh, stranger: Device) -> str:
    """Returns the event id of the stranger's packet."""
    found: list[str] = []

    def is_listed() -> bool:
        rows = json.loads(mesh.command("rejected", "list", "--reason", "unknown_key", "--json").stdout)
        peer = "{}:{}".format(*stranger.socket.getsockname())
        found.extend(row["event_id"] for row in rows if row["peer"].endswith(peer.rpartition(":")[2]))
        return bool(found)

    wait_until(is_listed, "the stranger's packet is refused")
    return found[0]


def _publish(device: Device, stopped: threading.Event) -> None:
    while not stopped.wait(0.3):
        device.send(device.packet("temp.traffic", "21"))


@pytest.fixture
def shell(values: dict[str, str], tmp_path: Path) -> Iterator[Shell]:
    shell = opened_shell(tmp_path, values)
    yield shell
    shell.end()


HAVE_RUN: set[str] = set()
"""A command that stands on two pages, or with several reasons, is run once."""


@pytest.mark.usefixtures("prosody")  # else `check` warns of the XMPP server that the mesh dials, and fails
@pytest.mark.parametrize("path", [path for path in PAGES if to_run(path, on_mesh=True)])
def test_every_command_of_a_page_works_as_it_is_written(path: str, shell: Shell) -> None:
    faults = []
    for command in to_run(path, on_mesh=True):
        without_reason = re.sub(r"--reason \w+", "", command.line)
        if without_reason not in HAVE_RUN or path == "README.md":
            HAVE_RUN.add(without_reason)
            faults.append(shell.run(command))
    if path == "README.md":
        _, output = shell.lasting[".venv/bin/meshgate sub 'temp.>'"]
        wait_until(lambda: {"temp.kitchen", "temp.garden"} <= set(output.read_text().split()), "both were received")
        assert json.loads((shell.folder / "device.json").read_text()).keys() >= {"node", "key_id", "secrets"}
    faults += shell.end()
    assert "\n\n".join(filter(None, faults)) == ""
