"""TLS of a QUIC listener, which is its library's own."""

from __future__ import annotations

import ssl

from aioquic.quic.configuration import QuicConfiguration

from gateway.carriers.quic import server_configuration
from gateway.config import ListenTls
from gateway.edge.carriers.tls import TlsContext


class QuicContext(TlsContext):
    """Holds the TLS configuration. `quic` is in force for the next connection."""

    quic: QuicConfiguration

    def _make(self) -> ssl.SSLContext:
        """The other context is made all the same: it tells what is wrong with the files."""
        context = super()._make()
        if isinstance(self._settings, ListenTls):
            self.quic = server_configuration(
                self._protocol, self._settings.cert, self._settings.key, self._settings.client_ca
            )
        return context
