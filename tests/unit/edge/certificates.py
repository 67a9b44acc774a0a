"""Certificates for tests: an authority, and what it signs."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LOCALHOST = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
SOON = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


@dataclass
class Authority:
    """`folder`: where it puts what it signs."""

    folder: Path
    common: str = "tests"

    def __post_init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = _name(self.common)
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        self._certificate = self._builder(self._subject, self._key, SOON).add_extension(constraints, True).sign(
            self._key, hashes.SHA256()
        )  # fmt: skip
        self.ca = self.folder / "ca.pem"
        self.ca.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, until: datetime.datetime
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
            .not_valid_after(until)
        )

    def signs(
        self, name: str, *alternatives: x509.GeneralName, common: str = "", until: datetime.datetime = SOON,
        usage: x509.ObjectIdentifier | None = None,
    ) -> dict[str, str]:  # fmt: skip
        """`cert` and `key`, as a configuration names them."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([LOCALHOST, *alternatives])
        built = self._builder(_name(common or name), key, until).add_extension(names, False)
        if usage is not None:
            built = built.add_extension(x509.ExtendedKeyUsage([usage]), False)
        certificate = built.sign(self._key, hashes.SHA256())
        cert, keys = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        keys.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return {"cert": str(cert), "key": str(keys)}

    def revokes(self, *names: str, until: datetime.datetime = SOON) -> Path:
        """Writes the list of those that hold no more, of all that it has signed, and returns where. It holds so
        long."""
        today = datetime.datetime.now(datetime.UTC)
        built = x509.CertificateRevocationListBuilder().issuer_name(self._subject)
        built = built.last_update(today - datetime.timedelta(days=1)).next_update(until)
        for name in names:
            serial = x509.load_pem_x509_certificate((self.folder / f"{name}.pem").read_bytes()).serial_number
            revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(today)
            built = built.add_revoked_certificate(revoked.build())
        path, new = self.folder / "crl.pem", self.folder / "crl.new"
        new.write_bytes(built.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        new.replace(path)
        return path

    def breaks(self, name: str) -> None:
        (self.folder / f"{name}.pem").write_text("no certificate")

    def trusted_by(self, files: dict[str, str] | None = None) -> ssl.SSLContext:
        """A client that trusts it; with `files`, one that it has signed."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if files is not None:
            context.load_cert_chain(files["cert"], files["key"])
        return context
