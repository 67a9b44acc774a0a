"""Both layers of wolpertinger as tables.

Layer 1, a message (on a byte stream a line): pairs of metadata in any order, then the payload in base64.

    message_id:7;fragment_count:2;fragment_index:0;encryption:aes;gzip:38;oUDOFL0S...
    result:0;message_id:7;                                                             its confirmation

Layer 2, the payload: one of three XML messages, their elements in this order.

    RemoteMethodCall       ComponentName, CallId, MethodName, Parameters (objects)
    RemoteMethodResponse   ComponentName, CallId, ResponseValue (an object, or none)
    RemoteError            ComponentName, ErrorCode, CallId (only if a call caused it)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

from gateway.core.reasons import MeshError, Reason, Rejected

NAMESPACE = "http://nerdcave.eu/wolpertinger"

LINE_BYTES = 65_536
"""The size of one layer-1 message: room for a piece of 30,500 characters twice over, as XMPP servers allow for a
stanza."""

PIECE_CHARACTERS = 30_500
"""We split above this, as the original does, so that a piece with its metadata fits into any XMPP stanza."""

MAX_PIECES = 1024
WHOLE_BYTES = 1_048_576
"""The size of a split message, in base64; a gateway's own setting may say otherwise (`frame_bytes`)."""

MAX_XML_BYTES = WHOLE_BYTES // 4 * 3 - 16
"""What base64 makes `WHOLE_BYTES` of, with a whole block of padding: no peer need take more from us."""

MAX_OBJECTS = 4_096
"""The most objects in one message, those of lists included. The edge looks at each: so many keep its thread for 5 ms,
and a kilobyte of gzip can hold them."""

ID_LIMIT = 1 << 32
CALL_ID_CHARACTERS = 36
CALL_ID_BYTES = 16

ASKED = 4
ANSWERED_TO_NOBODY = 8
"""Versions of the CallIds that we give (RFC 9562: random, and custom): of calls whose answer somebody waits for, and of
all others. So what peers answer to events is told from late answers without remembering any of them."""


class Result(IntEnum):
    """The result that a confirmation carries."""

    SUCCESS = 0
    TIMEOUT = 1
    UNKNOWN = 2
    SPLITTING = 3
    ENCRYPTION = 4
    FORMAT = 5


class RemoteErrorCode(IntEnum):
    """The code that a RemoteError carries."""

    UNSPECIFIED = 100
    SECURITY = 200
    NOT_AUTHORISED = 201
    ENCRYPTION = 202
    SIGNATURE = 203
    REQUEST = 300
    INVALID_XML = 301
    UNKNOWN_MESSAGE = 302
    METHOD_NOT_FOUND = 303
    COMPONENT_NOT_FOUND = 304
    INVALID_PARAMETERS = 305
    UNSUPPORTED_TYPE = 306
    RESPONSE = 400
    INVALID_RESPONSE = 401
    FILE_SERVER = 500
    MOUNT = 501
    ITEM_NOT_FOUND = 502


CODE_OF = {
    MeshError.NO_RESPONDER: RemoteErrorCode.COMPONENT_NOT_FOUND,
    MeshError.TIMEOUT: RemoteErrorCode.RESPONSE,
    MeshError.FORBIDDEN: RemoteErrorCode.NOT_AUTHORISED,
    MeshError.BAD_REQUEST: RemoteErrorCode.INVALID_PARAMETERS,
    MeshError.UNDELIVERABLE: RemoteErrorCode.RESPONSE,
    MeshError.INTERNAL: RemoteErrorCode.UNSPECIFIED,
}
"""The mesh's own errors. No response came, whether by time or because its server went: 400 both."""

SLUG_OF = {
    RemoteErrorCode.COMPONENT_NOT_FOUND: MeshError.NO_RESPONDER,
    RemoteErrorCode.METHOD_NOT_FOUND: MeshError.NO_RESPONDER,
    RemoteErrorCode.RESPONSE: MeshError.TIMEOUT,
    RemoteErrorCode.NOT_AUTHORISED: MeshError.FORBIDDEN,
    RemoteErrorCode.INVALID_PARAMETERS: MeshError.BAD_REQUEST,
    RemoteErrorCode.UNSPECIFIED: MeshError.INTERNAL,
}


class TrustLevel(IntEnum):
    NONE = 0
    CONNECTED = 1
    ENCRYPTED = 2
    CLUSTER = 3
    USER = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """A layer-1 message that carries payload: a whole one, or one fragment of it.

    `text` is the base64; `gzip` the length after compression and before encryption, None if it is not compressed.
    """

    message_id: int
    text: bytes
    gzip: int | None = None
    encrypted: bool = False
    index: int = 0
    count: int = 1


@dataclass(frozen=True, slots=True)
class Confirmation:
    message_id: int
    result: int


class BadTransmission(Rejected):
    """A layer-1 message that is refused with a result code; without one (`Rejected`) there is nothing to answer to."""

    def __init__(self, result: Result, reason: Reason, detail: str, message_id: int) -> None:
        super().__init__(reason, detail)
        self.result = result
        self.message_id = message_id


@dataclass(frozen=True, slots=True)
class Object:
    """A typed value: of a list a tuple of objects, of a type we do not know its XML as text, else what JSON has."""

    type: str
    value: str | int | float | bool | tuple[Object, ...]


@dataclass(frozen=True, slots=True)
class Call:
    component: str
    call_id: str
    method: str
    parameters: tuple[Object, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.component}.{self.method}" if self.component else self.method


@dataclass(frozen=True, slots=True)
class CallResponse:
    """A response. `value` is None if the method has a response but no value."""

    component: str
    call_id: str
    value: Object | None = None


@dataclass(frozen=True, slots=True)
class RemoteError:
    """An error of the other side. `call_id` is empty if no call of the peer's caused it."""

    component: str
    code: int
    call_id: str = ""


def new_call_id(token: bytes, version: int) -> str:
    """Returns a UUID of 16 random bytes. The versions that Python makes itself end at 5."""
    number = int.from_bytes(token, "big") & ~(0xF << 76) & ~(0x3 << 62)
    return str(UUID(int=number | version << 76 | 0x2 << 62))


Message = Call | CallResponse | RemoteError


class BadMessage(Rejected):
    """A layer-2 message that is answered with a RemoteError.

    `component` and `call_id` are what could be read of it; `answers` that it was meant as the end of a call of ours.
    """

    def __init__(
        self,
        code: RemoteErrorCode,
        detail: str,
        *,
        component: str = "",
        call_id: str = "",
        answers: bool = False,
        reason: Reason = Reason.BAD_XML,
    ) -> None:
        super().__init__(reason, detail)
        self.code = code
        self.component = component
        self.call_id = call_id
        self.answers = answers
