"""JKS stores as keytool makes them, and every way to spoil them."""

import ssl
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.config.errors import ConfigError
from ottla.security.jks import JksError, Store, read_jks
from ottla.security.secrets import Secret
from ottla.security.tls_context import (
    client_context,
    load_truststore,
    read_keystore,
    server_context,
)
from ottla.security.tls_settings import CertificateStore, TlsSettings
from testkit import java_runtime

# The stores to read are written by keytool itself, which only a JDK has. `make test` installs Java.
needs_java = pytest.mark.skipif(not java_runtime.is_installed(), reason="keytool needs a JDK")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two stores: one with a key that has a password of its own, one that trusts it."""
    made = tmp_path_factory.mktemp("jks")
    common = ("-keystore", "key.jks", "-storetype", "JKS", "-storepass", "of-store")
    keytool(made, "-genkeypair", *common, "-keypass", "of-key", "-alias", "broker",
            "-keyalg", "EC", "-groupname", "secp256r1", "-dname", "CN=broker,O=Ottla",
            "-ext", "SAN=dns:localhost")  # fmt: skip
    keytool(made, "-exportcert", *common, "-alias", "broker", "-file", "broker.crt")
    keytool(made, "-importcert", "-noprompt", "-keystore", "trust.jks", "-storetype", "JKS",
            "-storepass", "trusted", "-alias", "é", "-file", "broker.crt")  # fmt: skip
    return made


def keytool(folder: Path, *arguments: str) -> None:
    done = subprocess.run(["keytool", *arguments], cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout


def store(path: Path, password: str | None, kind: str = "JKS") -> CertificateStore:
    secret = None if password is None else Secret(password)
    return CertificateStore("ssl.keystore.location", kind, str(path), secret)


@needs_java
@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_listener_and_a_client_use_them(folder: Path, kind: str) -> None:
    found = read_keystore(store(folder / "key.jks", "of-store", kind), Secret("of-key"))
    assert found.certificate.subject == "CN=broker,O=Ottla"
    trusted = store(folder / "trust.jks", "trusted", kind)
    settings = TlsSettings(
        keystore=store(folder / "key.jks", "of-store", kind),
        truststore=trusted,
        key_password=Secret("of-key"),
    )
    context, _ = server_context(settings)
    client = client_context(TlsSettings(keystore=None, truststore=trusted, key_password=None))
    shake_hands(context, client)


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    left = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    right = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (left, right, left, right):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            pass
    assert left.version() == "TLSv1.3"


@needs_java
@pytest.mark.parametrize(
    ("password", "key_password", "why"),
    [
        ("wrong", "of-key", "its password is wrong, or it was changed"),
        ("of-store", "wrong", "the password of its private key is wrong"),
        ("of-store", None, "the password of its private key is wrong"),
        (None, None, "needs its password"),
    ],
)
def test_wrong_passwords_are_one_clear_error(
    folder: Path, password: str | None, key_password: str | None, why: str
) -> None:
    secret = None if key_password is None else Secret(key_password)
    with pytest.raises(ConfigError, match=why) as problem:
        read_keystore(store(folder / "key.jks", password), secret)
    assert "of-key" not in str(problem.value)


@needs_java
def test_a_truststore_needs_no_password_and_has_no_key(folder: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    load_truststore(context, store(folder / "trust.jks", None))
    assert len(context.get_ca_certs()) + context.cert_store_stats()["x509"] > 0
    with pytest.raises(ConfigError, match="has no private key"):
        read_keystore(store(folder / "trust.jks", "trusted"), None)


@needs_java
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 2000), byte=st.integers(1, 255), cut=st.booleans())
def test_a_spoilt_store_is_an_error_of_its_own(folder: Path, at: int, byte: int, cut: bool) -> None:
    whole = (folder / "key.jks").read_bytes()
    at %= len(whole)
    spoilt = whole[:at] if cut else whole[:at] + bytes((whole[at] ^ byte,)) + whole[at + 1 :]
    with pytest.raises(JksError):
        read_jks(spoilt, "of-store")
    try:  # without a password there is no digest to say so
        assert isinstance(read_jks(spoilt, None), Store)
    except JksError:
        pass


def test_a_pem_file_says_that_it_is_one(tmp_path: Path) -> None:
    path = tmp_path / "broker.pem"
    path.write_text("-----BEGIN CERTIFICATE-----\n")
    with pytest.raises(ConfigError, match=r"set ssl\.keystore\.type=PEM"):
        read_keystore(store(path, None), None)
