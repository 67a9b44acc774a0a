"""A shell for the commands of pages: which are run, what stands in the place of a reader's values, what must come."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from gateway.docs.site import ROOT, find_pages
from tests.helm.tools import helm_3
from tests.integration.mesh import wait_until
from tests.unit.cli.running import run, said
from tests.unit.docs.page_commands import PageCommand, commands

CLUSTER = "needs a cluster: `tests/cluster/run` does the same on one"
ENGINE = "needs a container engine and its images: `tests/helm/test_compose.py` reads the file"
NETWORK = "installs from the network: `.ci/run` does it before the tests"
THIS_RUN = "is this run, or holds it"
LONG = "works for many seconds, up to hours"
SPARK = "starts a Spark of its own, which takes ten seconds"
IN_PLACE = "a part of the mesh that runs already; a second one is refused"
WRITES = "writes into the tree: a test compares what it would write"
SYSTEM = "a tool of the system"
MENTION = "is only named: what it is to do is left to the reader"
NOT_RUN = {
    r"kubectl (?!.*exec \S+ .*-- meshgate|apply -k|.*generic mesh-trust --from-file=keys\.yaml=mesh).*": CLUSTER,
    r"helm (test|rollback) .*|meshgate\(\) .*|for PART in .*|done": CLUSTER,
    r"helm (test|upgrade)|helm (install --wait|test --logs)": MENTION,
    r"docker (build|push|compose .*) .*": ENGINE,
    r"helm (package|upgrade) .* oci://.*|cosign .*|k8s/sign .*": "needs a registry",
    r"(\.venv/bin/)?pip install .*|python3\.11 -m venv .*|\. \.venv/bin/activate": NETWORK,
    r"(HYPOTHESIS_PROFILE=nightly )?pytest .*|\.ci/run|ruff .*|mypy|lint-imports .*": THIS_RUN,
    r"python -m tests\.(screenshots|chaos|upgrade|fuzz|grafana|unit)\b.*": LONG,
    r"python -m tests\.bench\.(?!sums).*|tests/cluster/run.*|export PYTHON=.*": LONG,
    r"meshgate bench( --self| --rate …| .*before\.json| --sessions .*| --from .*| --sign .*)?": LONG,
    r"(POD=\S+ )?meshgate (audit|rules run)\b.*|kubectl .* meshgate audit .*": SPARK,
    r"meshgate (up|down|kafka|edge|router)\b.*": IN_PLACE,
    r"python helm/readme\.py|python -m helm\.dashboards": WRITES,
    r"(openssl|ss|ssh|kafka-configs) .*|cat .*cyclonedx-py .*|CONFIG=.*": SYSTEM,
    r"python|meshgate (rejected redrive|trace)": MENTION,
    r"meshgate sub .* --via NAME .*": "names a protocol that the reader adds",
    r"meshgate \w+ .*--to xmpp://.*": "needs a user of an XMPP server: `tests/integration/test_xmpp.py` has one",
}
"""Patterns of commands that are not run, each with the reason. All others are."""

SUBSTITUTES = {
    r"^kubectl .* exec \S+ .*-- (?=meshgate)": "",
    r"^helm (install|upgrade) demo": "helm template demo",
    r" && helm test .*": "",
    r"^kubectl apply -k": "kubectl kustomize",
    r"(create secret generic mesh-trust .*)": r"\1 --dry-run=client --output yaml",
    r"\$CONFIG|/tmp/mesh/meshgate\.yaml|(?<=-c )(mesh/)?meshgate\.yaml": "{config}",
    r"\bKEY_ID\b": "{key_id}",
    r"\bEVENT_ID\b|\bID\b": "{event_id}",
    r"\bSESSION\b": "{session}",
    r"\bNODE\b": "{node}",
    r"--edge HOST:PORT": "--edge 127.0.0.1:{edge}",
    r"--router HOST:PORT": "--router 127.0.0.1:{router}",
    r"--to tls://edge\.example\.org:5042 --tls-ca plant-ca\.pem": "--to 127.0.0.1:{yamp}",
    r"--listener NAME": "--listener yamp",
    r"--reason REASON": "--reason undeliverable",
    r"\bSETTING\b": "limits.frame_bytes",
    r"--output DIR": "--output site",
    r"…/": "",
    r"\bseq 100\b": "seq 5",
    r"^meshgate demo$": "meshgate demo --seconds 2",
    r"rejected redrive --reason \w+": r"\g<0> --node {node}",
    r"(--json -q) ": r"\1 -n 1 ",
    r"^meshgate bench .*": r"\g<0> --seconds 0.5 --warm-up 0",
}
"""Values in the place of a reader's own; and fewer, or shorter, where a page shows many."""

LASTING = r"(?!.*\|)(.* )?(\S*/)?meshgate (sub|serve|top|tap|docs( --port \d+)?$|logs -f|check --watch)\b.*"
"""These go on until Ctrl-C: they are waited for until they write something, and ended with their page."""

CODES = {r"meshgate (check|status)\b.*": {0, 1, 2}}
"""Exit codes that say how the mesh is; all others must be 0."""

SHAPES = {
    r"meshgate check( --only .*| -c .*)?": r"(?m)^(ok|warn|fail)\b",
    r"meshgate check --output nagios": r"^(\w+ )?(OK|WARNING|CRITICAL)\b",
    r"meshgate keys new( --trust \S+)?": r"hmac",
    r"meshgate (keys|peers|interests) list": r"(?m)^\w+ +\w+",
    r"meshgate explain .*": r"4096|1048576",
    r"meshgate schema": r'"\$schema"|"properties"',
    r"meshgate --version": r"\d+\.\d+\.\d+",
    r"helm (install|upgrade) .*": r"(?m)^kind: StatefulSet$",
    r"kubectl apply -k .*": r"(?m)^kind: Namespace$",
    r"meshgate peers kick .*": r"^kicked ",
    r"meshgate rejected show .*": r"(?m)^reason +unknown_key",
    r"meshgate trace .*": r"unknown_key",
    r"meshgate rules examples": r"error-rate",
    r"python -m tests\.bench\.sums.*": r"kafka\.partitions",
}
"""The output of a command that one of these patterns matches holds the second pattern."""
OFFLINE = (
    r"meshgate (init|keys|docs|validate|explain|schema|config|rules examples$|--version|check --only machine)"
    r"|helm|kubectl (apply|.*create)|python"
)
"""These need no mesh."""
INTERRUPTED = {130, -signal.SIGINT}
COMMAND_SECONDS = 120.0
PAGES = {page.path: commands(page) for page in find_pages()}


def reason(line: str) -> str:
    """Returns why a command is not run; empty for those that are."""
    matching = [reason for pattern, reason in NOT_RUN.items() if re.fullmatch(pattern, line, re.S)]
    return matching[0] if matching else ""


def to_run(path: str, *, on_mesh: bool) -> list[PageCommand]:
    """Returns a page's commands that are run, in their order. Those of the README build on each other, on a mesh."""
    return [
        command
        for command in PAGES[path]
        if not reason(command.line) and on_mesh != (path != "README.md" and is_offline(command.line))
    ]


def is_offline(line: str) -> bool:
    return re.match(OFFLINE, line) is not None


@dataclass
class Shell:
    """A folder in which commands of pages are run. `values` stand in the place of the reader's own."""

    folder: Path
    values: dict[str, str]
    lasting: dict[str, tuple[subprocess.Popen[bytes], Path]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        programs = self.folder / ".venv" / "bin"
        programs.mkdir(parents=True)
        (programs / "meshgate").write_text(f'#!/bin/sh\nexec {sys.executable} -m gateway.cli "$@"\n')
        (programs / "meshgate").chmod(0o755)
        for name in ("helm", "k8s"):
            (self.folder / name).symlink_to(ROOT / name)
        for name in ("docs", "protocols"):
            (self.folder / "gateway" / name).mkdir(parents=True)
        path = f"{programs}:{Path(sys.executable).parent}:{helm_3().parent}:{os.environ['PATH']}"
        self.environment = os.environ | {
            "PATH": path,
            "PYTHONPATH": str(ROOT),
            "MESHGATE_CONFIG": self.values["config"],
            "XDG_CONFIG_HOME": str(self.folder),
            "NO_COLOR": "1",
        }

    def typed(self, line: str) -> str:
        for pattern, substitute in SUBSTITUTES.items():
            line = re.sub(pattern, substitute, line)
        return re.sub(r"\{(\w+)\}", lambda found: self.values.get(found[1], found[0]), line)

    def run(self, command: PageCommand) -> str:
        """Returns what is wrong; empty if the command works."""
        if re.fullmatch(LASTING, command.line):
            return self._begin(command)
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", self.typed(command.line)],
            cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=COMMAND_SECONDS, check=False,
        )  # fmt: skip
        shapes = [shape for pattern, shape in SHAPES.items() if re.fullmatch(pattern, command.line)]
        is_good = (
            done.returncode in good_codes(command.line)
            and "Traceback" not in done.stderr
            and all(re.search(shape, done.stdout) for shape in shapes)
            and (not is_json(command.shown) or done.stdout.strip() == command.shown)
        )
        return "" if is_good else f"$ {self.typed(command.line)}\n{done.stdout}{done.stderr}[{done.returncode}]"

    def _begin(self, command: PageCommand) -> str:
        output = self.folder / f"output-{len(self.lasting)}"
        redirected = re.search(r"> (\S+)$", command.line)
        with output.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {self.typed(command.line)}"],
                cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                start_new_session=True,
            )  # fmt: skip
        self.lasting[command.line] = process, output
        written = self.folder / redirected[1] if redirected else output
        wait_until(lambda: written.exists() and written.stat().st_size, f"{command.line} writes something")
        return "\n".join(self.end()) if "Ctrl-C ends it" in command.shown else ""

    def end(self) -> list[str]:
        """Ends what goes on, as Ctrl-C does; returns what is wrong."""
        for process, _ in self.lasting.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
        codes = {line: process.wait(COMMAND_SECONDS) for line, (process, _) in self.lasting.items()}
        texts = {line: output.read_text() for line, (_, output) in self.lasting.items()}
        self.lasting.clear()
        return [
            f"$ {line}\n{texts[line]}[{code}]"
            for line, code in codes.items()
            if code not in good_codes(line) | INTERRUPTED or "Traceback" in texts[line]
        ]


def good_codes(line: str) -> set[int]:
    matching = [codes for pattern, codes in CODES.items() if re.fullmatch(pattern, line)]
    return matching[0] if matching else {0}


def is_json(text: str) -> bool:
    try:
        return bool(text) and text[0] in '["{' and json.loads(text) is not None
    except ValueError:
        return False


def opened_shell(folder: Path, values: dict[str, str]) -> Shell:
    """Returns a shell in whose folder there are keys of a node, and the values of the chart that the page shows."""
    assert run("init", "--dir", str(folder / "own")).exit_code == 0
    made = said(run("keys", "new", "--trust", str(folder / "own" / "keys.yaml"), "--json"))
    (folder / "own" / "keys.yaml").rename(folder / "keys.yaml")
    (shown,) = re.findall(r"```yaml\n(images: .*?)```", (ROOT / "k8s" / "OPERATE.md").read_text(), flags=re.S)
    (folder / "my-values.yaml").write_text(shown)
    return Shell(folder, values | {"node": made["node"], "key_id": made["key_id"]})
