"""TLS of a QUIC listener, which is its library's own."""

from __future__ import annotations

import ssl
from collections.abc import Sequence

from aioquic.quic.configuration import QuicConfiguration
from cryptography import x509

from gateway.carriers.quic import server_configuration
from gateway.config import ListenTls
from gateway.edge.carriers.tls import TlsContext


class QuicContext(TlsContext):
    """Holds the TLS configuration. `quic` is in force for the next connection."""

    quic: QuicConfiguration

    def lets_in(self, certificate: x509.Certificate, chain: Sequence[x509.Certificate]) -> bool:
        """Returns True if the lists that are in force have nothing against a client's certificate."""
        return self.lists.lets_in(certificate, [*chain, *map(x509.load_der_x509_certificate, self.authorities)])

    def _make(self) -> ssl.SSLContext:
        """The other context is made all the same: it tells what is wrong with the files."""
        context = super()._make()
        if isinstance(self._settings, ListenTls):
            self.quic = server_configuration(
                self._protocol, self._settings.cert, self._settings.key, self._settings.client_ca
            )
        return context
