"""`meshgate check`: looks for what is wrong with a mesh and its machine, and says what to do."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import click

from gateway.checkup import GROUPS, Checkup
from gateway.checkup.findings import Finding, Level, worst
from gateway.checkup.parts import PROBE_SECONDS, probe_path
from gateway.cli.check_text import as_document, as_json, as_line, as_nagios, as_prometheus, summary
from gateway.cli.console import timestamp
from gateway.cli.local_mesh import MeshFolder
from gateway.cli.numbers import Seconds, Whole
from gateway.cli.options import config_option, dir_option, grouped, logging_options, output_choice
from gateway.cli.part_options import edges_option, router_option
from gateway.config import Config, find_config, load
from gateway.core.address import HostPort
from gateway.core.errors import SetupError
from gateway.core.yaml_files.faults import ConfigError, Fault
from gateway.inspect.live.mesh_parts import MeshPart, edge_parts, router_part


class CheckOutput(StrEnum):
    TEXT = "text"
    JSON = "json"
    NAGIOS = "nagios"
    PROMETHEUS = "prometheus"


REPORTS: dict[CheckOutput, Callable[[Sequence[Finding]], str]] = {
    CheckOutput.TEXT: summary,
    CheckOutput.JSON: as_json,
    CheckOutput.NAGIOS: as_nagios,
    CheckOutput.PROMETHEUS: as_prometheus,
}


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """Says whether probes are sent, how often, and how many."""

    watch: bool
    interval: float
    count: int | None


@dataclass(frozen=True, slots=True)
class Where:
    """The mesh to look at: its configuration, and its parts where they run elsewhere."""

    config_file: str | None
    state_dir: Path | None
    edges: tuple[HostPort, ...]
    router: HostPort | None


@click.command("check")
@click.option(
    "--only",
    "groups",
    type=click.Choice(GROUPS),
    multiple=True,
    help="Look at this part only; may be repeated.  [default: everything]",
)
@click.option("--watch", is_flag=True, help="Afterwards send probes through the whole path, until Ctrl-C.")
@click.option(
    "--interval", type=Seconds(min=0), default=PROBE_SECONDS, show_default=True, help="The time between two probes."
)
@click.option("-n", "--count", type=Whole(min=1), help="End after COUNT probes.")
@edges_option
@router_option
@output_choice(CheckOutput, "Text for people, or what programs and monitoring systems read.")
@config_option
@dir_option
@logging_options
@grouped("where", Where)
@grouped("probes", ProbeOptions)
def command(where: Where, groups: tuple[str, ...], probes: ProbeOptions, output: CheckOutput) -> int:
    """Look at the configuration, this machine, Kafka, keys and certificates, permissions, and the parts of the mesh.

    Each line is ok, warn or fail, with what to do. Exit code 0: all is well, 1: there are warnings, 2: something is
    broken; as Nagios has it. Before the first start, --only machine; for a mesh that runs elsewhere, --only kafka
    --only trust --only parts, with --edge and --router. With --watch the exit code is that of the probes.
    """
    try:
        config = load(find_config(where.config_file), state_dir=where.state_dir)
    except ConfigError as faulty:
        return _report(map(_finding, faulty.faults), output)
    parts = [*edge_parts(config, where.edges), router_part(config, where.router)]
    checkup = Checkup(config, parts, _is_running(config, where.config_file, where.state_dir))
    code = _report(checkup.run(groups or GROUPS), output)
    return _report_probes(config, probes.interval, probes.count, output) if probes.watch else code


def _finding(fault: Fault) -> Finding:
    """A fault of the file itself, which may not be there, says by itself what to do."""
    return Finding("configuration", Level.FAIL, str(fault), "mend the file" if fault.path else "")


def _is_running(config: Config, config_file: str | None, state_dir: Path | None) -> bool:
    """A mesh runs here if `up` keeps it, or if a part of it answers where the configuration says."""
    record = MeshFolder(config_file, state_dir).record()
    here = [*edge_parts(config), router_part(config)]
    return (record is not None and record.is_running) or any(map(_answers, here))


def _answers(part: MeshPart) -> bool:
    try:
        part.readiness()
    except (SetupError, ValueError):
        return False
    return True


def _report(findings: Iterator[Finding], output: CheckOutput) -> Level:
    """Prints findings: for people each as it is made, else all of them together."""
    made = []
    for finding in findings:
        made.append(finding)
        if output is CheckOutput.TEXT:
            click.echo(as_line(finding))
    click.echo(REPORTS[output](made))
    return worst(made)


def _report_probes(config: Config, interval: float, count: int | None, output: CheckOutput) -> Level:
    level, sent = Level.OK, 0
    while sent != count:
        if sent:
            time.sleep(interval)
        finding = probe_path(config)
        level, sent = max(level, finding.level), sent + 1
        click.echo(_probe_line(finding, output))
    return level


def _probe_line(finding: Finding, output: CheckOutput) -> str:
    at = timestamp(time.time())
    if output is CheckOutput.TEXT:
        return f"{at}  {as_line(finding)}"
    if output is CheckOutput.JSON:
        return json.dumps({"time": at, **as_document(finding)}, ensure_ascii=False)
    return REPORTS[output]([finding])
