"""`meshgate rules`: streaming Spark SQL whose results are events."""

from __future__ import annotations

import signal
import sys
import threading
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click
import yaml

from gateway.cli.bodies import body_text
from gateway.cli.console import CommandError, Exit, Output, note, printable, show, show_line
from gateway.cli.options import (
    common_options,
    config_group,
    dir_option,
    logging_options,
    output_option,
    read_config,
    unread_config_option,
)
from gateway.cli.signals import stop_on_signals
from gateway.config import ConfigError
from gateway.core.quantity import quantity

if TYPE_CHECKING:
    from gateway.config.settings import RuleSettings
    from gateway.records.raw_log.control_frames import RuleEvent


@config_group("rules")
def command() -> None:
    """Rules: streaming Spark SQL over the table `events`; each row found is a new event."""


@command.command("run")
@click.option("--master", metavar="URL", help="The Spark master.  [default: local[32]]")
@click.option("--ready-file", type=click.Path(path_type=Path), help="A file that exists as long as all rules run.")
@common_options
@dir_option
def run(
    config_file: str | None, state_dir: Path | None, master: str | None, ready_file: Path | None, output: Output
) -> None:
    """Run the configuration's rules, and follow its changes. SIGHUP reads it again.

    It waits up to half a minute for Kafka, which may be on its way up.
    """
    from streaming_jobs.rules.job import RulesJob

    stop = threading.Event()
    stop_on_signals(stop.set)
    config = read_config(config_file, state_dir)
    names = [rule.name for rule in config.rules]
    fields = {"event": "ready", "part": "rules", "rules": names}
    job = RulesJob(config, master, ready_file, lambda: show_line(fields, output, f"ready  {', '.join(names)}"))
    signal.signal(signal.SIGHUP, lambda *_: job.reload())
    job.run(stop)


@command.command("check", short_help="Compile every rule, without running any.")
@common_options
def check(config_file: str | None, output: Output) -> int:
    """Compile every rule, without running any (`validate` does the same, and more)."""
    from streaming_jobs.rules.faults import rule_faults

    config = read_config(config_file)
    if not config.rules:
        note(f"{config.path.name} has no rules")
        return Exit.OK
    if faults := rule_faults(config):
        raise ConfigError(faults)
    for rule in config.rules:
        show_line({"rule": rule.name, "valid": True}, output, f"{rule.name}: good")
    return Exit.OK


@command.command("test", short_help="Try rules on recorded events.")
@click.argument("events", type=click.File("r"))
@click.option("--rule", "name", metavar="NAME", help="Try this rule only.")
@click.option(
    "--rules", "rules_file", type=click.Path(dir_okay=False, exists=True), help="Take the rules from this file."
)
@common_options
def test(events: TextIO, name: str | None, rules_file: str | None, config_file: str | None, output: Output) -> None:
    """Try rules on recorded EVENTS (a file of JSON lines, or `-`) and show what they would find.

    `meshgate tap --at events --format json` records such lines. Every window of time is closed at the end of the file.
    """
    from streaming_jobs.rules.recorded import RecordedError, read_recorded

    rules = [rule for rule in _rules(config_file, rules_file) if name in (None, rule.name)]
    if not rules:
        raise CommandError(f"there is no rule {name}" if name else "there are no rules")
    try:
        recorded = read_recorded(events)
    except RecordedError as wrong:
        raise CommandError(f"{events.name}: {wrong}") from None
    note(f"{quantity(len(rules), 'rule')} over {quantity(len(recorded), 'event')}")
    count = 0
    for result in _try(rules, recorded):
        count += 1
        _show(result, output)
    note(f"{count} found")


@command.command("examples")
@output_option
@unread_config_option
@logging_options
def examples(output: Output) -> None:
    """Print rules to begin with, as they stand in a configuration."""
    text = (resources.files("streaming_jobs.rules") / "examples.yaml").read_text()
    show(yaml.safe_load(text), output, text.rstrip())


def _rules(config_file: str | None, rules_file: str | None) -> list[RuleSettings]:
    """Returns the rules of the configuration, or of a file that holds only rules, such as the examples."""
    if rules_file is None:
        return list(read_config(config_file).rules)
    from gateway.config import parse

    text = Path(rules_file).read_text(encoding="utf-8")
    indented = "\n".join(f"  {line}" for line in text.splitlines())
    return list(parse(f"mesh: rules\nrules:\n{indented}\n", Path(rules_file)).rules)


def _try(rules: list[RuleSettings], recorded: list[tuple[object, ...]]) -> list[RuleEvent]:
    from pyspark.errors import PySparkException

    from streaming_jobs.rules.batch_run import try_rules
    from streaming_jobs.rules.check import check_rules, explain
    from streaming_jobs.spark.events_table import SETTINGS
    from streaming_jobs.spark.session import BRIEF_JVM, brief, start_spark

    spark = start_spark("meshgate-rules-test", "local[2]", SETTINGS, jvm_options=BRIEF_JVM)
    with brief(spark):
        try:
            if faults := check_rules(spark, rules).faults:
                errors = [f"rule {rules[place].name}: {why}" for place, why in sorted(faults.items())]
                raise CommandError("; ".join(errors))
            return list(try_rules(spark, rules, recorded))
        except PySparkException as failed:
            raise CommandError(explain(failed)) from None


def _show(result: RuleEvent, output: Output) -> None:
    fields = {"rule": result.rule, "subject": result.subject, "body": result.body, "content_type": result.content_type}
    more = {"origin": result.origin, "encoding": result.encoding}
    body = body_text(result.body.encode())
    show_line(
        {**fields, **{name: value for name, value in more.items() if value}},
        output,
        printable(f"{result.rule}: {result.subject}  {body}" + (f"  (from {result.origin})" if result.origin else "")),
    )
    sys.stdout.flush()
