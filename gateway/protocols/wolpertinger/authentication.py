"""The component `Authentication`: how trust is gained, on either side of it.

    EstablishConnection() → boolean                                          level 1, connected
    KeyExchange(publicKey, iv) → publicKey                                   level 2, encrypted
    ClusterAuthGetToken() → token    ClusterAuthVerify(key) → boolean        level 3, the peer is `cluster:member`
    UserAuthGetToken() → token       UserAuthVerify(user, key) → boolean     level 4, the peer is `user:<name>`; needs 3
    AwardTrustLevel(level)                                                   peers tell what they think of us; no answer

Invariants
1. A token is proven once: the next verification needs another.
2. The level never falls. Only a member of the cluster may log in as a user; no other step asks for the one before it,
   because TLS can encrypt in place of the key exchange.
3. A cluster's key proves membership and no more, so all members are one node; the session tells them apart.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr

from gateway.auth.passwords import prove_password, verify_password
from gateway.core.reasons import Reason, Rejected
from gateway.protocols.wolpertinger.cipher import IV_BYTES, SCALAR_TOKEN_BYTES, Cipher, KeyPair
from gateway.protocols.wolpertinger.frames import (
    Call,
    CallResponse,
    Message,
    Object,
    RemoteError,
    RemoteErrorCode,
    TrustLevel,
)
from gateway.protocols.wolpertinger.objects import from_json
from gateway.protocols.wolpertinger.options import AuthOptions, Step

COMPONENT = "Authentication"
TOKEN_BYTES = 32
MAX_FAILED_PROOFS = 5
"""Then the session ends: each costs us a millisecond, and who knows the secret needs one."""

CLUSTER_NODE = "cluster:member"

Token = Callable[[int], bytes]
Question = tuple[str, tuple[str, ...]]
"""A method, and its parameters."""

Asked = Generator[Question, Any, "Gained"]


@dataclass(frozen=True, slots=True)
class Gained:
    """The gain of a step: a higher level, a cipher for all that is sent from now on, a proven node."""

    trust: TrustLevel = TrustLevel.NONE
    cipher: Cipher | None = field(default=None, repr=False)
    node: str = ""


NOTHING = Gained()


class Authority:
    """Answers the peer's calls, and remembers which secrets it has proven. `failed_proofs` counts wrong keys."""

    def __init__(self, auth: AuthOptions, token: Token) -> None:
        self._auth = auth
        self._token = token
        self._tokens: dict[str, bytes] = {}
        self._agreed = False
        self._cluster_key: SecretStr | None = None
        self._user: tuple[str, SecretStr] | None = None
        self.failed_proofs = 0

    def answer(self, call: Call, trust: TrustLevel) -> tuple[Message | None, Gained]:
        """Returns what a peer of this level is told, and what holds afterwards. None: the method has no response."""
        method = _METHODS.get(call.method.lower())
        if method is None:
            return _error(call, RemoteErrorCode.METHOD_NOT_FOUND), NOTHING
        required, types, respond = method
        if trust < required:
            return _error(call, RemoteErrorCode.NOT_AUTHORISED), NOTHING
        if tuple(item.type for item in call.parameters) != types:
            return _error(call, RemoteErrorCode.INVALID_PARAMETERS), NOTHING
        try:
            value, gained = respond(self, *(item.value for item in call.parameters))
        except _Refused as refused:
            return _error(call, refused.code), NOTHING
        if value is None:
            return None, gained
        return CallResponse(call.component, call.call_id, value), gained

    def establish_connection(self) -> tuple[Object, Gained]:
        return from_json(True), Gained(TrustLevel.CONNECTED)

    def award_trust_level(self, _level: int) -> tuple[None, Gained]:
        return None, NOTHING

    def exchange_keys(self, public_key: str, iv: str) -> tuple[Object, Gained]:
        """Makes one key for the session. A second exchange is refused."""
        blob, iv_bytes = _base64(public_key), _base64(iv)
        if len(iv_bytes) != IV_BYTES:
            raise _Refused(RemoteErrorCode.INVALID_PARAMETERS)
        if self._agreed:
            raise _Refused(RemoteErrorCode.ENCRYPTION)
        pair = KeyPair.from_token(self._token(SCALAR_TOKEN_BYTES))
        try:
            key = pair.agree(blob)
        except ValueError:
            raise _Refused(RemoteErrorCode.ENCRYPTION) from None
        self._agreed = True
        return _as_base64(pair.blob), Gained(TrustLevel.ENCRYPTED, Cipher(key, iv_bytes))

    def cluster_token(self) -> tuple[Object, Gained]:
        return self._new_token("cluster"), NOTHING

    def user_token(self) -> tuple[Object, Gained]:
        return self._new_token("user"), NOTHING

    def _new_token(self, purpose: str) -> Object:
        self._tokens[purpose] = token = self._token(TOKEN_BYTES)
        return _as_base64(token)

    def verify_cluster(self, key: str) -> tuple[Object, Gained]:
        proven = self._proven("cluster", self._auth.cluster_key, key)
        if proven:
            self._cluster_key = self._auth.cluster_key
        return from_json(proven), Gained(TrustLevel.CLUSTER, node=CLUSTER_NODE) if proven else NOTHING

    def verify_user(self, user: str, key: str) -> tuple[Object, Gained]:
        proven = self._proven("user", self._auth.users.get(user), key)
        if proven:
            self._user = user, self._auth.users[user]
        return from_json(proven), Gained(TrustLevel.USER, node=f"user:{user}") if proven else NOTHING

    def reconfigure(self, auth: AuthOptions) -> None:
        """Takes over the secrets that the peer must know from now on."""
        self._auth = auth

    def holds_under(self, auth: AuthOptions) -> bool:
        """True if the secrets that the peer has proven to know are still those of its cluster and user."""
        has_cluster = self._cluster_key in (None, auth.cluster_key)
        return has_cluster and (self._user is None or auth.users.get(self._user[0]) == self._user[1])

    def _proven(self, purpose: str, secret: SecretStr | None, key: str) -> bool:
        """No such secret, no token asked for and a wrong key look the same from outside."""
        token = self._tokens.pop(purpose, None)
        expected = None if secret is None or token is None else secret.get_secret_value()
        proven = verify_password(expected, token or b"", _base64(key))
        self.failed_proofs += not proven
        return proven


class _Refused(Exception):
    def __init__(self, code: RemoteErrorCode) -> None:
        super().__init__(code)
        self.code = code


_METHODS: dict[str, tuple[TrustLevel, tuple[str, ...], Callable[..., tuple[Object | None, Gained]]]] = {
    "establishconnection": (TrustLevel.NONE, (), Authority.establish_connection),
    "keyexchange": (TrustLevel.NONE, ("string", "string"), Authority.exchange_keys),
    "clusterauthgettoken": (TrustLevel.NONE, (), Authority.cluster_token),
    "clusterauthverify": (TrustLevel.NONE, ("string",), Authority.verify_cluster),
    "userauthgettoken": (TrustLevel.CLUSTER, (), Authority.user_token),
    "userauthverify": (TrustLevel.CLUSTER, ("string", "string"), Authority.verify_user),
    "awardtrustlevel": (TrustLevel.NONE, ("int32",), Authority.award_trust_level),
}
"""The methods in lower case: the level each needs, the types of its parameters, and its handler."""


def is_authentication(call: Call) -> bool:
    return call.component.lower() == COMPONENT.lower()


def _error(call: Call, code: RemoteErrorCode) -> RemoteError:
    return RemoteError(call.component, code, call.call_id)


def _base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _Refused(RemoteErrorCode.INVALID_PARAMETERS) from None


def _as_base64(data: bytes) -> Object:
    return Object("string", b64encode(data).decode())


# -- the caller's side ---------------------------------------------------------------------------------------------


def log_in(step: Step, auth: AuthOptions, user: str, token: Token) -> Asked:
    """Runs one step as a conversation. Raises Rejected if the peer does not play along.

    It yields a method and its parameters, is sent the value of the response, and returns what was gained.
    """
    match step:
        case "connect":
            _accepted((yield "EstablishConnection", ()))
            return Gained(TrustLevel.CONNECTED)
        case "encrypt":
            return (yield from _agree(token))
        case "cluster":
            challenge = _decoded((yield "ClusterAuthGetToken", ()))
            _accepted((yield "ClusterAuthVerify", (_proof(auth.cluster_key, challenge),)))
        case "user":
            challenge = _decoded((yield "UserAuthGetToken", ()))
            _accepted((yield "UserAuthVerify", (user, _proof(auth.users.get(user), challenge))))
    # The peer knows who we are; who it is has been proven by nothing.
    return NOTHING


def _agree(token: Token) -> Asked:
    pair, iv = KeyPair.from_token(token(SCALAR_TOKEN_BYTES)), token(IV_BYTES)
    blob = _decoded((yield "KeyExchange", (b64encode(pair.blob).decode(), b64encode(iv).decode())))
    try:
        return Gained(TrustLevel.ENCRYPTED, Cipher(pair.agree(blob), iv))
    except ValueError:
        raise _not_played_along() from None


def _proof(secret: SecretStr | None, challenge: bytes) -> str:
    if secret is None:
        raise Rejected(Reason.UNAUTHENTICATED, "no secret to log in with")
    return b64encode(prove_password(secret.get_secret_value(), challenge)).decode()


def _accepted(value: Any) -> None:
    if value is not True:
        raise _not_played_along()


def _decoded(value: Any) -> bytes:
    try:
        return _base64(value)
    except (TypeError, _Refused):
        raise _not_played_along() from None


def _not_played_along() -> Rejected:
    return Rejected(Reason.UNAUTHENTICATED, "the peer refused our login, or answered it with nonsense")
