"""The chart on the node, as an operator has it: kubectl, helm, and what Kafka holds afterwards."""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from gateway.config import Config
from gateway.config import load as load_config
from tests.cluster.images import ROOT
from tests.cluster.load import FIXED, FRESH, STREAMS, SUBJECT, Record, Settings, device, number
from tests.cluster.node import BALANCER, NAMESPACE, Node
from tests.helm.tools import kubectl
from tests.integration.topic import every_record, header

NAME = "test"
VALUES = (ROOT / "k8s/overlays/test-mesh/values.yaml", Path(__file__).with_name("values.yaml"))
CHART = ROOT / "helm/meshgate"
OPERATE = ROOT / "k8s/OPERATE.md"
FLOWING_SECONDS = 240
SETTLED_SECONDS, QUIET_SECONDS = 600, 90
READY_SECONDS = 600
READY = '{.status.conditions[?(@.type=="Ready")].status}'
LOOK_SECONDS = 1.0
HELM_SECONDS = "10m"
ROUTER_PORT, ANSWER_SECONDS = 9641, 5.0


class Release:
    """`values`: what each command sets from then on, over the files."""

    def __init__(self, node: Node, helm: Path) -> None:
        self.node = node
        self._helm = helm
        self.values: dict[str, object] = {}
        self._folder = node.folder / "operator"
        self._secret = secrets.token_hex(16)
        self._runs = 0

    # -- the commands of k8s/OPERATE.md ------------------------------------------------------------------------

    def prepare(self) -> None:
        """A namespace, a broker, and the trust store with the keys of the load's devices."""
        for base in ("namespace", "broker"):
            self.node.kubectl("apply", "--kustomize", str(ROOT / "k8s/base" / base))
        self.meshgate("init", "--dir", str(self._folder), "--mesh", NAME)
        for name in (FRESH, FIXED):
            one = device(name, Settings(BALANCER, self._secret, ""))
            one.trusted_in(self._folder / "keys.yaml")
            one.close()
        keys = f"--from-file=keys.yaml={self._folder}/keys.yaml"
        self.node.kubectl("create", "secret", "generic", "mesh-trust", keys)
        self.node.kubectl("rollout", "status", "statefulset/kafka", "--timeout", "5m")

    def install(self) -> None:
        """Beside the cloud, which gives a load balancer its address."""
        with self._begun("install", "--wait", "--timeout", HELM_SECONDS) as helm:
            until("the Service is there", lambda: self.node.kubectl("get", "service", NAME, check=False) != "", 300)
            address = {"status": {"loadBalancer": {"ingress": [{"ip": BALANCER}]}}}
            patch = ["--subresource=status", "--type=merge", "--patch", json.dumps(address)]
            self.node.kubectl("patch", "service", NAME, *patch)
            self._ended(helm)

    def upgrade(self, *, wait: bool = True, **values: object) -> None:
        """`a__b=1` is `--set a.b=1`."""
        self.values |= {name.replace("__", "."): value for name, value in values.items()}
        with self._begun("upgrade", *(["--wait", "--timeout", HELM_SECONDS] if wait else [])) as helm:
            self._ended(helm)

    def test(self) -> str:
        return self._ended_text("test", NAME, "--namespace", NAMESPACE, "--logs", "--timeout", "5m")

    def uninstall(self) -> None:
        self._ended_text("uninstall", NAME, "--namespace", NAMESPACE, "--wait", "--timeout", "5m")

    def rendered(self, values: Path) -> str:
        return self._ended_text("template", "demo", str(CHART), "--namespace", NAMESPACE, "--values", str(values))

    def rolled_out(self, part: str) -> None:
        self.node.kubectl("rollout", "status", f"statefulset/{NAME}-{part}", "--timeout", "10m")

    def ready(self, pod: str) -> None:
        """One that is made anew under its old name: its set may not have noticed yet that the old one is gone."""
        until(f"{pod} is ready", lambda: self._is_ready(pod), READY_SECONDS)

    def _is_ready(self, pod: str) -> bool:
        said = self.node.kubectl("get", "pod", pod, "--ignore-not-found", "--output", f"jsonpath={READY}")
        return said == "True"

    def active_router(self) -> str:
        """The pod that routes. The other one says that it stands by."""
        for pod in self.node.get("pods"):
            if pod["metadata"]["labels"].get("app.kubernetes.io/component") == "router" and _routes(pod):
                return str(pod["metadata"]["name"])
        raise AssertionError(f"no router routes\n{self.state()}")

    def as_written(self, section: str) -> str:
        """Runs the commands that a section of the operate page shows, with our names in the place of the page's."""
        _, _, text = OPERATE.read_text().partition(f"\n### {section}\n")
        script = "\n".join(re.findall(r"(?ms)^```sh\n(.*?)^```", re.split(r"(?m)^##", text)[0]))
        assert script, f"{OPERATE.name} has no commands below {section}"
        for theirs, ours in (
            ("demo-meshgate", NAME), ("helm upgrade demo", f"helm upgrade {NAME}"),
            ("--values my-values.yaml", shlex.join(self._value_options())),
        ):  # fmt: skip
            script = script.replace(theirs, ours)
        programs = self._folder / "bin"
        programs.mkdir(exist_ok=True)
        for name, path in (("helm", self._helm), ("kubectl", kubectl())):
            (programs / name).unlink(missing_ok=True)
            (programs / name).symlink_to(path)
        environment = self.node.environment | {"PATH": f"{programs}:{os.environ['PATH']}"}
        command = ["bash", "-euo", "pipefail", "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
        if done.returncode:
            raise AssertionError(f"{script}\n{done.stdout[-2000:]}{done.stderr[-2000:]}\n{self.state()}")
        return done.stdout

    def _value_options(self) -> list[str]:
        files = [part for path in VALUES for part in ("--values", str(path))]
        return files + [part for name, value in self.values.items() for part in ("--set", f"{name}={value}")]

    @contextmanager
    def _begun(self, verb: str, *options: str) -> Iterator[subprocess.Popen[str]]:
        command = [str(self._helm), verb, NAME, str(CHART), "--namespace", NAMESPACE, *self._value_options(), *options]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.node.environment
        )
        try:
            yield process
        finally:
            process.kill()

    def _ended(self, helm: subprocess.Popen[str]) -> None:
        said, _ = helm.communicate()
        if helm.returncode:
            raise AssertionError(f"helm: {said[-3000:]}\n{self.state()}")

    def _ended_text(self, *arguments: str) -> str:
        command = [str(self._helm), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=self.node.environment)
        if done.returncode:
            raise AssertionError(f"helm {arguments[0]}: {done.stdout[-3000:]}{done.stderr[-2000:]}\n{self.state()}")
        return done.stdout

    def state(self) -> str:
        """For who has to find out what went wrong."""
        logs = [
            f"--- {pod}\n{self.node.kubectl('logs', pod, '--all-containers', '--tail=15', check=False)}"
            for pod in self.node.kubectl("get", "pods", "--output", "name", check=False).split()
        ]
        events = self.node.kubectl("get", "events", "--sort-by=.lastTimestamp", check=False).splitlines()[-15:]
        return "\n".join([self.node.kubectl("get", "pods", "--output", "wide", check=False), *events, *logs])

    # -- the command line --------------------------------------------------------------------------------------

    def meshgate(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "gateway.cli", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=self.node.environment)
        if done.returncode:
            raise AssertionError(f"meshgate {' '.join(arguments)}: {done.stdout[-3000:]}{done.stderr[-2000:]}")
        return done.stdout

    def config_file(self) -> Path:
        """Returns what the pods have, for commands from outside of them."""
        path = self._folder / "config" / "meshgate.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(self.node.kubectl("get", "configmap", NAME, "--output", r"jsonpath={.data.meshgate\.yaml}"))
        trust = self._folder / "trust"
        if not trust.exists():
            trust.symlink_to(self._folder)
        return path

    def config(self) -> Config:
        return load_config(self.config_file())

    # -- load --------------------------------------------------------------------------------------------------

    @contextmanager
    def load(self) -> Iterator[Run]:
        """Everything flows when this is entered, and has come, or never will, when it is left."""
        self._runs += 1
        run = Run(self, f"r{self._runs}")
        settings = self._folder / f"{run.name}.json"
        settings.write_text(json.dumps(asdict(Settings(BALANCER, self._secret, run.name))))
        command = ["ip", "netns", "exec", "client", sys.executable, "-m", "tests.cluster.load", str(settings)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            run.wait_flowing(process)
            yield run
            run.finish(process)
        finally:
            process.kill()
            process.wait()

    def events(self) -> dict[str, dict[str, set[int]]]:
        """Numbers that the mesh says it has accepted, by run and stream."""
        found: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        for record in every_record(self.config(), "events"):
            prefix, *rest = header(record, "ce_subject").split(".")
            if prefix == SUBJECT:
                found[rest[0]][rest[1]].add(number(record.value))
        return found


def _routes(pod: dict[str, Any]) -> bool:
    address = pod["status"].get("podIP")
    with suppress(OSError), urlopen(f"http://{address}:{ROUTER_PORT}/healthz/ready", timeout=ANSWER_SECONDS) as said:
        return "away" not in json.load(said)
    return False


class Run:
    """One load, from when it flows to when it is judged."""

    def __init__(self, release: Release, name: str) -> None:
        self._release = release
        self.name = name
        self.record = Record()
        self.accepted: dict[str, set[int]] = {}

    def wait_flowing(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        flowing: list[str] = []
        reader = _thread(lambda: flowing.append(process.stdout.readline()))  # type: ignore[union-attr]
        reader.join(FLOWING_SECONDS)
        if not any(flowing):
            raise AssertionError(f"nothing flows after {FLOWING_SECONDS} s\n{self._release.state()}")

    def finish(self, process: subprocess.Popen[str]) -> None:
        self.record.sent = json.loads(self._told(process, "stop"))
        self._settle()
        said = self._told(process, json.dumps({stream: sorted(self.accepted.get(stream, ())) for stream in STREAMS}))
        record = Record(**json.loads(said))
        record.received = {
            stream: Counter({int(each): times for each, times in counts.items()})
            for stream, counts in record.received.items()
        }
        self.record = record

    def _told(self, process: subprocess.Popen[str], line: str) -> str:
        """Returns what it answers."""
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            print(line, file=process.stdin, flush=True)
        if not (said := process.stdout.readline()):
            raise AssertionError(f"the load failed\n{self._release.state()}")
        return said

    def _settle(self) -> None:
        """Until the mesh has accepted all, or no more for longer than a router's start: a lost datagram never comes."""
        deadline = time.monotonic() + SETTLED_SECONDS
        missing, since = -1, time.monotonic()
        while missing != 0 and time.monotonic() < deadline and time.monotonic() - since < QUIET_SECONDS:
            self.accepted = self._release.events().get(self.name, {})
            now = sum(len(self.lost(stream)) for stream in STREAMS)
            if now != missing:
                missing, since = now, time.monotonic()
            time.sleep(LOOK_SECONDS)

    def lost(self, stream: str) -> list[int]:
        return sorted(set(range(1, self.record.sent[stream] + 1)) - self.accepted.get(stream, set()))

    def unkept(self) -> list[int]:
        """Acknowledged, and not there."""
        return sorted(set(self.record.acknowledged) - self.accepted.get("tcp", set()))

    def undelivered(self) -> list[tuple[str, int]]:
        """Accepted, and not with the subscriber, whose session has lived through it all."""
        return [
            (stream, each)
            for stream in STREAMS
            for each in sorted(self.accepted.get(stream, set()) - self.record.received[stream].keys())
        ]

    def doubled(self) -> list[tuple[str, int]]:
        """Counts what came to the subscriber twice, though it was sent once. (What was sent again is another event.)"""
        return [
            (stream, each)
            for stream in (FRESH, FIXED)
            for each, times in self.record.received[stream].items()
            if times > 1
        ]


def _thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def until(what: str, condition: Callable[[], bool], seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what}")
        time.sleep(LOOK_SECONDS / 2)
