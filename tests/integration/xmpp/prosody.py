"""A real XMPP server: Debian's Prosody, in a folder of its own, with users and one place for a component."""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.integration.debian import Program, debian_program
from tests.integration.mesh import free_port, wait_until

PASSWORD = "of a user"
SECURE, PLAIN = "localhost", "plain.localhost"
"""Its domains: one offers TLS, the other does not."""
START_SECONDS = 20.0
COMPONENT_SECONDS = 30.0
"""It comes within four seconds, on a machine that has time for it."""
_CONFIGURATION = """
run_as_root = true
daemonize = false
pidfile = "{folder}/prosody.pid"
data_path = "{folder}"
log = {{ info = "*console" }}
interfaces = {{ "127.0.0.1" }}
component_interfaces = {{ "127.0.0.1" }}
c2s_ports = {{ {users_port} }}
component_ports = {{ {component_port} }}
modules_enabled = {{ "saslauth", "roster", "disco", "presence", "message", "iq", "tls" }}
modules_disabled = {{ "s2s", "offline" }}
authentication = "internal_plain"
c2s_require_encryption = false
VirtualHost "localhost"
  ssl = {{ certificate = "{cert}"; key = "{key}" }}
VirtualHost "plain.localhost"
  modules_disabled = {{ "tls" }}
Component "{component}"
  component_secret = "{secret}"
"""


@dataclass
class Prosody:
    """`component_port`: where it waits for the component, which may come before it does. `certificate`: files."""

    folder: Path
    component: str
    secret: str
    component_port: int
    certificate: dict[str, str]

    def __post_init__(self) -> None:
        self.users_port = free_port()
        self._running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program = debian_program("/usr/bin/prosody", "prosody")
        self.folder.mkdir(parents=True, exist_ok=True)
        configuration = self.folder / "prosody.cfg.lua"
        configuration.write_text(_CONFIGURATION.format(**vars(self), **self.certificate))
        command, environment = _command(program, self.folder)
        with self._log.open("ab") as log:
            self._running = subprocess.Popen(
                [*command, "--config", str(configuration)], env=os.environ | environment, stdout=log, stderr=log
            )
        wait_until(self._is_up, "prosody is up", START_SECONDS)

    def user(self, name: str, domain: str = SECURE) -> str:
        """A new user: the url by which it speaks to the component."""
        accounts = self.folder / domain.replace(".", "%2e") / "accounts"
        accounts.mkdir(parents=True, exist_ok=True)
        (accounts / f"{name}.dat").write_text(f'return {{ ["password"] = "{PASSWORD}"; }};')
        return f"xmpp://{name}%40{domain}@127.0.0.1:{self.users_port}/{self.component}"

    def wait_for_component(self, times: int) -> None:
        wait_until(lambda: self.components() >= times, "the component is accepted", COMPONENT_SECONDS)

    def components(self) -> int:
        """Returns how often one has come."""
        return self._log.read_text().count("component successfully authenticated")

    def stop(self) -> None:
        if self._running is not None:
            self._running.terminate()
            self._running.wait(timeout=20)
            self._running = None

    @property
    def _log(self) -> Path:
        return self.folder / "prosody.log"

    def _is_up(self) -> bool:
        assert self._running is not None
        assert self._running.poll() is None, self._log.read_text(errors="replace")[-2000:]
        with closing(socket.socket()) as probe, suppress(OSError):
            probe.connect(("127.0.0.1", self.component_port))
            return True
        return False


def _command(program: Program, folder: Path) -> tuple[list[str], dict[str, str]]:
    """One that is only unpacked looks for its parts where it would be installed, unless its script says otherwise."""
    if program.root == Path("/"):
        return [str(program.path)], {}
    root = program.root
    script = folder / "prosody"
    script.write_text(program.path.read_text().replace("'/usr/lib/prosody", f"'{root}/usr/lib/prosody"))
    natives = next(root.glob("usr/lib/*/lua/5.4"))
    environment = {"LUA_PATH": f"{root}/usr/share/lua/5.4/?.lua;;", "LUA_CPATH": f"{natives}/?.so;;"}
    return [str(root / "usr/bin/lua5.4"), str(script)], program.environment | environment
