"""A configuration that follows its file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.config import Broken, Config, ConfigWatch, Refused, Reloaded, load, restart_needed
from gateway.config.watch import INTERVAL_SECONDS
from tests.unit.config.reading import WHOLE, read


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


class Watched:
    """A file, its watch, and a clock that is moved by hand."""

    def __init__(self, folder: Path, text: str = "mesh: demo\n") -> None:
        self.path = folder / "meshgate.yaml"
        self.writes = 0
        self.write(text)
        self.clock = Clock()
        self.watch = ConfigWatch(load(self.path), self.clock)

    def write(self, text: str, path: Path | None = None) -> None:
        """Each write has a time of its own, as coarse as the file system's clock may be."""
        self.writes += 1
        path = path or self.path
        path.write_text(text)
        os.utime(path, (self.writes, self.writes))

    def later(self) -> Reloaded | Refused | Broken | None:
        self.clock.now += INTERVAL_SECONDS
        return self.watch.poll()


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


class TestWatching:
    def test_when_it_is_asked_it_reads_at_once_and_tells_again_what_is_wrong(self, watched: Watched) -> None:
        watched.write("bogus: 1")
        assert isinstance(watched.later(), Broken)
        assert watched.later() is None
        watched.watch.ask()
        assert isinstance(watched.watch.poll(), Broken)
        assert watched.watch.poll() is None

    def test_nothing_is_told_while_nothing_changes(self, watched: Watched) -> None:
        assert watched.later() is None

    def test_a_change_is_told_once_and_holds(self, watched: Watched) -> None:
        watched.write("mesh: demo\nlimits: {connections: 7}")
        change = watched.later()
        assert isinstance(change, Reloaded)
        assert change.config.limits.connections == 7
        assert watched.watch.config is change.config
        assert watched.later() is None

    def test_it_looks_at_most_once_a_second(self, watched: Watched) -> None:
        watched.write("mesh: demo\nlimits: {connections: 7}")
        watched.clock.now += INTERVAL_SECONDS - 0.01
        assert watched.watch.poll() is None
        watched.clock.now += 0.01
        assert isinstance(watched.watch.poll(), Reloaded)

    def test_it_reads_at_once_when_told_to(self, watched: Watched) -> None:
        watched.write("mesh: demo\nlimits: {connections: 7}")
        assert isinstance(watched.watch.reread(), Reloaded)
        assert watched.later() is None

    def test_a_file_that_was_only_touched_is_no_change(self, watched: Watched) -> None:
        watched.write("mesh: demo\n")
        assert watched.later() is None

    def test_a_link_that_was_switched_is_seen_though_size_and_time_are_the_same(self, tmp_path: Path) -> None:
        for name, connections in (("old", 7), ("new", 8)):
            (tmp_path / name).write_text(f"mesh: demo\nlimits: {{connections: {connections}}}")
            os.utime(tmp_path / name, (1, 1))
        path = tmp_path / "meshgate.yaml"
        path.symlink_to("old")
        clock = Clock()
        watch = ConfigWatch(load(path), clock)
        path.unlink()
        path.symlink_to("new")
        clock.now += INTERVAL_SECONDS
        change = watch.poll()
        assert isinstance(change, Reloaded)
        assert change.config.limits.connections == 8

    def test_a_file_that_was_put_into_it_is_watched_too(self, tmp_path: Path) -> None:
        (tmp_path / "sql").write_text("SELECT 1")
        watched = Watched(tmp_path, "mesh: demo\nrules: [{name: a, sql: '${file:sql}'}]")
        watched.write("SELECT 2", tmp_path / "sql")
        change = watched.later()
        assert isinstance(change, Reloaded)
        assert change.config.rules[0].sql == "SELECT 2"

    def test_state_stays_where_it_is(self, tmp_path: Path) -> None:
        watched = Watched(tmp_path)
        watched.watch = ConfigWatch(load(watched.path, state_dir=tmp_path / "state"), watched.clock)
        watched.write("mesh: demo\nlimits: {connections: 7}")
        change = watched.later()
        assert isinstance(change, Reloaded)
        assert change.config.state_dir == tmp_path / "state"


class TestWhatIsNotTaken:
    def test_a_broken_file_is_told_once_and_the_old_one_stays(self, watched: Watched) -> None:
        before = watched.watch.config
        watched.write("mesh: demo\nlimits: {connections: none}")
        change = watched.later()
        assert isinstance(change, Broken)
        assert [fault.path for fault in change.faults] == ["limits.connections"]
        assert str(change).startswith(f"not reloaded: {watched.path}:2: limits.connections: ")
        assert watched.watch.config is before
        assert watched.later() is None

    def test_other_faults_are_told_again(self, watched: Watched) -> None:
        watched.write("mesh: demo\nlimits: {connections: none}")
        watched.later()
        watched.write("mesh: demo\nlimits: {idle_seconds: none}")
        change = watched.later()
        assert isinstance(change, Broken)
        assert [fault.path for fault in change.faults] == ["limits.idle_seconds"]

    def test_a_file_that_is_gone_is_told_and_taken_when_it_is_back(self, watched: Watched) -> None:
        watched.path.unlink()
        assert isinstance(watched.later(), Broken)
        watched.write("mesh: demo\nlimits: {connections: 7}")
        assert isinstance(watched.later(), Reloaded)

    def test_what_it_lacked_is_noticed_when_it_comes(self, watched: Watched, tmp_path: Path) -> None:
        watched.write("mesh: demo\nrules: [{name: a, sql: '${file:sql}'}]")
        assert isinstance(watched.later(), Broken)
        watched.write("SELECT 1", tmp_path / "sql")
        assert isinstance(watched.later(), Reloaded)

    def test_going_back_to_what_holds_is_no_change(self, watched: Watched) -> None:
        watched.write("mesh: [")
        assert isinstance(watched.later(), Broken)
        watched.write("mesh: demo\n")
        assert watched.later() is None

    def test_a_change_that_needs_a_restart_is_refused_whole(self, watched: Watched) -> None:
        watched.write("mesh: prod\nlimits: {connections: 7}")
        change = watched.later()
        assert isinstance(change, Refused)
        assert str(change) == "not reloaded: a change of mesh needs a restart"
        assert watched.watch.config.limits.connections == 10_000
        assert watched.later() is None


def changed(old: str, new: str) -> list[str]:
    assert old in WHOLE
    return restart_needed(read(WHOLE), read(WHOLE.replace(old, new)))


class TestWhatNeedsARestart:
    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("unauthenticated: reject", "unauthenticated: accept"),
            ("subscribe: [alarm.>]", "subscribe: [alarm.*]"),
            ("formats: [json, msgpack]", "formats: [json], idle_seconds: 7"),
            ("client_ca: ca.pem", "client_ca: other.pem"),
            ("publish: {allow: [order.>]}", "publish: {allow: [order.*]}"),
            ("'temp.%'", "'heat.%'"),
            ("connect: tls://10.1.0.5:5040", "connect: tls://10.1.0.6:5040"),
            ("idle_seconds: 300", "idle_seconds: 600"),
            ("request_timeout_seconds: 30", "request_timeout_seconds: 60"),
            ("redirect_url: null", "redirect_url: tcp://other:5042"),
            ("graceful_shutdown_limit_seconds: 60", "graceful_shutdown_limit_seconds: 90"),
        ],
    )
    def test_policies_permissions_rules_and_peers_do_not(self, old: str, new: str) -> None:
        assert changed(old, new) == []

    @pytest.mark.parametrize(
        ("old", "new", "setting"),
        [
            ("mesh: demo", "mesh: prod", "mesh"),
            ("partitions: 4", "partitions: 8", "kafka.partitions"),
            ("id: edge-0", "id: edge-1", "edge.id"),
            ("127.0.0.1:9640", "127.0.0.1:9740", "edge.management"),
            ("replay_window_seconds: 300", "replay_window_seconds: 600", "replay_window_seconds"),
            ("lanes: 1", "lanes: 2", "router.lanes"),
            ("checkpoint: state/router", "checkpoint: state/other", "router.checkpoint"),
            ("trust: keys.yaml", "trust: other.yaml", "trust"),
            ("udp://127.0.0.1:5050", "udp://127.0.0.1:5051", "listen of listener devices"),
            ("name: web,", "name: browsers,", "listeners (browsers is new)"),
        ],
    )
    def test_what_is_fixed_in_a_socket_a_topic_or_a_plan_does(self, old: str, new: str, setting: str) -> None:
        assert setting in changed(old, new)

    def test_the_order_of_listeners_is_no_change(self) -> None:
        config = read(WHOLE)
        turned: Config = config.model_copy(update={"listeners": config.listeners[::-1]})
        assert restart_needed(config, turned) == []
