"""Lists of revoked certificates: what a listener reads of `tls.crl`, and whom it therefore lets in no more."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature

_END = b"-----END X509 CRL-----"


class RevocationLists:
    """The lists of one file in PEM. Raises OSError or ValueError where the file is of no use.

    Without a file nothing is revoked, and no list is asked for.
    """

    def __init__(self, file: Path | None = None) -> None:
        parts = [] if file is None else file.read_bytes().split(_END)[:-1]
        self._lists = [x509.load_pem_x509_crl(part + _END) for part in parts]
        self._asks = file is not None
        self._revoked = frozenset(
            (crl.issuer.public_bytes(), revoked.serial_number) for crl in self._lists for revoked in crl
        )
        self.end = min((_end_of(crl) for crl in self._lists), default=math.inf)
        """When the first of the lists runs out, in seconds since the epoch."""

    def has(self, certificate: x509.Certificate) -> bool:
        """Returns True if the certificate stands on a list."""
        return (certificate.issuer.public_bytes(), certificate.serial_number) in self._revoked

    def lets_in(self, certificate: x509.Certificate, issuers: Iterable[x509.Certificate]) -> bool:
        """Returns True if a list that holds says nothing against the certificate, as OpenSSL decides by itself.

        Args:
            issuers: the certificates among which is that of who has signed this one. They are verified already.
        """
        if not self._asks:
            return True
        keys = [ca.public_key() for ca in issuers if ca.subject == certificate.issuer]
        own = [crl for crl in self._lists if crl.issuer == certificate.issuer]
        has_list = any(_holds(crl) and any(_is_signed_by(crl, key) for key in keys) for crl in own)
        return has_list and not self.has(certificate)


def _holds(listed: x509.CertificateRevocationList) -> bool:
    return listed.last_update_utc.timestamp() <= time.time() < _end_of(listed)


def _end_of(listed: x509.CertificateRevocationList) -> float:
    return math.inf if listed.next_update_utc is None else listed.next_update_utc.timestamp()


def _is_signed_by(listed: x509.CertificateRevocationList, key: Any) -> bool:
    """A key of a kind that can sign no list has signed none."""
    try:
        return listed.is_signature_valid(key)
    except (TypeError, ValueError, InvalidSignature):
        return False
