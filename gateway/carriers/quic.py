"""QUIC connections that carry datagrams and nothing else (RFC 9221): what listener and client have in common.

aioquic's connection is sans-IO, and keeps to itself what we need beside: how many datagrams the congestion window holds
back, how large one may be, and the certificate of a client, which it neither asks for nor checks. That is reached for
here and nowhere else, and fails closed: a client that was never asked has shown no certificate, and is not admitted.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from pathlib import Path

from aioquic.buffer import Buffer  # type: ignore[attr-defined]
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection, QuicConnectionError, QuicReceiveContext
from aioquic.quic.events import ConnectionTerminated
from aioquic.quic.packet import QuicErrorCode, QuicFrameType
from aioquic.tls import Alert, AlertBadCertificate, AlertDescription, verify_certificate
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

MAX_FRAME_BYTES = 65_535
"""We take a DATAGRAM frame of any size (RFC 9221 section 3). A frame too large for a packet of the protocol is refused
where all others are, by its reason, and not by ending the connection."""
MOST_CRYPTO_BYTES = 16_384
"""What a peer may leave unfinished of TLS, in pieces that do not follow each other or in one message. A chain of three
certificates takes half of it; RFC 9000 asks for 4096 (section 7.5). aioquic takes 512 KiB of the one, for which a
packet of one byte is enough, and 16 MiB of the other."""
MOST_CRYPTO_GAPS = 32
"""aioquic goes through all pieces for each that comes, and a packet has room for 200 of them."""
FRAME_HEAD_BYTES = 3
"""Type and length in front of a datagram of less than 16 KiB."""
PACKET_OVERHEAD_BYTES = 1 + 20 + 4 + 16
"""Around the frames of a packet with a short header: flags, the longest connection id, packet number, tag."""

_CLIENT_USAGES = frozenset({ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE})


LetsIn = Callable[[x509.Certificate, Sequence[x509.Certificate]], bool]
"""Returns whether a client's certificate, which its chain proves, is let in."""


class DatagramConnection(QuicConnection):
    """A peer may open no stream on it: what one could make us hold in streams is nothing. And of TLS, little."""

    def __init__(
        self,
        configuration: QuicConfiguration,
        original_destination_connection_id: bytes | None = None,
        retry_source_connection_id: bytes | None = None,
    ) -> None:
        super().__init__(
            configuration=configuration,
            original_destination_connection_id=original_destination_connection_id,
            retry_source_connection_id=retry_source_connection_id,
        )
        for limit in (self._local_max_streams_bidi, self._local_max_streams_uni):
            limit.value = limit.sent = 0

    def _handle_crypto_frame(self, context: QuicReceiveContext, frame_type: int, buf: Buffer) -> None:
        """Takes a piece of TLS, unless too much of it would wait for what is missing between."""
        begin = buf.tell()
        end: int = buf.pull_uint_var() + buf.pull_uint_var()
        buf.seek(begin)
        receiver = self._crypto_streams[context.epoch].receiver
        if (
            end - receiver.starting_offset() > MOST_CRYPTO_BYTES
            or len(receiver._ranges) > MOST_CRYPTO_GAPS  # noqa: SLF001 - there is no other way
            or len(self.tls._receive_buffer) > MOST_CRYPTO_BYTES  # noqa: SLF001
        ):
            raise QuicConnectionError(
                error_code=QuicErrorCode.CRYPTO_BUFFER_EXCEEDED,
                frame_type=frame_type,
                reason_phrase="too much of TLS is unfinished",
            )
        super()._handle_crypto_frame(context, frame_type, buf)

    @property
    def waiting_datagrams(self) -> int:
        """The number of datagrams given to `send_datagram_frame` that are not in a packet yet."""
        return len(self._datagrams_pending)

    @property
    def largest_datagram(self) -> int:
        """The largest datagram in bytes; 0 if the peer takes none. A larger one would wait for ever."""
        of_peer = (self._remote_max_datagram_frame_size or 0) - FRAME_HEAD_BYTES
        of_packet = self._max_datagram_size - PACKET_OVERHEAD_BYTES - FRAME_HEAD_BYTES
        return max(min(of_peer, of_packet), 0)

    @property
    def client_certificate(self) -> x509.Certificate | None:
        """The certificate that the peer was asked for and has shown."""
        return self.tls._peer_certificate if self._wants_certificate else None  # noqa: SLF001 - there is no other way

    def admit(self, lets_in: LetsIn) -> bool:
        """Admits the peer when the handshake is done, on the server's side.

        If the peer should have shown a valid certificate and has not, it hears so and the connection ends.
        """
        if not self._wants_certificate:
            return True
        try:
            self._check_certificate(lets_in)
        except Alert as refused:
            code = QuicErrorCode.CRYPTO_ERROR + refused.description
            self.close(error_code=code, frame_type=QuicFrameType.CRYPTO, reason_phrase=str(refused))
            return False
        return True

    @property
    def _wants_certificate(self) -> bool:
        return not self._is_client and self._configuration.verify_mode == ssl.CERT_REQUIRED

    def _initialize(self, peer_cid: bytes) -> None:
        super()._initialize(peer_cid)
        self.tls._request_client_certificate = self._wants_certificate  # noqa: SLF001 - there is no other way

    def _check_certificate(self, lets_in: LetsIn) -> None:
        certificate, chain = self.tls._peer_certificate, self.tls._peer_certificate_chain  # noqa: SLF001
        if certificate is None:
            raise CertificateRequired("no certificate")
        verify_certificate(certificate=certificate, chain=chain, cafile=self._configuration.cafile)
        if not _is_for_clients(certificate):
            raise AlertBadCertificate("not a client's certificate")
        if not lets_in(certificate, chain):
            raise CertificateRevoked("revoked, or no list that holds says that it is not")


class CertificateRequired(Alert):
    description = AlertDescription.certificate_required


class CertificateRevoked(Alert):
    description = AlertDescription.certificate_revoked


def _is_for_clients(certificate: x509.Certificate) -> bool:
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return not _CLIENT_USAGES.isdisjoint(usages)


def server_configuration(protocol: str, cert: Path, key: Path, client_ca: Path | None) -> QuicConfiguration:
    """Returns the configuration of a server. Raises OSError, ValueError.

    The name of the protocol is what both sides agree on (ALPN). `client_ca` makes a client certificate compulsory.
    """
    configuration = QuicConfiguration(
        is_client=False, alpn_protocols=[protocol], max_datagram_frame_size=MAX_FRAME_BYTES
    )
    configuration.load_cert_chain(cert, key)
    if client_ca is not None:
        configuration.verify_mode = ssl.CERT_REQUIRED
        configuration.load_verify_locations(str(client_ca))
    return configuration


def client_configuration(
    protocol: str,
    ca: Path | None = None,
    cert: Path | None = None,
    key: Path | None = None,
    server_name: str | None = None,
) -> QuicConfiguration:
    """Returns the configuration of a client. Raises OSError, ValueError.

    `ca` signed the server's certificate; without it, the system's authorities count.
    """
    configuration = QuicConfiguration(
        is_client=True, alpn_protocols=[protocol], max_datagram_frame_size=MAX_FRAME_BYTES, server_name=server_name
    )
    trusted = ssl.get_default_verify_paths()
    configuration.cafile = str(ca) if ca is not None else trusted.cafile
    configuration.capath = None if ca is not None else trusted.capath
    if cert is not None:
        configuration.load_cert_chain(cert, key)
    return configuration


def is_tls(end: ConnectionTerminated) -> bool:
    """Returns True if TLS ended the connection: a certificate, a version, ALPN (RFC 9001 section 4.8)."""
    return QuicErrorCode.CRYPTO_ERROR <= end.error_code < QuicErrorCode.CRYPTO_ERROR + 0x100


def is_idle(end: ConnectionTerminated) -> bool:
    """Returns True if nothing was heard for too long. aioquic has no code of its own for that."""
    return end.error_code == QuicErrorCode.INTERNAL_ERROR and end.reason_phrase == "Idle timeout"
