"""`meshgate topics`: the mesh's topics, as a deployment needs them made, grown and checked."""

from __future__ import annotations

from dataclasses import asdict

import click

from gateway.cli.console import Exit, Output, note, show_table
from gateway.cli.numbers import Seconds
from gateway.cli.options import common_options, config_group, read_config
from gateway.kafka.topics import LOOK_SECONDS, TopicState, ensure_topics, grow_topics, topic_states

wait_option = click.option(
    "--wait",
    "wait_seconds",
    type=Seconds(min=0),
    default=LOOK_SECONDS,
    show_default=True,
    help="How long to wait for Kafka's answer; longer where it may be starting.",
)
COLUMNS = ("topic", "partitions", "wanted", "replication", "fits")


@config_group("topics")
def command() -> None:
    """The mesh's topics: kafka.partitions and kafka.topics of the configuration against what Kafka has.

    Edges and router create what is missing when they start. `topics describe` shows what does not fit, and
    `topics grow` adds partitions after the configuration was raised. Partitions never shrink.
    """


@command.command("create")
@wait_option
@common_options
def create(config_file: str | None, output: Output, wait_seconds: float) -> None:
    """Create the topics that are missing. Fails when one that is there does not fit."""
    config = read_config(config_file)
    ensure_topics(config, seconds=wait_seconds)
    _show(topic_states(config), output)


@command.command("grow", short_help="Create what is missing, and add partitions.")
@wait_option
@common_options
def grow(config_file: str | None, output: Output, wait_seconds: float) -> None:
    """Give topics the partitions that the configuration wants; create those that are missing.

    Partitions never shrink. Growing the raw topic moves nodes to other partitions: restart the router, then the edges,
    with the same configuration.
    """
    config = read_config(config_file)
    for was in grow_topics(config, seconds=wait_seconds):
        note(f"{was.topic}: {was.partitions} -> {was.wanted} partitions")
    _show(topic_states(config), output)


@command.command("describe")
@wait_option
@common_options
def describe(config_file: str | None, output: Output, wait_seconds: float) -> Exit:
    """Compare the topics with what is wanted. Fails when something is missing or does not fit."""
    states = topic_states(read_config(config_file), seconds=wait_seconds)
    _show(states, output)
    return Exit.OK if all(state.fits for state in states) else Exit.FAILURE


def _show(states: list[TopicState], output: Output) -> None:
    show_table([asdict(state) | {"fits": state.fits} for state in states], COLUMNS, output)
