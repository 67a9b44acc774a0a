"""TLS of listeners and links: contexts that follow their files, and whom a certificate names."""

from __future__ import annotations

import logging
import math
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from prometheus_client import Gauge

from gateway.auth.node_names import COMMON_NAME, is_name, node_of_alternative_name
from gateway.config import ConnectTls, Endpoint, ListenTls
from gateway.core.yaml_files.stamps import Stamp, stamps
from gateway.edge.carriers.peer import NOBODY, PeerIdentity
from gateway.edge.carriers.revocation import RevocationLists

log = logging.getLogger(__name__)


class TlsContext:
    """The context in force for one endpoint. A connection keeps the one it began with.

    Raises OSError (ssl.SSLError is one) or ValueError when there is nothing usable to begin with.
    """

    def __init__(self, endpoint: Endpoint, expiry: Gauge, lists_expiry: Gauge) -> None:
        self._name, self._protocol = endpoint.name, endpoint.protocol
        self._settings: ListenTls | ConnectTls = getattr(endpoint, "tls", None) or ConnectTls()
        self._expiry, self._lists_expiry = expiry, lists_expiry
        self._stamps = self._stamp()
        self.authorities: frozenset[bytes] = frozenset()
        self.lists = RevocationLists()
        self.context = self._make()

    @property
    def node_from(self) -> Literal["san", "cn"]:
        return self._settings.node_from

    @property
    def server_name(self) -> str | None:
        return self._settings.server_name if isinstance(self._settings, ConnectTls) else None

    def still_trusts(self, certificate: bytes, authorities: frozenset[bytes]) -> bool:
        """True if a certificate would be taken now as well that was taken under these authorities.

        Where one of them is gone, only the certificate itself is at hand, without those between: if no authority has
        signed it directly, its holder has to come again with all of them.
        """
        leaf = x509.load_der_x509_certificate(certificate)
        if self.lists.has(leaf):
            return False
        return authorities <= self.authorities or any(_has_signed(each, leaf) for each in self.authorities)

    def refresh(self) -> bool:
        """Takes over files that have changed, and returns whether there are any; broken ones change nothing."""
        stamps_now = self._stamp()
        if stamps_now == self._stamps:
            return False
        self._stamps = stamps_now
        try:
            self.context = self._make()
        except (OSError, ValueError) as broken:
            log.warning("%s: the TLS files have changed and cannot be used: %s", self._name, broken)
        else:
            log.info("%s: the TLS files have changed and are in force", self._name)
            return True
        return False

    def _make(self) -> ssl.SSLContext:
        context = context_of(self._settings)
        authority, lists = self._authority(), RevocationLists(getattr(self._settings, "crl", None))
        self.authorities = frozenset() if authority is None else _certificates_in(authority)
        self.lists = lists
        self._lists_expiry.set(0 if lists.end == math.inf else lists.end)
        if self._settings.cert is not None:
            certificate = x509.load_pem_x509_certificate(self._settings.cert.read_bytes())
            self._expiry.set(certificate.not_valid_after_utc.timestamp())
        return context

    def _stamp(self) -> list[Stamp]:
        files = (self._settings.cert, self._settings.key, self._authority(), getattr(self._settings, "crl", None))
        return stamps(path for path in files if path is not None)

    def _authority(self) -> Path | None:
        return self._settings.client_ca if isinstance(self._settings, ListenTls) else self._settings.ca


def context_of(settings: ListenTls | ConnectTls) -> ssl.SSLContext:
    """Raises OSError (ssl.SSLError is one) or ValueError where the files are of no use."""
    context = _server(settings) if isinstance(settings, ListenTls) else _client(settings)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _server(settings: ListenTls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(settings.cert, settings.key)
    if settings.client_ca is not None:
        context.load_verify_locations(settings.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    if settings.crl is not None:
        context.load_verify_locations(settings.crl)
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
    return context


def _client(settings: ConnectTls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=settings.ca)
    if settings.cert is not None:
        context.load_cert_chain(settings.cert, settings.key)
    return context


def _certificates_in(file: Path) -> frozenset[bytes]:
    certificates = x509.load_pem_x509_certificates(file.read_bytes())
    return frozenset(each.public_bytes(serialization.Encoding.DER) for each in certificates)


def _has_signed(authority: bytes, leaf: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(x509.load_der_x509_certificate(authority))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


_UNKNOWN = frozenset((b"",))
"""Stands for the authorities of a context that was replaced while the peer shook hands."""


def proven_by(tls: ssl.SSLObject | None, secured: Callable[[], TlsContext | None]) -> PeerIdentity:
    """Returns who the peer's certificate names, "" where it names nobody, until when, and whether it holds still.

    `secured` gives the context in force: another one after a reload.
    """
    context = secured()
    certificate = None if tls is None else tls.getpeercert()
    encoded = None if tls is None else tls.getpeercert(binary_form=True)
    if context is None or not certificate or encoded is None:
        return NOBODY
    is_in_force = tls is not None and tls.context is context.context
    authorities = context.authorities if is_in_force else _UNKNOWN

    def holds() -> bool:
        now = secured()
        return now is not None and now.still_trusts(encoded, authorities)

    until = float(ssl.cert_time_to_seconds(str(certificate["notAfter"])))
    return PeerIdentity(node_of(certificate, context.node_from), until, holds)


def node_of(certificate: Mapping[str, Any] | None, node_from: Literal["san", "cn"]) -> str:
    """Returns the first URI, else the first DNS name; or the common name. "" where that is missing, or no name."""
    if not certificate:
        return ""
    if node_from == "cn":
        names = [value for rdn in certificate.get("subject", ()) for name, value in rdn if name == "commonName"]
        return f"{COMMON_NAME}{names[0]}" if names and is_name(names[0]) else ""
    alternatives = certificate.get("subjectAltName", ())
    name = next((value for name_kind in ("URI", "DNS") for kind, value in alternatives if kind == name_kind), "")
    return node_of_alternative_name(name) if is_name(name) else ""
