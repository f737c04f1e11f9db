"""Certificates: names as Java writes them, stores of all kinds, and what is refused."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.errors import ConfigError
from ottla.config.types import Value
from ottla.security.secrets import Secret
from ottla.security.tls_context import (
    check_reload,
    client_context,
    read_keystore,
    server_context,
)
from ottla.security.tls_settings import CertificateStore, TlsSettings, tls_settings
from ottla.security.x509 import parse_certificate

KEY = ec.generate_private_key(ec.SECP256R1())
PEM_KEY = KEY.private_bytes(
    serialization.Encoding.PEM,
    serialization.PrivateFormat.PKCS8,
    serialization.NoEncryption(),
).decode()


def certificate(name: x509.Name, days: int = 1) -> x509.Certificate:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(KEY.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=10))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(KEY, hashes.SHA256())
    )


def der(name: x509.Name) -> bytes:
    return certificate(name).public_bytes(serialization.Encoding.DER)


def pem(cert: x509.Certificate) -> str:
    return cert.public_bytes(serialization.Encoding.PEM).decode()


CERT = certificate(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker")]))


def test_a_subject_is_written_as_java_does() -> None:
    # X500Principal.getName() of a certificate with this subject, in Java 17.
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, 'A "B", C+D; <E>'),
            x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b.c"),
            x509.NameAttribute(NameOID.COMMON_NAME, "#client "),
        ]
    )
    found = parse_certificate(der(name)).subject
    assert found == (
        "CN=\\#client\\ ,1.2.840.113549.1.9.1=#1605614062​2e63".replace("​", "")
        + ',O=A \\"B\\"\\, C\\+D\\; \\<E\\>,C=DE'
    )


_LETTERS = st.characters(
    min_codepoint=33, max_codepoint=0x2FFF, exclude_categories=("Cs", "Cc", "Cn")
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME]),
            st.text(_LETTERS, min_size=1, max_size=20),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_subjects_agree_with_another_library(
    pairs: list[tuple[x509.ObjectIdentifier, str]],
) -> None:
    name = x509.Name([x509.NameAttribute(kind, value) for kind, value in pairs])
    found = parse_certificate(der(name))
    assert found.subject == name.rfc4514_string().replace("\\23", "\\#")


@given(st.binary(max_size=300))
def test_bytes_that_are_no_certificate_raise_valueerror(data: bytes) -> None:
    for text in (data, der(CERT.subject)[: len(data)] + data):
        try:
            parse_certificate(text)
        except ValueError:
            continue


def pem_store(tmp_path: Path, text: str, mode: int = 0o600) -> CertificateStore:
    path = tmp_path / "broker.pem"
    path.write_text(text)
    path.chmod(mode)
    return CertificateStore("ssl.keystore.location", "PEM", str(path))


def settings_of(
    keystore: CertificateStore | None, key_password: Secret | None = None,
    truststore: CertificateStore | None = None,
    client_auth: str = "none", allow_dn_changes: bool = False,
) -> TlsSettings:  # fmt: skip
    return TlsSettings(
        keystore, key_password, truststore, client_auth, allow_dn_changes=allow_dn_changes
    )


def test_a_pem_file_makes_a_context(tmp_path: Path) -> None:
    context, material = server_context(settings_of(pem_store(tmp_path, PEM_KEY + pem(CERT))))
    assert material.certificate.subject == "CN=broker"
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_NONE
    assert not any(path.name != "broker.pem" for path in tmp_path.iterdir())


def test_inline_pem_and_an_encrypted_key_make_a_context() -> None:
    encrypted = KEY.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"pw"),
    ).decode()
    store = CertificateStore("s", "PEM", None, None, Secret(pem(CERT)), Secret(encrypted))
    server_context(settings_of(store, key_password=Secret("pw")))
    for password, why in ((Secret("no"), "is wrong"), (None, "is missing")):
        with pytest.raises(ConfigError, match=f"ssl.key.password {why}"):
            server_context(settings_of(store, key_password=password))


def test_pkcs12_stores_make_a_context(tmp_path: Path) -> None:
    path = tmp_path / "broker.p12"
    encryption = serialization.BestAvailableEncryption(b"pw")
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"b", KEY, CERT, [CERT], encryption))
    store = CertificateStore("ssl.keystore.location", "PKCS12", str(path), Secret("pw"))
    trust = CertificateStore("ssl.truststore.location", "PKCS12", str(path), Secret("pw"))
    server_context(settings_of(store, truststore=trust, client_auth="required"))
    assert client_context(settings_of(None, truststore=trust)).cert_store_stats()["x509"]
    with pytest.raises(ConfigError, match="cannot be read"):
        read_keystore(CertificateStore("x", "PKCS12", str(path), Secret("wrong")), None)


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        (PEM_KEY + pem(CERT), 0o644, "chmod 600"),
        (pem(CERT), 0o600, "no private key"),
        (PEM_KEY, 0o600, "no certificate"),
        ("nonsense", 0o600, "no private key"),
        (
            PEM_KEY + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            0o600,
            "malformed",
        ),
        (PEM_KEY.replace("M", "A", 3) + pem(CERT), 0o600, "cannot be read"),
    ],
)
def test_bad_files_are_one_clear_error(tmp_path: Path, text: str, mode: int, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as problem:
        server_context(settings_of(pem_store(tmp_path, text, mode)))
    assert "\n" not in str(problem.value)
    assert "PRIVATE KEY" not in str(problem.value).replace("(BEGIN PRIVATE KEY)", "")


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    other = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    with pytest.raises(ConfigError, match="does not belong"):
        server_context(settings_of(pem_store(tmp_path, other.decode() + pem(CERT))))


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_keystore(CertificateStore("ssl.keystore.location", "PEM", str(tmp_path / "no")), None)


def test_client_certificates_need_a_truststore(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.truststore\.location is not set"):
        server_context(
            settings_of(pem_store(tmp_path, PEM_KEY + pem(CERT)), client_auth="required")
        )


def test_a_new_certificate_keeps_its_names_unless_allowed(tmp_path: Path) -> None:
    old = read_keystore(pem_store(tmp_path, PEM_KEY + pem(CERT)), None)
    renamed = certificate(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "other")]))
    new = read_keystore(pem_store(tmp_path, PEM_KEY + pem(renamed)), None)
    with pytest.raises(ConfigError, match=r"ssl\.allow\.dn\.changes"):
        check_reload(old, new, settings_of(None))
    check_reload(old, new, settings_of(None, allow_dn_changes=True))
    check_reload(old, old, settings_of(None))
    late = certificate(CERT.subject, days=-1)
    expired = read_keystore(pem_store(tmp_path, PEM_KEY + pem(late)), None)
    with pytest.raises(ConfigError, match="has expired"):
        check_reload(old, expired, settings_of(None))


def _get(**values: Value):  # type: ignore[no-untyped-def]
    by_name = {name.replace("_", "."): value for name, value in values.items()}
    return by_name.get


def test_cipher_suites_have_javas_names() -> None:
    found = tls_settings(_get(ssl_cipher_suites=("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",)))
    assert found.versions == ("TLSv1.2",)
    assert found.ciphers == "ECDHE-RSA-AES256-GCM-SHA384"
    for suites in (("TLS_RSA_WITH_AES_128_CBC_SHA",), ("TLS_AES_128_GCM_SHA256",)):
        with pytest.raises(ConfigError, match=r"ssl\.cipher\.suites"):
            tls_settings(_get(ssl_cipher_suites=suites))


@pytest.mark.parametrize(
    "values",
    [
        {"ssl_enabled_protocols": ("TLSv1.1",)},
        {"ssl_keystore_type": "BKS", "ssl_keystore_location": "x"},
        {"ssl_keystore_key": "k", "ssl_keystore_type": "PEM"},
        {
            "ssl_truststore_certificates": "c",
            "ssl_truststore_type": "PEM",
            "ssl_truststore_location": "x",
        },
        {"ssl_truststore_certificates": "c"},
        {"ssl_endpoint_identification_algorithm": "ldaps"},
    ],
)
def test_settings_that_cannot_work_are_refused(values: dict[str, Value]) -> None:
    with pytest.raises(ConfigError, match=r"configuration listener\.name\.x\.ssl\."):
        tls_settings(_get(**values), "listener.name.x.")


def test_trustme_certificates_work_both_ways() -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    chain = "".join(blob.bytes().decode() for blob in issued.cert_chain_pems)
    key = Secret(issued.private_key_pem.bytes().decode())
    store = CertificateStore("s", "PEM", None, None, Secret(chain), key)
    trust = CertificateStore("t", "PEM", None, None, Secret(authority.cert_pem.bytes().decode()))
    server, _ = server_context(settings_of(store))
    client = client_context(settings_of(None, truststore=trust))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    for _ in range(3):
        for side in (theirs, ours):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
    assert theirs.version() == "TLSv1.3"
