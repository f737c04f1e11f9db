"""Certificates to begin with: a certificate authority, and what it signs.

Needs `cryptography` (extra `security`). Keys are ECDSA P-256.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.config.errors import ConfigError
from ottla.extras import install_command

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

DAYS: Final = 825
AUTHORITY_DAYS: Final = 3650
_AUTHORITY: Final = "Ottla development CA"


class Authority(NamedTuple):
    """Who signs; PEM text."""

    certificate: str
    key: str

    def __repr__(self) -> str:
        return "Authority([hidden])"


class Made(NamedTuple):
    """PEM text."""

    authority: str
    broker: str
    """The private key and the certificate."""

    def __repr__(self) -> str:
        return "Made([hidden])"


def make_certificates(hosts: tuple[str, ...]) -> Made:
    """A certificate for these hosts, of an authority whose key is forgotten; raises ConfigError."""
    authority = new_authority()
    return Made(authority.certificate, issue(authority, "ottla", hosts))


def new_authority(days: int = AUTHORITY_DAYS) -> Authority:
    """A new certificate authority; raises ConfigError without the library."""
    _check_library()
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    signing = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        _builder(_named(_AUTHORITY), _named(_AUTHORITY), key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(signing, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(_pem(certificate), _pem_of_key(key))


def issue(authority: Authority, name: str, hosts: tuple[str, ...], days: int = DAYS) -> str:
    """A private key and its certificate, as PEM; raises ConfigError.

    The name is its common name; it is for brokers and clients alike, on these hosts.
    """
    _check_library()
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    try:
        signer = x509.load_pem_x509_certificate(authority.certificate.encode())
        signing_key = serialization.load_pem_private_key(authority.key.encode(), None)
    except (ValueError, TypeError) as problem:
        raise ConfigError(f"the certificate authority cannot be read: {problem}") from None
    if not isinstance(signing_key, ec.EllipticCurvePrivateKey):
        raise ConfigError("the key of the certificate authority is not of ECDSA")
    if signing_key.public_key() != signer.public_key():
        raise ConfigError("the key of the certificate authority does not belong to its certificate")
    key = ec.generate_private_key(ec.SECP256R1())
    usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = _builder(_named(name), signer.subject, key.public_key(), days)
    if hosts:
        names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    certificate = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()),
            critical=False,
        )
        .sign(signing_key, hashes.SHA256())
    )
    return _pem_of_key(key) + _pem(certificate)


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=days))
    )


def _named(text: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
    except ValueError as problem:
        raise ConfigError(f"{text!r} cannot be the name of a certificate: {problem}") from None


def _alternative(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError as problem:
        raise ConfigError(f"{host!r} cannot be a host of a certificate: {problem}") from None


def _pem(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()


def _pem_of_key(key: ec.EllipticCurvePrivateKey) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _check_library() -> None:
    if find_spec("cryptography") is None:
        raise ConfigError(
            "making certificates needs cryptography; install it: " + install_command("security")
        )
