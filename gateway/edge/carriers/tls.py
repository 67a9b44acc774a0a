"""TLS of listeners and links: contexts that follow their files, and whom a certificate names."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from typing import Any, Literal

from cryptography import x509
from prometheus_client import Gauge

from gateway.auth.node_names import COMMON_NAME, node_of_alternative_name
from gateway.config import ConnectTls, Endpoint, ListenTls
from gateway.yaml_files.stamps import Stamp, stamps

log = logging.getLogger(__name__)


class TlsContext:
    """The context in force for one endpoint. A connection keeps the one it began with.

    Raises OSError (ssl.SSLError is one) or ValueError when there is nothing usable to begin with.
    """

    def __init__(self, endpoint: Endpoint, expiry: Gauge) -> None:
        self._name = endpoint.name
        self._settings: ListenTls | ConnectTls = getattr(endpoint, "tls", None) or ConnectTls()
        self._expiry = expiry
        self._stamps = self._stamp()
        self.context = self._make()

    @property
    def node_from(self) -> Literal["san", "cn"]:
        return self._settings.node_from

    @property
    def server_name(self) -> str | None:
        return self._settings.server_name if isinstance(self._settings, ConnectTls) else None

    def refresh(self) -> None:
        """Takes over files that have changed; broken ones change nothing."""
        found = self._stamp()
        if found == self._stamps:
            return
        self._stamps = found
        try:
            self.context = self._make()
        except (OSError, ValueError) as broken:
            log.warning("%s: the TLS files have changed and are of no use: %s", self._name, broken)
        else:
            log.info("%s: the TLS files have changed and are in force", self._name)

    def _make(self) -> ssl.SSLContext:
        context = context_of(self._settings)
        if self._settings.cert is not None:
            certificate = x509.load_pem_x509_certificate(self._settings.cert.read_bytes())
            self._expiry.set(certificate.not_valid_after_utc.timestamp())
        return context

    def _stamp(self) -> list[Stamp]:
        settings = self._settings
        authority = settings.client_ca if isinstance(settings, ListenTls) else settings.ca
        return stamps(path for path in (settings.cert, settings.key, authority) if path is not None)


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
    return context


def _client(settings: ConnectTls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=settings.ca)
    if settings.cert is not None:
        context.load_cert_chain(settings.cert, settings.key)
    return context


def node_of(certificate: Mapping[str, Any] | None, node_from: Literal["san", "cn"]) -> str:
    """Returns the first URI, else the first DNS name; or the common name. "" where the certificate has none."""
    if not certificate:
        return ""
    if node_from == "cn":
        names = [value for rdn in certificate.get("subject", ()) for name, value in rdn if name == "commonName"]
        return f"{COMMON_NAME}{names[0]}" if names else ""
    alternatives = certificate.get("subjectAltName", ())
    name = next((value for wanted in ("URI", "DNS") for kind, value in alternatives if kind == wanted), "")
    return node_of_alternative_name(name) if name else ""
