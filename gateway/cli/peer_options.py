"""Options of the verbs that speak to a mesh as one of its peers: which protocol, where, and how it is secured."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, fields, replace
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from pydantic import ValidationError

from gateway.auth import trust_file
from gateway.auth.keyring import GatewayIdentity, KeyRing, trusting
from gateway.cli.console import CommandError, UnavailableError, note
from gateway.cli.contexts import CONTEXT_VARIABLE, choose_context, complete_context
from gateway.cli.numbers import Seconds
from gateway.cli.options import config_option, logging_options, read_config
from gateway.client import (
    ClientError,
    DatagramClient,
    EndedError,
    KeyNotFoundError,
    PacketKey,
    RefusedError,
    StreamClient,
    TlsFiles,
    UnreachableError,
    connect_emm,
    find_key,
    open_client,
)
from gateway.client.address import peer_address
from gateway.client.carriers.stream import tls_context
from gateway.client.connecting import CONNECT_SECONDS, redirected
from gateway.client.driver import REFUSED
from gateway.client.packets import EMM
from gateway.client.reconnect import stay
from gateway.config import Config, Listener
from gateway.config.loading import DEFAULT_PATHS
from gateway.core.address import Address, is_this_machine
from gateway.core.reasons import Rejected
from gateway.core.yaml_files.faults import ConfigError
from gateway.core.yaml_files.source import read_source
from gateway.protocols import protocols
from gateway.protocols.spec import ProtocolSpec

Verb = TypeVar("Verb", bound=Callable[..., Any])
ResultT = TypeVar("ResultT")

DEFAULT_PROTOCOL = "yamp"
SECONDS = Seconds(min=0, min_open=True)
"""The type of a timeout."""
LEAST_CONNECT_SECONDS = 1.0
"""A handshake of any protocol is through by then, unless its peer speaks another."""
NOT_UNDERSTOOD = frozenset({"malformed", "truncated", "too_large", "unknown_type", "unsupported_version"})
"""The reasons for which a session ends if the two sides speak different protocols; before it is open, `eof` too."""
UNRESOLVED_OPTIONS = "gateway.cli.unresolved_options"
"""The key under which the values of -o are found as they were written, without what their references stand for."""
PASSWORD_VARIABLE = "MESHGATE_PASSWORD"  # noqa: S105 - its name
SPOKEN_SCHEMES = frozenset({"tcp", "tls", "ws", "wss", "udp", "quic"})


@dataclass(frozen=True)
class PeerOptions:
    """The peer that the options describe. With `of_context` they come from a context, and no configuration is read."""

    config_file: str | None
    via: str
    to: str | None = None
    key: str | None = None
    tls: bool = False
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_server_name: str | None = None
    protocol_options: dict[str, Any] = field(default_factory=dict)
    password_file: Path | None = None
    token_file: Path | None = None
    of_context: bool = False

    @property
    def spec(self) -> ProtocolSpec[Any]:
        return protocols()[self.via]

    def config(self) -> Config | None:
        """The configuration, if one is named or found. Raises ConfigError."""
        if self.config_file is None and (self.of_context or not any(path.is_file() for path in DEFAULT_PATHS)):
            return None
        return read_config(self.config_file)

    def address(self) -> Address:
        """Returns the address as named; else the first listener's of the protocol; else the protocol's port here."""
        wants_tls = self.tls or self.tls_ca is not None or self.tls_cert is not None
        if self.to is not None:
            return self._named(self.to, wants_tls)
        config = self.config()
        for listener in config.listeners if config is not None else ():
            if self._fits(listener, wants_tls):
                return replace(listener.address, at=listener.address.at.reachable)
        return peer_address(self.spec, "127.0.0.1", tls=wants_tls)

    def _named(self, where: str, wants_tls: bool) -> Address:
        """Returns the named address. A bad address is a usage error, and not a peer that cannot be reached."""
        try:
            return peer_address(self.spec, where, tls=wants_tls, password=self._password())
        except UnreachableError as wrong:
            raise click.UsageError(str(wrong)) from None

    def _fits(self, listener: Listener, wants_tls: bool) -> bool:
        address = listener.address
        return (
            listener.protocol == self.via
            and address.scheme in SPOKEN_SCHEMES
            and address.port != 0
            and (address.has_tls or not wants_tls)
        )

    async def open_stream(self, url: str | None = None, *, connect_seconds: float = CONNECT_SECONDS) -> StreamClient:
        """Opens a session, and logs in where a token is given. Raises UnreachableError, RefusedError."""
        address = self.address()
        if url is not None:
            address = redirected(self.spec, address, url)
        token = self._token_for(address)
        client = await open_client(
            self.via,
            address,
            options=self.protocol_options,
            tls=self._context() if address.has_tls else None,
            server_name=self.tls_server_name,
            connect_seconds=connect_seconds,
        )
        if token:
            try:
                await client.log_in(token)
            except BaseException:
                await client.close()
                raise
        return client

    def _token_for(self, address: Address) -> str:
        """Returns the token, read for each session because tokens are renewed. In clear anybody could read it."""
        if self.token_file is None:
            return ""
        if not address.has_tls and not is_this_machine(address.host):
            raise CommandError(f"--token-file: {address} has no TLS; a token goes there only over TLS")
        return _secret_in(self.token_file, "--token-file")

    def _password(self) -> str:
        """Returns the password. It is never an argument: every user of the machine can read those."""
        if self.password_file is None:
            return os.environ.get(PASSWORD_VARIABLE, "")
        return _secret_in(self.password_file, "--password-file")

    def _context(self) -> ssl.SSLContext:
        try:
            return tls_context(self.tls_ca, self.tls_cert, self.tls_key)
        except (OSError, ValueError) as failed:
            raise CommandError(f"--tls-ca, --tls-cert, --tls-key: {failed}") from None

    # -- emm -----------------------------------------------------------------------------------------------------

    @property
    def is_emm(self) -> bool:
        return self.via == EMM

    def connect_emm(self, *, verify: bool = False) -> AbstractAsyncContextManager[DatagramClient]:
        """Signs with --key, else as the gateway where a configuration is found, else not at all."""
        config = self.config()
        trust = None if config is None else trust_file.load(config.trust, entry=config.identity.key)
        identity = None if trust is None else trust.identity
        keys = None if trust is None else trusting(trust.keys, identity)
        if verify and keys is None:
            raise CommandError("--verify needs a trust store: name a configuration with -c")
        tls = TlsFiles(self.tls_ca, self.tls_cert, self.tls_key, self.tls_server_name)
        key = self._packet_key(keys, identity)
        return connect_emm(str(self.address()), key=key, keys=keys, verify=verify, tls=tls)

    def note_unsigned(self) -> None:
        """Warns that packets are not signed: the sender of a datagram never hears of its refusal."""
        if self.key is not None:
            return
        if (config := self.config()) is None:
            where = f"no {DEFAULT_PATHS[0]} here; most listeners refuse it"
            note(f"not signed: {where}. Name a configuration with -c, or a key with --key")
        elif trust_file.load(config.trust, entry=config.identity.key).identity is None:
            note(f"not signed: {config.trust} has no keys of the gateway; most listeners refuse it. See meshgate check")

    def _packet_key(self, keys: KeyRing | None, identity: GatewayIdentity | None) -> PacketKey | None:
        if self.key is None:
            return None if identity is None else PacketKey.of(identity)
        try:
            return find_key(self.key, keys, identity)
        except KeyNotFoundError as wrong:
            raise CommandError(f"--key: {wrong}") from None

    def check_options(self, **of_emm: object) -> None:
        """Refuses what another protocol than the chosen one takes; by the options' names."""
        if self.spec.session is None and not self.is_emm:
            raise click.UsageError(
                f"--via {self.via}: it has no sessions, and the command line speaks no protocol of datagrams but emm"
            )
        named = [name for name, value in {**of_emm, "key": self.key}.items() if value]
        if named and not self.is_emm:
            raise click.UsageError(f"--{named[0].replace('_', '-')} is for emm only, and this is {self.via}")
        if self.is_emm and self.token_file is not None:
            raise click.UsageError("--token-file is for protocols with sessions; emm signs its packets: see --key")

    def check_sessions(self) -> None:
        """Checks the options of a verb that makes requests."""
        if self.is_emm:
            raise click.UsageError("emm has no requests: choose another protocol with --via")
        self.check_options()

    # -- protocols with sessions -----------------------------------------------------------------------------------

    async def use_stream(
        self,
        use: Callable[[StreamClient], Awaitable[ResultT]],
        *,
        reconnect: bool = False,
        seconds: float | None = None,
    ) -> ResultT:
        """Runs `use` with a session, which must open within `seconds`, the caller's time, but has at least a second."""
        limit = CONNECT_SECONDS if seconds is None else min(max(seconds, LEAST_CONNECT_SECONDS), CONNECT_SECONDS)
        return await stay(partial(self.open_stream, connect_seconds=limit), use, reconnect=reconnect)

    # -- in vain -----------------------------------------------------------------------------------------------------

    def hint(self, failed: ClientError) -> str:
        """Returns the most likely cause of the failure, to stand behind what happened."""
        if failed.why == REFUSED:
            own_port = self.to is None and self.config() is None
            tried = f" (no {DEFAULT_PATHS[0]} here: {self.via}'s own port was tried)" if own_port else ""
            return f": is a mesh running there? (meshgate up){tried}"
        if _is_strange(failed):
            return f"; does that address speak {self.via}? see --via and --to"
        return ""


def _secret_in(file: Path, option: str) -> str:
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as failed:
        raise CommandError(f"{option}: {failed}") from None


def _is_strange(failed: ClientError) -> bool:
    """A session that opens without a handshake finds it out by the first frame."""
    cause = failed.__cause__ if isinstance(failed, UnreachableError) else failed
    if isinstance(cause, EndedError):
        return cause.reason in NOT_UNDERSTOOD or (cause.reason == "eof" and cause is not failed)
    return isinstance(cause, TimeoutError)


PEER_NAMES = tuple(option.name for option in fields(PeerOptions) if option.name != "of_context")


def peer_options(verb: Verb) -> Verb:
    """Adds `peer: Peer`, the log's options, and -c."""

    @wraps(verb)
    def with_peer(context_name: str | None, **options: Any) -> Any:
        return verb(peer=_peer({name: options.pop(name) for name in PEER_NAMES}, context_name), **options)

    context = click.option(
        "--context",
        "context_name",
        metavar="NAME",
        shell_complete=complete_context,
        help=f"Address, protocol and credentials, as `context add` kept them.  [default: ${CONTEXT_VARIABLE}, "
        "else the selected one]",
    )
    decorated: Verb = context(connection_options(with_peer))
    return decorated


def _peer(options: dict[str, Any], context_name: str | None) -> PeerOptions:
    """Returns the peer: the command line goes before the context."""
    current = click.get_current_context()
    from_command_line = {
        name for name in PEER_NAMES if current.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    chosen = choose_context(context_name, says_where=bool(from_command_line & {"to", "config_file"}))
    if chosen is None:
        return PeerOptions(**options)
    values = {
        **options,
        "config_file": None,
        **_as_given(chosen.values),
        **{name: options[name] for name in from_command_line},
    }
    return PeerOptions(**values, of_context=True)


def _as_given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of a context, as their options would have given them."""
    current = click.get_current_context()
    parameters = {parameter.name: parameter for parameter in current.command.params}
    return {name: parameters[name].process_value(current, value) for name, value in values.items()}


def connection_options(verb: Callable[..., Any]) -> Any:
    """The options that `PeerOptions` is made of, and the log's."""
    path = click.Path(exists=True, dir_okay=False, path_type=Path)
    decorated: Any = verb
    for option in reversed((
        click.option("--via", type=click.Choice(sorted(protocols())), default=DEFAULT_PROTOCOL, show_default=True,
                     help="The protocol to speak."),
        click.option("--to", metavar="ADDRESS",
                     help="HOST:PORT or a url; behind an XMPP server xmpp://USER@HOST/COMPONENT.  "
                     "[default: the configuration's first listener, else the own port here]"),
        click.option("--key", metavar="KEY", help="What packets are signed with: a file of `keys new --output json`, "
                     "NODE/KEY_ID of the trust store, or `gateway`.  [default with -c: gateway]"),
        click.option("--tls", is_flag=True, help="Use TLS (emm: QUIC) where --to has no scheme."),
        click.option("--tls-ca", type=path, metavar="FILE", help="Who signed the peer's certificate (PEM)."),
        click.option("--tls-cert", type=path, metavar="FILE", help="Our certificate (PEM)."),
        click.option("--tls-key", type=path, metavar="FILE", help="Its private key (PEM)."),
        click.option("--tls-server-name", metavar="NAME", help="The name in the peer's certificate."),
        click.option("--password-file", type=path, metavar="FILE", help="The password of the user in an xmpp:// url.  "
                     f"[default: ${PASSWORD_VARIABLE}]"),
        click.option("--token-file", type=path, metavar="FILE",
                     help="A token (JWT) to log in with, over TLS or to this machine."),
        click.option("-o", "protocol_options", metavar="NAME=VALUE", multiple=True, callback=_protocol_options,
                     help="An option of the protocol, as a listener has it: -o formats=[msgpack]; with ${NAME} and "
                     "${file:PATH} put in, for secrets."),
        config_option,
        logging_options,
    )):  # fmt: skip
        decorated = option(decorated)
    return decorated


def _protocol_options(context: click.Context, option: click.Parameter, pairs: tuple[str, ...]) -> dict[str, Any]:
    context.meta[UNRESOLVED_OPTIONS] = pairs
    chosen: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair} is not NAME=VALUE", context, option)
        try:
            source = read_source(value, name, Path())
        except ConfigError:
            raise click.BadParameter(f"the value of {name} is no YAML", context, option) from None
        for fault in source.faults:
            raise click.BadParameter(f"{name}: {fault.expected}", context, option)
        chosen[name] = source.data
    return chosen


def run(talk: Coroutine[Any, Any, ResultT], peer: PeerOptions) -> ResultT:
    """Runs it; whatever stands between us and the peer ends in one line that names the peer."""
    try:
        return asyncio.run(talk)
    except RefusedError as refused:
        raise CommandError(str(refused)) from None
    except ClientError as failed:
        raise UnavailableError(f"{failed}{peer.hint(failed)}") from None
    except Rejected as refused:
        raise CommandError(f"this protocol cannot say it: {refused}") from None
    except ValidationError as wrong:
        raise CommandError(f"-o {_option_fault(wrong)}") from None


def _option_fault(wrong: ValidationError) -> str:
    first = wrong.errors(include_url=False)[0]
    unknown = first["type"] == "extra_forbidden"
    return f"{'.'.join(map(str, first['loc']))}: {'the protocol has no such option' if unknown else first['msg']}"
