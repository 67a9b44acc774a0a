"""The carrier of WebSockets (RFC 6455), on the sans-IO protocol of `websockets`.

A protocol of bytes gets the payloads as one stream, whatever the messages cut (settled for yamp); one of texts gets one
whole message at a time. We send each frame, or message, in a message of its own.

    listener   request ─► origin, path ─► 101 ─► messages ─► close frames, both ways ─► the server closes TCP
    link       request ◄─ sent by us      101 ─► messages ─► …

A kilobyte of compressed messages may become a megabyte. So they are opened piece by piece; once `SLICE_BYTES` have come
out, or the session has enough to do, the rest of what was read waits for the stream's turn.
"""

from __future__ import annotations

import asyncio
import http
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from websockets.client import ClientProtocol
from websockets.exceptions import PayloadTooBig
from websockets.extensions.permessage_deflate import (
    ClientPerMessageDeflateFactory,
    ServerPerMessageDeflateFactory,
)
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from gateway.config import Listener
from gateway.core.address import Address
from gateway.core.reasons import Reason, Rejected
from gateway.edge.carriers.carrier import Carrier, CarrierHost
from gateway.edge.carriers.read_control import READ_BYTES
from gateway.edge.logins import Logins
from gateway.edge.metrics import ConnectionGauge
from gateway.protocols.actions import CloseReason

MESSAGE_HEAD_BYTES = 1_024
"""A message may be so much longer than the largest frame: what stands in front of a frame's largest part."""
BEARER_SUBPROTOCOL = "bearer."
BATCH_BYTES = 65_536
"""However small a listener's frames must be, a message may hold several."""
REQUEST_BYTES = 32_768
"""A request to become a WebSocket has at most so many bytes, and what came with its end: four times what web servers
allow a whole header, because nobody is known by then, and thousands may ask at once."""
PIECE_BYTES = 1_024
"""Opened at once: a megabyte comes out of it at most, and what was missing of the message before."""
SLICE_BYTES = READ_BYTES
"""A peer without compression sends so many bytes in one read."""
WINDOW_BITS = 12
"""The window of permessage-deflate, both ways: 4 KiB and little memory for each connection, as `websockets` has it."""
_DEFLATE = {"memLevel": 5}

_quiet = logging.getLogger(f"{__name__}.protocol")
_quiet.setLevel(logging.WARNING)  # `websockets` tells of each connection that opens and closes

_DATA = frozenset({Opcode.TEXT, Opcode.BINARY, Opcode.CONT})
_CLOSE_CODES = {
    "bye": CloseCode.NORMAL_CLOSURE,
    "redirect": CloseCode.GOING_AWAY,
    CloseReason.DRAIN: CloseCode.GOING_AWAY,
    CloseReason.IDLE: CloseCode.GOING_AWAY,
    CloseReason.OVERLOAD: CloseCode.TRY_AGAIN_LATER,
    CloseReason.OVER_BUDGET: CloseCode.TRY_AGAIN_LATER,
    CloseReason.NOT_LOGGED: CloseCode.INTERNAL_ERROR,
    CloseReason.INTERNAL: CloseCode.INTERNAL_ERROR,
    Reason.TOO_LARGE: CloseCode.MESSAGE_TOO_BIG,
    Reason.BAD_ENCODING: CloseCode.INVALID_DATA,
}
"""What is not here is a policy's (1008). The slug goes with it, for a protocol that has no words of its own."""

Check = Callable[[Request], http.HTTPStatus | None]
"""Why a request may not become a WebSocket; None if it may."""


class UpgradeChecks(NamedTuple):
    """Says how a listener judges requests: `check` says why one is refused, `logins` judge the tokens in them."""

    check: Check
    logins: Logins


class WebSocketCarrier(Carrier):
    """Carries a session over a WebSocket.

    `protocol` is our side of it. `text` is true if the protocol's messages are text. `admits` decides whether a request
    to a listener may become a WebSocket.
    """

    def __init__(
        self,
        host: CarrierHost,
        standing: ConnectionGauge,
        address: str,
        deadline: float,
        protocol: ServerProtocol | ClientProtocol,
        *,
        text: bool,
        admits: UpgradeChecks | None = None,
    ) -> None:
        super().__init__(host, standing, address, deadline)
        self._protocol = protocol
        self._text = text
        self._check = admits.check if admits is not None else None
        self._logins = admits.logins if admits is not None else None
        self._parts = bytearray()
        """The fragments of a text that is not whole yet."""
        self._request_bytes = 0
        self._unopened = bytearray()
        """Has been read and waits for `go_on`."""
        self._upgrade_timer: asyncio.TimerHandle | None = None

    # -- the beginning -----------------------------------------------------------------------------------------

    def _connected(self) -> None:
        self._upgrade_timer = self._loop.call_at(self.deadline, self._too_late)
        if isinstance(self._protocol, ClientProtocol):
            self._protocol.send_request(self._protocol.connect())
            self._flush()

    def _too_late(self) -> None:
        self.standing.ended(Reason.TIMEOUT)
        self.abort()

    def _check_request(self, protocol: ServerProtocol, request: Request) -> None:
        response = protocol.accept(request)
        refused = (self._check(request) if self._check is not None else None) or self._log_in(request)
        if refused is not None and protocol.handshake_exc is None:
            response = protocol.reject(refused, f"{refused.phrase}\n")
        protocol.send_response(response)
        self._answered(response)

    def _log_in(self, request: Request) -> http.HTTPStatus | None:
        """Takes over who the request's token names. Where no token is taken, the header is somebody else's."""
        if self._logins is None or not self._logins.are_configured or (token := token_in(request)) is None:
            return None
        try:
            self.identity = self._logins.verify(token, confidential=self.is_confidential)
        except Rejected:
            return http.HTTPStatus.UNAUTHORIZED
        return None

    def _answered(self, response: Response) -> None:
        self._no_more_waiting()
        self._flush()
        if response.status_code == http.HTTPStatus.SWITCHING_PROTOCOLS and self._protocol.handshake_exc is None:
            self._begin()
        else:
            self.standing.ended("handshake")
            self.close("handshake")

    def _no_more_waiting(self) -> None:
        if self._upgrade_timer is not None:
            self._upgrade_timer.cancel()

    # -- what the peer sends -----------------------------------------------------------------------------------

    def _received(self, data: memoryview, now: float) -> None:
        self._unopened += data
        if self.connection is None:
            self._request_bytes += len(data)
            self.go_on(now)
            if self.connection is None and self._request_bytes > REQUEST_BYTES and not self._closing:
                self._refuse_long_request()
            return
        self.connection.count_kept(len(data))
        if not self.connection.session.has_more:
            self.go_on(now)

    def _refuse_long_request(self) -> None:
        self._no_more_waiting()
        if isinstance(self._protocol, ServerProtocol) and self._protocol.handshake_exc is None:
            status = http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            self._protocol.send_response(self._protocol.reject(status, f"{status.phrase}\n"))
            self._flush()
        self.standing.ended(Reason.TOO_LARGE)
        self.close(Reason.TOO_LARGE)

    @property
    def held_bytes(self) -> int:
        return super().held_bytes + len(self._unopened) + len(self._protocol.reader.buffer) + len(self._parts)

    @property
    def has_more(self) -> bool:  # type: ignore[override]
        return bool(self._unopened)

    def go_on(self, now: float) -> None:
        opened_bytes = 0
        while self._unopened and opened_bytes < SLICE_BYTES and not self._closing:
            piece_bytes = PIECE_BYTES if self._protocol.extensions else READ_BYTES
            piece = bytes(self._unopened[:piece_bytes])
            del self._unopened[:piece_bytes]
            opened_bytes += self._open(piece, now)
            if self.connection is not None and self.connection.session.has_more:
                break
        if self._closing:
            self._unopened.clear()

    def _open(self, piece: bytes, now: float) -> int:
        """Handles what is whole with this piece, and returns how many bytes of messages that was."""
        opened_bytes = 0
        self._protocol.receive_data(piece)
        for event in self._protocol.events_received():
            if isinstance(event, Frame):
                opened_bytes += len(event.data)
                self._take(event, now)
            elif isinstance(event, Response):
                self._answered(event)
            elif isinstance(self._protocol, ServerProtocol):
                self._check_request(self._protocol, event)
        self._flush()
        if self._protocol.close_expected() and not self._closing:
            self._ended_by_protocol()
        return opened_bytes

    def _take(self, frame: Frame, now: float) -> None:
        """Pings have been answered by the protocol, and a close frame too; what comes after it is not ours to read."""
        if frame.opcode not in _DATA or self.connection is None:
            return
        if frame.opcode is not Opcode.CONT and (frame.opcode is Opcode.TEXT) != self._text:
            kind = "text" if self._text else "binary"
            self._protocol.fail(CloseCode.UNSUPPORTED_DATA, f"messages are {kind} here")
            self.connection.fail(Reason.BAD_ENCODING, f"a message that is not {kind}")
        elif not self._text:
            self.connection.receive(bytes(frame.data), now)
        else:
            self._parts += frame.data
            if frame.fin:
                message = bytes(self._parts)
                self._parts.clear()
                self.connection.receive(message, now)

    def _ended_by_protocol(self) -> None:
        """A close frame has gone out, or the peer broke the rules of WebSockets and has been told."""
        broken = self._protocol.parser_exc
        if self.connection is None:
            self.standing.ended("handshake")
            self.close("handshake")
        elif isinstance(broken, PayloadTooBig):
            self.connection.fail(Reason.TOO_LARGE, str(broken))
        elif broken is not None:
            self.connection.fail(Reason.MALFORMED, f"WebSocket: {broken}")
        else:
            self.connection.receive_eof()

    def _ended(self) -> None:
        self._no_more_waiting()
        self._unopened.clear()
        self._parts.clear()
        self._protocol.receive_eof()
        if self.connection is not None:
            self.connection.receive_eof()

    # -- what the peer is sent ---------------------------------------------------------------------------------

    def write(self, messages: list[bytes]) -> None:
        if self._protocol.state is not State.OPEN:
            return
        send = self._protocol.send_text if self._text else self._protocol.send_binary
        for message in messages:
            send(message)
        self._flush()

    def _flush(self) -> None:
        # An empty item is the end of our side: `close` sees to that.
        self._put_out(b"".join(self._protocol.data_to_send()))

    def _say_goodbye(self, reason: str) -> None:
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(_CLOSE_CODES.get(reason, CloseCode.POLICY_VIOLATION), str(reason))
        self._flush()


def serving(protocol: str, frame_bytes: int, *, text: bool) -> ServerProtocol:
    """Returns our side of a connection that a peer opens."""

    def choose(_: ServerProtocol, offered: Sequence[Subprotocol]) -> Subprotocol | None:
        """A browser that offers some gives up where none is taken, so the first will do if ours is not among them."""
        named = [offer for offer in offered if not offer.startswith(BEARER_SUBPROTOCOL)]
        return next(
            (protocol_name for protocol_name in named if protocol_name.lower() == protocol), next(iter(named), None)
        )

    return ServerProtocol(
        extensions=[
            ServerPerMessageDeflateFactory(
                server_max_window_bits=WINDOW_BITS, client_max_window_bits=WINDOW_BITS, compress_settings=_DEFLATE
            )
        ],
        select_subprotocol=choose,
        max_size=_largest(frame_bytes, text=text),
        logger=_quiet,
    )


def dialling(address: Address, frame_bytes: int, *, text: bool) -> ClientProtocol:
    """Returns our side of a connection that we open."""
    return ClientProtocol(
        parse_uri(str(address)),
        extensions=[ClientPerMessageDeflateFactory(client_max_window_bits=True, compress_settings=_DEFLATE)],
        max_size=_largest(frame_bytes, text=text),
        logger=_quiet,
    )


def _largest(frame_bytes: int, *, text: bool) -> tuple[int | None, int]:
    """Returns the largest message, and the largest fragment of one.

    A text is kept until it is whole. In a stream of bytes the protocol knows where a frame ends, and what comes is
    consumed.
    """
    fragment_bytes = max(frame_bytes, BATCH_BYTES) + MESSAGE_HEAD_BYTES
    return fragment_bytes if text else None, fragment_bytes


def token_in(request: Request) -> str | None:
    """Returns the token that a handshake presents.

    A browser cannot set `Authorization`; it offers the token as a subprotocol beside the protocol's own name.
    """
    for header in request.headers.get_all("Authorization"):
        scheme, _, token = header.partition(" ")
        if scheme.lower() == "bearer":
            return token.strip()
    offered = ",".join(request.headers.get_all("Sec-WebSocket-Protocol")).split(",")
    names = (offer.strip() for offer in offered)
    return next((name.removeprefix(BEARER_SUBPROTOCOL) for name in names if name.startswith(BEARER_SUBPROTOCOL)), None)


def check_of(listener: Listener) -> Check:
    """Returns the check of requests: the listener's path, if it has one, and the pages that its `origins` let in."""

    def check(request: Request) -> http.HTTPStatus | None:
        path = request.path.partition("?")[0]
        if listener.address.path not in ("", path):
            return http.HTTPStatus.NOT_FOUND
        origins, hosts = request.headers.get_all("Origin"), request.headers.get_all("Host")
        if len(origins) > 1 or len(hosts) != 1:
            return http.HTTPStatus.BAD_REQUEST
        if not listener.lets_in(origins[0] if origins else None, hosts[0]):
            return http.HTTPStatus.FORBIDDEN
        return None

    return check
