"""The first event of a mesh: a signed packet through the whole path, and back to us as its subscriber."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import closing
from uuid import UUID, uuid4

from gateway.auth.keyring import GatewayIdentity
from gateway.config import Config, Listener
from gateway.core.errors import SetupError
from gateway.protocols.emm import codec
from gateway.protocols.emm.frames import EventType, Field, FieldType
from gateway.protocols.emm.signing import Signer

SUBJECT = "meshgate.probe"
HELLO_SECONDS = 2.0
"""A hello that brought no answer is sent again: a datagram may be lost, or the router not be there yet."""


def probed_listener(config: Config, identity: GatewayIdentity) -> Listener | None:
    """Returns the first listener that takes signed packets and whose permissions let the probe through.

    The permissions hold for the gateway's node too: it must be allowed to publish and receive the probe.
    """
    judge, node = config.permissions_policy(), str(UUID(bytes=identity.node))
    for listener in config.listeners:
        if (
            (listener.protocol, listener.address.scheme) == ("emm", "udp")
            and judge.may_publish(node, listener.name, SUBJECT)
            and judge.may_subscribe(node, listener.name, SUBJECT)
            and judge.may_receive(node, listener.name, SUBJECT)
        ):
            return listener
    return None


def send_probe(config: Config, identity: GatewayIdentity, seconds: float, stop: threading.Event) -> float | None:
    """Returns the seconds from socket to socket; None if it was stopped.

    Raises SetupError if nothing came through in time.
    """
    listener = probed_listener(config, identity)
    if listener is None:
        raise SetupError(f"there is no udp:// listener of emm where the gateway's node may publish and get {SUBJECT}")
    address = listener.address.host, listener.address.port
    deadline = time.monotonic() + seconds
    with closing(socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_DGRAM)) as sock:
        sock.settimeout(HELLO_SECONDS)
        while time.monotonic() < deadline and not stop.is_set():
            if not _subscribe(sock, address, identity):
                continue
            sent = time.perf_counter()
            mark = uuid4().hex
            texts = (SUBJECT, f"the first event {mark}")
            fields = tuple(Field(FieldType.STRING, text.encode()) for text in texts)
            sock.sendto(_packet(identity, EventType.EVENT, fields), address)
            if _comes_back(sock, mark.encode()):
                return time.perf_counter() - sent
    if stop.is_set():
        return None
    raise SetupError(f"no signed event came through within {seconds:.0f} s; see the router's log")


def _subscribe(sock: socket.socket, address: tuple[str, int], identity: GatewayIdentity) -> bool:
    """Sends a signed hello; True once the mesh has answered with its own."""
    capabilities = b'{"subscribe":["%s"]}' % SUBJECT.encode()
    sock.sendto(_packet(identity, EventType.HELLO, (Field(FieldType.BINARY, capabilities),)), address)
    try:
        sock.recv(2048)
    except (TimeoutError, ConnectionRefusedError):
        return False
    return True


def _comes_back(sock: socket.socket, mark: bytes) -> bool:
    """Returns True if the probe comes back, as it was sent or signed again."""
    try:
        while mark not in sock.recv(2048):  # a late answer to an earlier hello
            pass
    except TimeoutError:
        return False
    return True


def _packet(identity: GatewayIdentity, event_type: EventType, fields: tuple[Field, ...]) -> bytes:
    draft = codec.Draft(message_id=uuid4().bytes[:4], timestamp=int(time.time()), fields=fields, event_type=event_type)
    return codec.encode(draft, Signer.of(identity))
