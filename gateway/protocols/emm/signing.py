"""Signs packets: the sender, and the tags that prove it."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b

from gateway.auth.keyring import GatewayIdentity
from gateway.auth.verification import hmac_sha256, public_of, sign_ed25519, verify_ed25519
from gateway.core.reasons import Reason, Rejected
from gateway.protocols.emm.frames import MESSAGE_ID_BYTES, VALUE_BYTES, Field, FieldType

_FIELD_HEAD_BYTES = 2


@dataclass(frozen=True, slots=True)
class Signer:
    """The node a packet names, and its keys: with none, the packet is not authenticated.

    `announce` adds the public key itself (13), for receivers that may not have it.
    """

    node: bytes
    key_id: bytes | None = None
    hmac: bytes | None = field(default=None, repr=False)
    ed25519_private: bytes | None = field(default=None, repr=False)
    announce: bool = False

    @classmethod
    def of(cls, identity: GatewayIdentity) -> Signer:
        return cls(identity.node, identity.key_id, identity.hmac, identity.ed25519_private)

    def fields(self) -> list[Field]:
        """Returns the fields that are signed with the rest of the packet: 14, 13 and 18."""
        fields = [Field(FieldType.NODE_ID, self.node)]
        if self.announce and self.ed25519_private is not None:
            fields.append(Field(FieldType.PUBLIC_KEY, public_of(self.ed25519_private)))
        if self.key_id is not None:
            fields.append(Field(FieldType.AUTH_KEY_ID, self.key_id))
        return fields

    @property
    def tags_bytes(self) -> int:
        """The bytes that the tags take. Payload Length is signed, so they must be known before the tags."""
        hmac = 0 if self.hmac is None else _FIELD_HEAD_BYTES + VALUE_BYTES[FieldType.HMAC]
        signature = 0 if self.ed25519_private is None else _FIELD_HEAD_BYTES + VALUE_BYTES[FieldType.SIGNATURE]
        return hmac + signature

    def tags(self, signed: bytes) -> list[Field]:
        """Returns the tags 10 and 12, both over the same canonical bytes."""
        tags = []
        if self.hmac is not None:
            tags.append(Field(FieldType.HMAC, hmac_sha256(self.hmac, signed)))
        if self.ed25519_private is not None:
            tags.append(Field(FieldType.SIGNATURE, sign_ed25519(self.ed25519_private, signed)))
        return tags


def signing_identity(identity: GatewayIdentity | None) -> GatewayIdentity:
    if identity is None:
        raise Rejected(Reason.UNTRANSLATABLE, "the gateway has no identity to sign with")
    return identity


def message_id(event_id: str, identity: GatewayIdentity, purpose: bytes) -> bytes:
    """Returns an id that is random to everybody else, and the same for the same event.

    So a repeat after a crash is the same packet.
    """
    key = identity.ed25519_private
    return blake2b(event_id.encode(), digest_size=MESSAGE_ID_BYTES, key=key, person=purpose).digest()


REFUSED_REMEMBERED = 4_096
"""The most refusals that are remembered, at half a kilobyte each."""
_refused: set[tuple[bytes, bytes, bytes]] = set()


def is_signed_by(public: bytes, signed: bytes, signature: bytes) -> bool:
    """True if the signature is right. What `columns` finds to be wrong the plain path looks at again, to say so;
    without a memory a wrong signature would cost twice what a right one does."""
    packet = public, signed, signature
    if packet in _refused:
        return False
    if verify_ed25519(*packet):
        return True
    if len(_refused) >= REFUSED_REMEMBERED:
        _refused.clear()
    _refused.add(packet)
    return False
