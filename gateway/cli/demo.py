"""`meshgate demo`: sample traffic from peers of every protocol."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import click

from gateway.cli.console import CommandError, Exit, Output, UnavailableError, note, show
from gateway.cli.numbers import Number, Seconds, Whole
from gateway.cli.options import common_options, read_config
from gateway.client import ClientError, RefusedError
from gateway.core.quantity import quantity
from gateway.demo.devices import MOST_DEVICES, Device, demo_devices
from gateway.demo.traffic import DEVICES, SUBSCRIBER, Demo, DemoCounts, DemoPlan, addresses_of
from gateway.inspect.live.mesh_parts import edge_parts
from gateway.protocols import protocols

DEMO_SECONDS, LONGEST_SECONDS = 60.0, 86_400.0
MOST_PER_SECOND = 100.0
"""What more there is to see at higher rates is for `meshgate bench`."""
PROGRESS_SECONDS = 5.0


@click.command("demo")
@click.option(
    "--seconds",
    type=Seconds(min=0, min_open=True, max=LONGEST_SECONDS),
    default=DEMO_SECONDS,
    show_default=True,
    help="How long to send.",
)
@click.option(
    "--rate",
    type=Number(min=0, min_open=True, max=MOST_PER_SECOND),
    default=2.0,
    show_default=True,
    help="Events a second of each peer.",
)
@click.option(
    "--devices", type=Whole(min=0, max=MOST_DEVICES), default=3, show_default=True, help="How many devices that sign."
)
@common_options
def command(config_file: str | None, output: Output, seconds: float, rate: float, devices: int) -> int:
    """Send sample traffic through the mesh of the configuration: something to look at, and a test of every protocol.

    \b
    devices       over emm, signed UDP; each with a label and a key of its own, which holds for a year
    an hsp PLC    publishes, and answers requests
    an emp client and a wolpertinger client, which publish, and ask the PLC
    a subscriber  over yamp, which counts what arrives

    Watch it with `meshgate top`, or on the edge's page. Exit code 1 if something that was sent did not arrive.
    """
    config = read_config(config_file)
    addresses = addresses_of(config)
    left_out = sorted(protocols().keys() - addresses.keys())
    if left_out:
        note(f"left out: {', '.join(left_out)}, without a listener that takes peers without certificates and tokens")
    if not addresses:
        raise CommandError("there is no listener that takes peers without certificates and tokens")
    made: list[Device] = []
    if DEVICES in addresses:
        edge_parts(config)[0].readiness()  # before keys are made: a datagram finds out nothing
        made = demo_devices(config, devices)
    if new := [device.name for device in made if device.is_new]:
        note(f"new keys in the trust store for {', '.join(new)}")
    demo = Demo(DemoPlan(addresses, tuple(made), seconds, rate))
    try:
        asyncio.run(_watched(demo))
    except* ClientError as failed:
        first = _first(failed)
        if isinstance(first, RefusedError):
            raise CommandError(f"{first}: what do its permissions say?") from None
        raise UnavailableError(f"{first}: is the mesh running? (meshgate up)") from None
    tally = demo.tally
    show(_document(tally, left_out), output, _summary(tally))
    has_all = SUBSCRIBER not in addresses or tally.received.total() >= tally.sent.total()
    return Exit.OK if has_all and not tally.failed else Exit.FAILURE


async def _watched(demo: Demo) -> None:
    """Says how far it is, now and then. SIGTERM ends it as Ctrl-C does."""
    # A container's first process is not ended by a signal that it has not asked for.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, signal.raise_signal, signal.SIGINT)
    running = asyncio.create_task(demo.run())
    while not (await asyncio.wait([running], timeout=PROGRESS_SECONDS))[0]:
        note(_summary(demo.tally))
    await running


def _first(failed: BaseExceptionGroup[ClientError]) -> BaseException:
    inner = failed.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


def _summary(tally: DemoCounts) -> str:
    by_protocol = ", ".join(f"{protocol} {count}" for protocol, count in sorted(tally.sent.items()))
    requests = f"; {tally.answered} of {tally.answered + tally.failed} requests answered"
    return f"sent {quantity(tally.sent.total(), 'event')} ({by_protocol}), received {tally.received.total()}{requests}"


def _document(tally: DemoCounts, left_out: list[str]) -> dict[str, Any]:
    return {
        "sent": dict(tally.sent),
        "received": dict(tally.received),
        "requests": {"answered": tally.answered, "failed": tally.failed},
        "left_out": left_out,
    }
