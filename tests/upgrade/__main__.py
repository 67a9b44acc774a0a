"""Upgrades a mesh from an older release to this one, and what an operator does beside that, by one command."""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from gateway.config import load as load_config
from tests.chaos.load import SUBJECT
from tests.chaos.record import Message
from tests.integration.emm_peer import Device
from tests.integration.mesh import TestMesh, free_port, wait_until
from tests.integration.topic import every_record, header
from tests.upgrade.load import Load

HERE = Path(__file__).parents[2]
RELEASE = "30e6b0f6ee"
"""The last commit whose router kept a row of its state for each id. Its checkpoints are of format 2."""
RECORDED = Message("recorded", 1, 1)
REPLAY_WINDOW_SECONDS = 3600
OLDER_MESSAGES = 500
REFUSED_SECONDS, AUDIT_SECONDS = 120.0, 600.0


class Upgrade:
    """One mesh, run from one tree or the other. `older` is the tree of the older release."""

    def __init__(self, folder: Path, older: Path, chance: random.Random) -> None:
        self._older = older
        self.mesh = TestMesh(folder / "mesh", tree=older)
        self._configure()
        self._device = Device(self.mesh.ports["emm"]).trusted_by(self.mesh)
        self._recorded = self._device.packet(f"{SUBJECT}.recorded", RECORDED.to_json().decode())
        self.load = Load(self.mesh, self._device, chance)
        self.load.sent.add(RECORDED)
        self._elsewhere = folder / "elsewhere"
        self._kept = folder / "kept"

    def _configure(self) -> None:
        """As the older release writes it, with every setting that it names; only ports and the window are ours."""
        folder = self.mesh.folder
        command = [sys.executable, "-m", "gateway.cli", "init", "--dir", str(folder), "--mesh", "test"]
        written = subprocess.run(command, cwd=self._older, capture_output=True, text=True, check=False)
        assert written.returncode == 0, written.stderr
        config = yaml.safe_load(self.mesh.config_file.read_text())
        for listener in config["listeners"]:
            scheme = listener["listen"].partition("://")[0]
            self.mesh.ports[listener["name"]] = port = free_port()
            listener["listen"] = f"{scheme}://127.0.0.1:{port}"
            if listener["protocol"] == "hsp":
                listener["envelope"] = "always"
        for section, setting, name in (
            ("kafka", "listen", "kafka"), ("edge", "management", "edge"), ("router", "management", "router"),
        ):  # fmt: skip
            self.mesh.ports[name] = port = free_port()
            config[section][setting] = f"127.0.0.1:{port}"
        config["replay_window_seconds"] = REPLAY_WINDOW_SECONDS
        self.mesh.config_file.write_text(yaml.safe_dump(config, sort_keys=False))

    # -- steps -------------------------------------------------------------------------------------------------

    def older(self) -> Iterator[str]:
        self.mesh.start()
        with self.load.running():
            self._device.subscribe(f"{SUBJECT}.to.nobody")  # by then the mesh has read its key
            self._device.send(self._recorded)
            wait_until(lambda: len(self.load.sent.acknowledged) > OLDER_MESSAGES, "there is something to upgrade")
        yield from self._held()

    def upgraded(self) -> Iterator[str]:
        with self.load.running():
            at = time.monotonic()
            self.mesh.stop()
            self.mesh.tree = HERE
            began = time.monotonic()
            yield f"refused: {self._refusal()}"
            refusal = time.monotonic() - began
            checkpoint = self.mesh.folder / "state" / "router"
            checkpoint.rename(checkpoint.with_name("router.older"))
            self.mesh.start()
            self.load.wait_flowing()
            yield f"{self.load.longest_silence(at):.1f} s without an event, of which the refusal took {refusal:.1f} s"
        yield from self._held()

    def downgrade(self) -> Iterator[str]:
        """No load while the mesh stops: an edge of the older release skips deliveries of a version that it cannot read.

        The operate page says how to let none stand there.
        """
        self.mesh.stop()
        self.mesh.tree = self._older
        yield f"refused: {self._refusal()}"
        self.mesh.tree = HERE
        self.mesh.start()
        self.load_once_more()
        yield from self._held()

    def old_checkpoint(self) -> Iterator[str]:
        """As the operate page says of one that was restored from yesterday."""
        checkpoint = self.mesh.folder / "state" / "router"
        self.mesh.stop()
        shutil.copytree(checkpoint, self._kept)
        self.mesh.start()
        with self.load.running():
            self.mesh.stop()
            shutil.rmtree(checkpoint)
            shutil.copytree(self._kept, checkpoint)
            self.mesh.start()
        yield from self._held()

    def restored(self) -> Iterator[str]:
        """As the operate page says: the configuration, the keys, Kafka with its topics; no checkpoint."""
        self.mesh.stop()
        self._elsewhere.mkdir()
        for name in ("meshgate.yaml", "keys.yaml"):
            shutil.copy2(self.mesh.folder / name, self._elsewhere / name)
        shutil.copytree(self.mesh.folder / "state" / "kafka", self._elsewhere / "state" / "kafka")
        shutil.rmtree(self.mesh.folder)
        self.mesh.folder = self._elsewhere
        self.mesh.start()
        with self.load.running():
            pass
        yield from self._held()

    def restored_empty(self) -> Iterator[str]:
        """The same with a Kafka that is empty: what was accepted before is gone with it."""
        self.mesh.stop()
        shutil.rmtree(self.mesh.folder / "state")
        self.load.sent.acknowledged.clear()
        self.mesh.start()
        with self.load.running():
            pass
        yield from self._held()

    def _refusal(self) -> str:
        """Why `up` ends by itself, which it must, and what it says is to be done."""
        done = self.mesh.command("up", seconds=REFUSED_SECONDS)
        said = next((line for line in (done.stdout + done.stderr).splitlines() if "has format" in line), "")
        assert done.returncode != 0, "it was not refused"
        for word in (str(self.mesh.folder / "state" / "router"), "run the build that wrote it", "move it away"):
            assert word in said, f"{word!r} is not in what it says: {done.stdout}{done.stderr}"
        return said

    # -- what must hold ----------------------------------------------------------------------------------------

    def _held(self) -> Iterator[str]:
        self._device.send(self._recorded)
        self.load_once_more()
        faults = [*self.load.faults(), *self._faults_of_events()]
        if faults:
            raise AssertionError("\n".join(faults[:20]))
        audited = json.loads(self.mesh.command("audit", "--output", "json", seconds=AUDIT_SECONDS).stdout)
        if not audited["balanced"]:
            raise AssertionError(f"the audit does not balance: {json.dumps(audited)[:3000]}")
        sent, acknowledged = len(self.load.sent.at), len(self.load.sent.acknowledged)
        sessions, twice = len(self.load.sessions), self.load.twice()
        yield f"{sent} sent, {acknowledged} acknowledged; {sessions} sessions; {twice} came again in a later session"
        yield f"audit: {audited['events']} events of {audited['frames']} frames, balanced"

    def load_once_more(self) -> None:
        """A little more goes through the mesh, behind the recorded packet."""
        with self.load.running():
            pass

    def _faults_of_events(self) -> Iterator[str]:
        ids: dict[Message, set[str]] = defaultdict(set)
        for record in every_record(load_config(self.mesh.config_file), "events"):
            if header(record, "ce_subject").startswith(f"{SUBJECT}."):
                ids[Message.from_json(record.value)].add(header(record, "ce_id"))
        yield from (f"acknowledged, and no event: {one}" for one in self.load.sent.acknowledged - ids.keys())
        yield from (f"more than one event: {one} {found}" for one, found in ids.items() if len(found) > 1)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.upgrade", description=__doc__)
    parser.add_argument("--older", default=RELEASE, metavar="COMMIT", help="the release to begin with")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="meshgate-upgrade-") as name:
        older = Path(name, "older")
        older.mkdir()
        archive = subprocess.run(["git", "archive", asked.older], cwd=HERE, stdout=subprocess.PIPE, check=True)
        subprocess.run(["tar", "--extract", "--directory", str(older)], input=archive.stdout, check=True)
        run = Upgrade(Path(name), older, random.Random(0))
        steps: tuple[Callable[[], Iterator[str]], ...] = (
            run.older, run.upgraded, run.downgrade, run.old_checkpoint, run.restored, run.restored_empty,
        )  # fmt: skip
        try:
            for step in steps:
                began = time.monotonic()
                for line in step():
                    print(f"{step.__name__:16} {time.monotonic() - began:6.1f} s  {line}", flush=True)
        finally:
            if run.mesh.process is not None and run.mesh.process.poll() is None:
                run.mesh.stop()
    print("all held", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
