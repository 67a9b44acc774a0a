"""The reasons for refusing a frame: the closed set of slugs in labels, headers and messages, and the stages."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    MALFORMED = "malformed"
    TRUNCATED = "truncated"
    TOO_LARGE = "too_large"
    UNKNOWN_TYPE = "unknown_type"
    UNSUPPORTED_VERSION = "unsupported_version"
    RESERVED_FLAGS = "reserved_flags"
    TLV_COUNT = "tlv_count"
    TLV_ORDER = "tlv_order"
    TLV_DUPLICATE = "tlv_duplicate"
    BAD_ENCODING = "bad_encoding"
    MISSING_NODE = "missing_node"
    MISSING_FIELD = "missing_field"
    UNAUTHENTICATED = "unauthenticated"
    UNKNOWN_KEY = "unknown_key"
    BAD_HMAC = "bad_hmac"
    BAD_SIGNATURE = "bad_signature"
    UNTRUSTED_KEY = "untrusted_key"
    EXPIRED_KEY = "expired_key"
    STALE = "stale"
    FUTURE = "future"
    REPLAY = "replay"
    BAD_CIPHERTEXT = "bad_ciphertext"
    BOMB = "bomb"
    BAD_XML = "bad_xml"
    BAD_SUBJECT = "bad_subject"
    FORBIDDEN = "forbidden"
    NO_RESPONDER = "no_responder"
    TIMEOUT = "timeout"
    UNTRANSLATABLE = "untranslatable"
    UNDELIVERABLE = "undeliverable"
    RATE_LIMITED = "rate_limited"
    OVERLOAD = "overload"
    INTERNAL = "internal"


class Stage(StrEnum):
    """The stage at which a frame was refused, or something that came of it."""

    LOG = "log"
    """What is no record of the raw log at all: there is no frame in it."""
    DECODE = "decode"
    MATCH = "match"
    DELIVER = "deliver"
    """What was accepted and could not be delivered: no matter of the frame itself."""


class MeshError(StrEnum):
    """The errors with which the mesh itself answers a request (gateway/docs/protocols.md, "Talking to the mesh
    itself")."""

    NO_RESPONDER = "no_responder"
    TIMEOUT = "timeout"
    FORBIDDEN = "forbidden"
    BAD_REQUEST = "bad_request"
    UNDELIVERABLE = "undeliverable"
    INTERNAL = "internal"


class Rejected(Exception):
    """Raised for input that is refused.

    `detail` is for people: it never holds payload or key material.
    `can_continue` says whether the stream the frame came from can go on after it; a datagram always can.
    """

    def __init__(self, reason: Reason, detail: str = "", *, can_continue: bool = True) -> None:
        super().__init__(f"{reason}: {detail}" if detail else str(reason))
        self.reason = reason
        self.detail = detail
        self.can_continue = can_continue
