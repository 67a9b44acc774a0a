"""The mesh's one event model; every protocol maps to it and from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from gateway.core.ids import anonymous_node

SECOND_US = 1_000_000
"""The mesh tells time in microseconds since the epoch."""
NO_HEADERS: Mapping[str, str] = MappingProxyType({})

FOREIGN_KEY_HEADER = "emm-public-key"
"""The header with the public key that a datagram brought with it and that the trust store does not know: it proves who
holds that key, and not that this is the node the datagram names. Other protocols of datagrams may set it too."""
MESH_ERROR_HEADER = "mesh-error"
"""The header with the slug of an error of the mesh itself."""
SERVED_BESIDE_HEADER = "served-beside"
"""The header that says, on `no_responder`, that subjects are served which differ in their last tokens only."""
PROGRESSIVE_HEADER = "progressive"
"""`false` on a request whose requester wants no progress. Protocols without such a word want it."""


class Kind(StrEnum):
    EVENT = "event"
    REQUEST = "request"
    RESPONSE = "response"
    PROGRESS = "progress"
    ERROR = "error"
    CANCELLED = "cancelled"
    CANCEL = "cancel"

    @property
    def ends_request(self) -> bool:
        """A request is over for its requester once one of these has come."""
        return self in _FINAL

    @property
    def answers(self) -> bool:
        """Goes back to the requester instead of to those interested in the subject."""
        return self in _ANSWERS


_FINAL = frozenset({Kind.RESPONSE, Kind.ERROR, Kind.CANCELLED})
_ANSWERS = _FINAL | {Kind.PROGRESS}


class Auth(StrEnum):
    """The way in which the sender was proven."""

    NONE = "none"
    SESSION = "session"
    TLS = "tls"
    HMAC = "hmac"
    ED25519 = "ed25519"
    HMAC_ED25519 = "hmac+ed25519"


_UNPROVEN = Auth.NONE


@dataclass(slots=True)
class Event:
    """One event, not to be changed once made. It is not `frozen`, because making one would then take three times as
    long.

    `id` is `<partition>-<offset>-<index>` of its raw frame. Times are microseconds since the epoch. An event of the
    mesh itself has no session, peer or node.

    `message_id` is the sender's own id of this frame; `correlation` names the request that an answer or a cancel
    belongs to, in the words of the protocol it came by. `raw` is the frame as received, where the protocol can pass it
    on verbatim so that its origin's signature still holds; it is no part of what the event says.
    """

    id: str
    kind: Kind
    subject: str
    protocol: str
    listener: str = ""
    edge: str = ""
    session: str = ""
    peer: str = ""
    node: str = ""
    received_at: int = 0
    message_id: str = ""
    correlation: str = ""
    content_type: str = ""
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS)
    urgent: bool = False
    sent_at: int | None = None
    auth: Auth = _UNPROVEN
    key_id: str = ""
    raw: bytes = field(default=b"", repr=False, compare=False)

    @property
    def proves_node(self) -> bool:
        """False where `node` is only what the sender says of itself."""
        return self.auth is not _UNPROVEN and FOREIGN_KEY_HEADER not in self.headers

    @property
    def principal(self) -> str:
        """The sender as permissions know it. An edge has named a session's node; a datagram has to prove its own."""
        return self.node if self.session or self.proves_node else anonymous_node(self.edge, self.peer)

    @property
    def text(self) -> str | None:
        """The body if it is text."""
        try:
            return self.body.decode()
        except UnicodeDecodeError:
            return None
