"""A certificate authority for one run, and a certificate for zones on loopback."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

VALID = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Certificates:
    """Files: `authority` is what clients trust, `server` has key and certificate of 127.0.0.1."""

    authority: Path
    server: Path


def make_certificates(folder: Path) -> Certificates:
    made = Certificates(folder / "authority.pem", folder / "server.pem")
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of one run")])
    ca = (
        _builder(issuer, issuer, ca_key.public_key(), ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a zone")])
    server = (
        _builder(subject, issuer, key.public_key(), ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(names, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    made.authority.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    made.server.touch(mode=0o600)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    made.server.write_bytes(private + server.public_bytes(serialization.Encoding.PEM))
    return made


def _builder(
    subject: x509.Name, issuer: x509.Name, own: ec.EllipticCurvePublicKey, issuers: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(own)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - VALID)
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(own), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuers), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(not signs, False, False, False, False, signs, signs, False, False)
