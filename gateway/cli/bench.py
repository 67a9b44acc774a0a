"""`meshgate bench`: load for a mesh, and what became of it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import click

from gateway.auth import trust_file
from gateway.auth.keyring import trusting
from gateway.bench.capacity import check_memory, check_sockets
from gateway.bench.compare import compared, read
from gateway.bench.machine import roots_of
from gateway.bench.marker import RUN_DIGITS, Marker
from gateway.bench.measure import PROBE_SECONDS, READY_SECONDS, WAIT_SECONDS, Setup, measure
from gateway.bench.messages import BenchTlsFiles, PeerPlace
from gateway.bench.packets import PacketTemplate
from gateway.bench.plot import svg
from gateway.bench.report import Document, document, text
from gateway.bench.self_benchmark import flat_out, measure_alone
from gateway.bench.signing_keys import AUTO, bench_keys, for_signing, sample_key, unsigned_keys
from gateway.bench.worker_processes import BenchError
from gateway.bench.workload import Sign, WorkError, Workload
from gateway.cli.console import Output, UnavailableError, note, show
from gateway.cli.numbers import Number, Seconds, Whole
from gateway.cli.options import common_options, grouped
from gateway.cli.peer_options import SECONDS, PeerOptions
from gateway.client import KeyNotFoundError, PacketKey, find_key
from gateway.config import Config
from gateway.inspect.live.mesh_parts import edge_parts
from gateway.protocols import protocols

_protocol = click.Choice(sorted(protocols()))
_file = click.Path(exists=True, dir_okay=False, path_type=Path)
_new_file = click.Path(dir_okay=False, path_type=Path)
_many = Whole(min=1)
_positive = Number(min=0, min_open=True)


@dataclass(frozen=True)
class BenchEnds:
    """The two ends of a run: where the load goes in and where it comes out, and who waits for it there."""

    config_file: str | None
    from_address: str | None
    to_address: str | None
    tls_ca: Path | None
    tls_cert: Path | None
    tls_key: Path | None
    receivers: int
    wait_seconds: float

    @property
    def config(self) -> Config | None:
        return self._peer("emm", None).config()

    @property
    def watched(self) -> Config | None:
        """The configuration of the mesh, if both ends are its own."""
        return self.config if self.from_address is None and self.to_address is None else None

    def check_mesh(self) -> None:
        """Raises SetupError where no edge answers: else that is found out when nothing has come through for long."""
        if (config := self.watched) is not None:
            edge_parts(config)[0].text("/healthz/live")

    def setup(self, work: Workload, ours: list[PacketKey], theirs: list[PacketKey]) -> Setup:
        if ours:
            _check_size(work, ours[0])
        origin = self._place(work.origin, self.from_address, ours)
        target = self._place(work.target, self.to_address, theirs)
        setup = Setup(origin=origin, target=target, receivers=self.receivers, wait_seconds=self.wait_seconds)
        if (config := self.watched) is None:
            return setup
        roots = roots_of(config.state_dir / "state" / "running.json")
        return replace(setup, roots=roots, edge=edge_parts(config)[0])

    def _place(self, protocol: str, where: str | None, keys: list[PacketKey]) -> PeerPlace:
        address = self._peer(protocol, where).address()
        if protocols()[protocol].session is None and address.scheme != "udp":
            raise WorkError(f"{address}: {protocol} is measured over udp:// alone")
        files = (None if path is None else str(path) for path in (self.tls_ca, self.tls_cert, self.tls_key))
        return PeerPlace(protocol, str(address), tuple(keys), BenchTlsFiles(*files))

    def _peer(self, protocol: str, where: str | None) -> PeerOptions:
        ca, cert, key = self.tls_ca, self.tls_cert, self.tls_key
        return PeerOptions(self.config_file, protocol, where, tls_ca=ca, tls_cert=cert, tls_key=key)


@dataclass(frozen=True)
class BenchFiles:
    """The files of a run: a plot, the run to compare with, and where to keep this one."""

    plot: Path | None
    compare: Path | None
    save: Path | None

    def last(self) -> Document | None:
        return None if self.compare is None else read(self.compare)

    def write(self, found: Document) -> None:
        if self.plot is not None:
            self.plot.write_text(svg(found))
        if self.save is not None:
            self.save.write_text(json.dumps(found) + "\n")


@click.command("bench")
@click.option(
    "--from",
    "origin",
    type=_protocol,
    default="emm",
    show_default=True,
    help="The protocol of those that publish, or ask.",
)
@click.option(
    "--to",
    "target",
    type=_protocol,
    default="emm",
    show_default=True,
    help="The protocol of those that subscribe, or answer.",
)
@click.option("--request", is_flag=True, help="Send requests and time their answers, instead of events.")
@click.option("--rate", type=_positive, default=1_000.0, show_default=True, help="Frames a second, all together.")
@click.option("--seconds", type=SECONDS, default=8.0, show_default=True, help="How long to measure.")
@click.option(
    "--warm-up", type=Seconds(min=0), default=2.0, show_default=True, help="How long to send before it is measured."
)
@click.option(
    "--size",
    type=_many,
    default=200,
    show_default=True,
    help="Bytes of an emm packet, or of a body of any other protocol.",
)
@click.option(
    "--sign",
    type=click.Choice([way.value for way in Sign]),
    default=Sign.HMAC.value,
    show_default=True,
    help="What proves emm packets.",
)
@click.option(
    "--key",
    default=AUTO,
    show_default=True,
    metavar="KEY",
    help="What signs them: `auto` puts a node for each session into the trust store until the run ends; "
    "else as for `pub`: a file, NODE/KEY_ID, `gateway`.",
)
@click.option(
    "--sessions", type=_many, default=16, show_default=True, help="Publishing (or asking) sessions, used in turn."
)
@click.option(
    "--fan-out",
    type=_many,
    default=1,
    show_default=True,
    help="Subscribers that each get every frame (with --request: servers).",
)
@click.option("--receivers", type=_many, default=1, show_default=True, help="Processes the subscribers run in.")
@click.option(
    "--wait",
    "wait_seconds",
    type=SECONDS,
    default=WAIT_SECONDS,
    show_default=True,
    help="How long to wait for missing frames after the last was sent.",
)
@click.option("--from-address", metavar="ADDRESS", help="HOST:PORT or a url.  [default: the configuration's listener]")
@click.option("--to-address", metavar="ADDRESS", help="The same for those that subscribe, or answer.")
@click.option("--tls-ca", type=_file, metavar="FILE", help="Who signed the mesh's certificate (PEM); uses TLS.")
@click.option("--tls-cert", type=_file, metavar="FILE", help="Our certificate (PEM).")
@click.option("--tls-key", type=_file, metavar="FILE", help="Its private key (PEM).")
@click.option("--plot", type=_new_file, metavar="FILE", help="Draw the latencies into FILE (SVG).")
@click.option(
    "--compare", type=_file, metavar="LAST.json", help="Show this run as ratios of the one that was saved there."
)
@click.option("--save", type=_new_file, metavar="FILE", help="Write the result into FILE too, for a later --compare.")
@click.option(
    "--self", "alone", is_flag=True, help="Measure the tool itself, without a mesh: what it can do, and what it adds."
)
@common_options
@grouped("ends", BenchEnds)
@grouped("files", BenchFiles)
def command(
    output: Output, ends: BenchEnds, files: BenchFiles, sign: str, key: str, alone: bool, **workload_options: object
) -> None:
    """Send load at a fixed rate through the mesh, and show how long each frame took and what it cost.

    A frame's latency counts from when it was due, also where it was sent late. Without addresses the load goes through
    the mesh of the configuration, whose processes are watched for what they cost.
    """
    run = secrets.token_hex(RUN_DIGITS // 2)
    work = Workload(run=run, sign=Sign(sign), **workload_options)  # type: ignore[arg-type]
    try:
        work.check()
        check_sockets(work.sessions + work.fan_out)
        check_memory(work.frames_bytes)
        last = files.last()
        if alone:
            report = _alone(work, ends.wait_seconds)
        else:
            with _keys(work, key, ends) as (ours, theirs):
                setup = ends.setup(work, ours, theirs)
                ends.check_mesh()
                report = document(measure(work, setup, note))
    except WorkError as wrong:
        raise click.UsageError(str(wrong)) from None
    except BenchError as failed:
        raise UnavailableError(str(failed)) from None
    if last is not None:
        report["compared"] = compared(report, last)
    files.write(report)
    show(report, output, text(report))


def _alone(work: Workload, wait_seconds: float) -> Document:
    if (work.origin, work.target, work.fan_out) != ("emm", "emm", 1):
        raise WorkError("--self: from emm to one subscriber of emm")
    return {**document(measure_alone(work, wait_seconds, note)), "flat_out": flat_out(work, note)}


@contextmanager
def _keys(work: Workload, name: str, ends: BenchEnds) -> Iterator[tuple[list[PacketKey], list[PacketKey]]]:
    """Yields the keys of the publishing sessions and of the subscribing ones; none if the protocol has none.

    The trust store is only written where the run can begin.
    """
    config = ends.config
    publishing = work.sessions if work.is_signed else 0
    subscribing = work.fan_out if work.target == "emm" else 0
    unsigned = unsigned_keys(work.sessions) if work.origin == "emm" and not work.is_signed else []
    if not publishing + subscribing:
        yield unsigned, []
    elif name != AUTO:
        key = _named(name, config)
        if subscribing > 1:
            raise WorkError(f"--fan-out {work.fan_out}: a node of emm has one lease; choose --key auto")
        yield unsigned or [for_signing(key, work.sign)] * min(publishing, 1), [key] * subscribing
    elif config is None:
        raise WorkError("--key: without a configuration there is no trust store to put keys into; name a key")
    else:
        if work.is_signed:
            _check_size(work, for_signing(sample_key(), work.sign))
        ends.check_mesh()
        seconds = READY_SECONDS + PROBE_SECONDS + 2 * (work.warm_up + work.seconds)
        with bench_keys(config.trust, publishing + subscribing, seconds, datetime.now(UTC)) as keys:
            yield unsigned or [for_signing(key, work.sign) for key in keys[:publishing]], keys[publishing:]


def _check_size(work: Workload, key: PacketKey) -> None:
    """Raises WorkError."""
    PacketTemplate(key.signer, work.subject, work.size, Marker(work.run), 0)


def _named(name: str, config: Config | None) -> PacketKey:
    trust = None if config is None else trust_file.load(config.trust, entry=config.identity.key)
    identity = None if trust is None else trust.identity
    try:
        return find_key(name, None if trust is None else trusting(trust.keys, identity), identity)
    except KeyNotFoundError as wrong:
        raise WorkError(f"--key: {wrong}") from None
