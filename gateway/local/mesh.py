"""`up`: every part of a mesh on this machine, kept running."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from gateway.auth import trust_file
from gateway.config import Config
from gateway.config.watch import ConfigWatch, Reloaded
from gateway.core.address import parse_address
from gateway.core.errors import SetupError
from gateway.core.yaml_files.faults import ConfigError, Fault
from gateway.inspect.live import mesh_parts as live
from gateway.kafka.ports import accepts_connections
from gateway.local.broker import broker_archive, refuse_a_full_disk
from gateway.local.class_archive import wait_for_rest
from gateway.local.jars import JarSet, ensure_jars, fetch, missing_sets
from gateway.local.java import find_java
from gateway.local.mesh_record import FILE_NAME
from gateway.local.preflight import refuse_a_start
from gateway.local.processes import Part, Processes, trim_log

START_SECONDS = 300.0
"""The time for all parts together. A cold cache on a machine at many times its load has been seen to take 150."""
WATCH_SECONDS = 0.1
OTHERS_END_SECONDS = 60.0
"""The router ends its open batch with a commit (2 s), the broker closes its segments (1 s)."""
BEGINNING_END_SECONDS = 5.0
"""The time for each part to end where the mesh never came up: one that waits for Kafka would go on for long."""
DEATHS_AT_START = 3
"""A part that dies so often before it was ever ready will not come up: say why instead of trying on."""

BAR_WIDTH = 30
PROGRESS_SECONDS = 0.2

DETACHED = "up"
"""The log of the supervisor itself, where it runs without a terminal."""

Say = Callable[[Mapping[str, object], str], None]
"""Reports what has happened: for programs, and as a line for people."""


class LocalMesh:
    """Runs a mesh on this machine.

    `say` is called with each thing that happens. `router_at_first` are options of the router's first start.
    `log_format` is that of the parts' logs.
    """

    def __init__(self, config: Config, say: Say, router_at_first: Sequence[str] = (), log_format: str = "text") -> None:
        self._config = config
        self._say = say
        self._router_at_first = router_at_first
        self._log_options = ["-v", "--log-format", log_format]
        self._state = config.state_dir / "state"
        self._processes = Processes(self._state / FILE_NAME)
        self._rules_ready = self._state / "rules.ready"
        self._settings = ConfigWatch(config, time.monotonic)
        self._started_at = time.monotonic()
        self._told_at = 0.0
        self._came_up = False

    def run(self, stop: threading.Event) -> None:
        """Brings everything up, says `ready`, and watches until `stop` is set. Ends all parts whatever happens."""
        _check_ports(self._config)
        try:
            if leftovers := self._processes.end_leftovers():
                self._say(
                    {"event": "cleared", "parts": leftovers},
                    f"ended what an earlier run had left: {', '.join(leftovers)}",
                )
            prepare_state(self._config)
            own = {"edge": self._config.edge.management, "router": self._config.router.management}
            management = {name: str(address.reachable) for name, address in own.items()}
            self._processes.note(config=str(self._config.path), management=management)
            refuse_a_start(self._config)
            self._prepare()
            self._start_parts(stop)
            if not stop.is_set():
                self._first_event(_as_bound(self._config), stop)
            self._came_up = not stop.is_set()
            if self._came_up and self._config.router.standby:  # now: it would take the cores that the others start on
                self._processes.start(self._part("router-standby"))
            threading.Thread(target=self._archive_classes, args=(stop,), name="archive", daemon=True).start()
            while not stop.wait(WATCH_SECONDS):
                self._watch()
        finally:
            self._end(is_requested=stop.is_set())

    def _end(self, *, is_requested: bool) -> None:
        """Ends the parts, and says so at once: an edge lets its sessions end, and the broker closes its files."""
        try:
            if is_requested:
                state_note = f"state stays in {self._config.state_dir}; the next up goes on from it"
                self._say({"event": "stopping", "dir": str(self._config.state_dir)}, f"stopping ({state_note})")
        finally:
            self._processes.end_all(math.inf if self._came_up else BEGINNING_END_SECONDS)
        if is_requested:
            self._say({"event": "stopped"}, "stopped")

    # -- coming up -----------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        java = find_java()
        self._report_done(f"java {java.version}", java.origin)
        jar_sets = ["connector"] + (["broker"] if self._config.kafka.is_embedded else [])
        for missing in missing_sets(jar_sets):
            self._fetching(missing, 0, missing.size_bytes)
            fetch(missing, partial(self._fetching, missing))
        self._report_done("jars", ", ".join(jar_sets))

    def _fetching(self, jars: JarSet, done_bytes: int, all_bytes: int) -> None:
        """Tells how far it is: at the beginning, at the end, and a few times a second."""
        now = time.monotonic()
        if 0 < done_bytes < all_bytes and now - self._told_at < PROGRESS_SECONDS:
            return
        self._told_at = now
        filled = done_bytes * BAR_WIDTH // all_bytes
        bar = "#" * filled + "-" * (BAR_WIDTH - filled)
        event_fields = {"event": "fetching", "jars": jars.name, "bytes": done_bytes, "of_bytes": all_bytes}
        self._say(
            event_fields, f"fetching the {jars.name} jars [{bar}] {done_bytes / 1e6:5.1f} of {all_bytes / 1e6:.1f} MB"
        )

    def _start_parts(self, stop: threading.Event) -> None:
        """Starts all parts at once: each waits for what it needs, and the slowest, Spark, begins at the beginning."""
        config = self._config
        parts = ["router", "edge"]
        if config.kafka.is_embedded:
            parts.insert(0, "kafka")
        self._rules_ready.unlink(missing_ok=True)
        for name in parts + (["rules"] if config.rules else []):  # a Spark of their own, only for rules that exist
            self._processes.start(self._part(name))
        if config.kafka.is_embedded:
            broker = config.kafka.listen
            self._wait("kafka", stop, lambda: accepts_connections(broker), lambda: str(broker))
        self._wait("edge", stop, lambda: _is_ready(live.edge_parts(config)[0]), lambda: _addresses(_as_bound(config)))
        self._wait("router", stop, lambda: _is_ready(live.router_part(config)), lambda: f"Spark, {config.router.mode}")
        if config.rules:
            self._wait("rules", stop, self._rules_ready.exists, lambda: f"{len(config.rules)} of them, on Spark too")

    def _part(self, name: str) -> Part:
        verb = name.removesuffix("-standby")
        config = self._config
        arguments = [verb, "-c", str(config.path), "--dir", str(config.state_dir), *self._log_options]
        if verb == "router" and config.router.standby:
            arguments.append("--shares-management")
        if name == "kafka":
            arguments.append("--list-classes")
        if name == "rules":
            arguments[1:1] = ["run", "--ready-file", str(self._rules_ready)]
        edge = config.edge
        limit = edge.notice_seconds + edge.graceful_shutdown_limit_seconds if name == "edge" else OTHERS_END_SECONDS
        at_first = self._router_at_first if name == "router" else ()
        return Part(
            name,
            arguments,
            self._state / "logs" / f"{name}.log",
            end_seconds=limit + 5,
            at_first=at_first,
            becomes_java=name == "kafka",
        )

    def _wait(self, name: str, stop: threading.Event, is_up: Callable[[], bool], detail: Callable[[], str]) -> None:
        deadline = self._started_at + START_SECONDS
        while not stop.is_set() and not is_up():
            if time.monotonic() > deadline:
                raise SetupError(f"{name} did not come up in {START_SECONDS:.0f} s; see {self._log(name)}")
            for part in self._processes.restart_dead():
                if part.deaths >= DEATHS_AT_START:
                    raise SetupError(f"{part.name} does not start: {part.last_words()}")
            stop.wait(WATCH_SECONDS)
        if not stop.is_set():
            self._processes.came_up(name)
            self._report_done(name, detail())

    def _first_event(self, config: Config, stop: threading.Event) -> None:
        from gateway.local.first_event import SUBJECT, probed_listener, send_probe  # here: the parts start without it

        identity = trust_file.load(config.trust, entry=config.identity.key).identity
        if identity is None or probed_listener(config, identity) is None:
            self._report_done(
                "first event", f"none: no udp:// listener of emm where the gateway may publish and get {SUBJECT}"
            )
        else:
            seconds = send_probe(config, identity, START_SECONDS, stop)
            if seconds is None:
                return
            self._report_done(
                "first event", f"signed, over UDP, through Kafka and Spark, and back in {seconds * 1000:.0f} ms"
            )
        addresses = {listener.name: str(listener.address) for listener in config.listeners}
        ready = {"event": "ready", "listeners": addresses, "management": str(config.edge.management)}
        self._say(ready, "\n".join((f"ready  {_addresses(config)}", *_to_try(config))))
        self._processes.note(ready=addresses)  # last: who waits for it in the record has then read all that was said

    def _report_done(self, event_name: str, detail: str) -> None:
        seconds = time.monotonic() - self._started_at
        fields = {"event": "up", "part": event_name, "seconds": round(seconds, 1), "detail": detail}
        self._say(fields, f"{event_name:<12} {seconds:6.1f} s  {detail}")

    def _log(self, name: str) -> Path:
        return self._state / "logs" / f"{name}.log"

    def _archive_classes(self, stop: threading.Event) -> None:
        """Writes the classes of the broker for its next start. (The router does so for Spark's.)"""
        kafka = next((part for part in self._processes.parts if part.name == "kafka"), None)
        if kafka is not None and kafka.process is not None and wait_for_rest(stop):
            java = find_java()
            broker_archive(java, map(str, ensure_jars("broker")), kafka.process.pid).write()

    # -- staying up ----------------------------------------------------------------------------------------

    def _watch(self) -> None:
        for part in self._processes.restart_dead():
            words = part.last_words()
            fields = {"event": "restarted", "part": part.name, "because": words}
            self._say(fields, f"{part.name} ended and is started again: {words}")
        for part in self._processes.parts:
            part.trim_log()
        trim_log(self._log(DETACHED))
        self._follow_file()

    def _follow_file(self) -> None:
        """Says what became of a change of the file. Each part takes it over itself, but its author looks here."""
        change = self._settings.poll()
        if isinstance(change, Reloaded):
            self._start_first_rules(len(change.config.rules))
        elif change is not None:
            self._say({"event": "not_reloaded", "because": change.why}, str(change))

    def _start_first_rules(self, count: int) -> None:
        """Rules that come into the configuration later are followed by their part; it has to be there."""
        if count and all(part.name != "rules" for part in self._processes.parts):
            self._processes.start(self._part("rules"))
            self._say({"event": "rules", "rules": count}, f"rules are started: {count}")


def prepare_state(config: Config) -> None:
    """Makes the folder of the state. Raises SetupError where it cannot be written, or has too little room."""
    state = config.state_dir / "state"
    try:
        state.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SetupError(f"cannot write {state}: {error.strerror}; give another folder with --dir") from error
    if config.kafka.is_embedded:
        refuse_a_full_disk(state)


def _check_ports(config: Config) -> None:
    """Requires known ports: a part whose address must be asked for cannot be asked."""
    own = {"edge.management": config.edge.management, "router.management": config.router.management}
    expected = "expected a port from 1 to 65535: `up` looks there for whether the part is ready"
    if faults := [Fault(str(config.path), setting, expected) for setting, at in own.items() if at.port == 0]:
        raise ConfigError(faults)


def _as_bound(config: Config) -> Config:
    """Returns the configuration with the ports that the edge's listeners were given."""
    if all(listener.address.port for listener in config.listeners):
        return config
    addresses = live.edge_parts(config)[0].json("/listeners")
    listeners = (
        listener.model_copy(update={"listen": parse_address(addresses[listener.name])}) for listener in config.listeners
    )
    return config.model_copy(update={"listeners": tuple(listeners)})


def _is_ready(part: live.MeshPart) -> bool:
    try:
        return bool(part.json("/healthz/ready")["status"] == "ok")
    except (SetupError, ValueError):
        return False


def _addresses(config: Config) -> str:
    return "  ".join(f"{listener.name} {listener.address}" for listener in config.listeners)


def _to_try(config: Config) -> list[str]:
    option = f"-c {config.path}" if config.path.parent.name != "mesh" else ""
    verb = f"  meshgate {{}} {option}".rstrip()
    return [
        "try next:",
        verb.format("sub 'temp.>'") + "                 # in another terminal",
        verb.format("pub temp.kitchen '21.5' --via emm"),
        verb.format("top"),
        f"  http://{config.edge.management.reachable}/ in a browser: what flows, who is connected, what was refused",
    ]
