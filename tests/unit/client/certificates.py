"""Certificates for one test run: an authority of our own, and what it signs."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Authority:
    """Files in a folder: `ca.pem`, and `NAME.pem` with `NAME.key` for each that it signs."""

    folder: Path
    key: EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def new(cls, folder: Path) -> Authority:
        key = generate_private_key(SECP256R1())
        certificate = _builder("an authority", "an authority", key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        signed = certificate.sign(key, SHA256())
        (folder / "ca.pem").write_bytes(signed.public_bytes(Encoding.PEM))
        return cls(folder, key, signed)

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    def sign(self, name: str) -> tuple[Path, Path]:
        """Certificate and key, for 127.0.0.1 and under that name."""
        key = generate_private_key(SECP256R1())
        names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName(name)]
        builder = _builder(name, "an authority", key).add_extension(x509.SubjectAlternativeName(names), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        signed = builder.add_extension(issuer, critical=False).sign(self.key, SHA256())
        cert, private = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        cert.write_bytes(signed.public_bytes(Encoding.PEM))
        private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return cert, private

    def server(self, *, asks_for_certificate: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.sign("mesh"))
        if asks_for_certificate:
            context.load_verify_locations(self.ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def _builder(subject: str, issuer: str, key: EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
