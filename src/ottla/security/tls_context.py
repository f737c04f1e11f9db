"""TLS contexts from `TlsSettings`: reads the files, and checks what is in them.

Rules kept here:
1. Every problem is a ConfigError of one line that names the setting and the file.
2. A private key in a file that everyone may read is refused, unless it is encrypted.
3. TLS 1.2 and 1.3 only, forward secrecy, no compression, no renegotiation.
4. PEM and JKS need Python alone; PKCS12 needs `cryptography` (extra `security`).
5. As in Java, which of PKCS12 and JKS a store is, its first bytes say.
"""

from __future__ import annotations

import os
import ssl
import stat
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from textwrap import wrap
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ottla.config.errors import ConfigError, invalid_value
from ottla.extras import install_command
from ottla.security.jks import JksError, Store, is_jks, read_jks
from ottla.security.secrets import Secret
from ottla.security.tls_settings import CertificateStore, TlsSettings
from ottla.security.x509 import Certificate, parse_certificate

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_BEGIN_CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----"
LARGEST_FILE: Final = 4 << 20


class Material(Struct, frozen=True):
    """A key with its chain, as PEM text."""

    setting: str
    where: str
    pem: Secret
    password: Secret | None
    certificate: Certificate


def server_context(settings: TlsSettings, prefix: str = "") -> tuple[ssl.SSLContext, Material]:
    """The context of a listener, and the certificate it shows; raises ConfigError."""
    if settings.keystore is None:
        raise ConfigError(
            f"{prefix}ssl.keystore.location is not set: a TLS listener needs a certificate and its "
            "private key (ssl.keystore.type=PEM and ssl.keystore.location=FILE)"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _restrict(context, settings)
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_RENEGOTIATION
    material = read_keystore(settings.keystore, settings.key_password)
    load_material(context, material)
    context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    if context.verify_mode is not ssl.CERT_NONE:
        if settings.truststore is None:
            raise ConfigError(
                f"{prefix}ssl.truststore.location is not set: ssl.client.auth="
                f"{settings.client_auth} needs the certificates to trust"
            )
        load_truststore(context, settings.truststore)
    return context, material


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context of a client or of a link between brokers; raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.verify_host
    context.verify_mode = ssl.CERT_REQUIRED
    _restrict(context, settings)
    if settings.truststore is None:
        context.load_default_certs()
    else:
        load_truststore(context, settings.truststore)
        # As in Java: whatever is in a truststore is trusted, not only roots.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if settings.keystore is not None:
        load_material(context, read_keystore(settings.keystore, settings.key_password))
    return context


def _restrict(context: ssl.SSLContext, settings: TlsSettings) -> None:
    context.minimum_version = _VERSIONS[settings.versions[0]]
    context.maximum_version = _VERSIONS[settings.versions[-1]]
    context.set_ciphers(settings.ciphers)
    context.options |= ssl.OP_NO_COMPRESSION


def read_keystore(store: CertificateStore, key_password: Secret | None) -> Material:
    """The private key and the chain; raises ConfigError."""
    if store.location is None:
        assert store.key is not None
        assert store.certificates is not None
        pem = f"{store.key.reveal().strip()}\n{store.certificates.reveal().strip()}\n"
        return _material(store.setting, "PEM text", pem, key_password)
    data = _read(store)
    if store.type != "PEM":
        pem = (_pem_of_jks(store, data, key_password) if is_jks(data)
               else _pem_of_pkcs12(store, data))  # fmt: skip
        return _material(store.setting, store.location, pem, None)
    pem = _text(store, data)
    secret = store
    if store.key_location is not None:
        secret = replace(store, location=store.key_location)
        pem = f"{_text(secret, _read(secret)).strip()}\n{pem}"
    assert secret.location is not None
    mode = Path(secret.location).stat().st_mode
    if mode & stat.S_IROTH and "PRIVATE KEY" in pem and "ENCRYPTED" not in pem:
        raise invalid_value(
            store.setting,
            secret.location,
            "The private key can be read by every user of this machine; "
            f"run: chmod 600 {secret.location}",
        )
    return _material(store.setting, store.location, pem, key_password)


def _material(setting: str, where: str, pem: str, password: Secret | None) -> Material:
    if "PRIVATE KEY-----" not in pem:
        raise invalid_value(setting, where, "It has no private key (BEGIN PRIVATE KEY)")
    certificates = list(pem_certificates(pem))
    if not certificates:
        raise invalid_value(setting, where, "It has no certificate (BEGIN CERTIFICATE)")
    try:
        leaf = parse_certificate(certificates[0])
    except ValueError as problem:
        raise invalid_value(setting, where, str(problem)) from None
    return Material(setting, where, Secret(pem), password, leaf)


def load_material(context: ssl.SSLContext, material: Material) -> None:
    """Give a context its key and certificate; raises ConfigError."""
    pem = material.pem.reveal()
    password = material.password.reveal() if material.password is not None else ""
    try:
        with _file_of(pem) as path:
            # Without a callback OpenSSL would ask at the terminal.
            context.load_cert_chain(path, password=lambda: password)
    except (ssl.SSLError, ValueError) as problem:
        reason = getattr(problem, "reason", None)
        if reason == "KEY_VALUES_MISMATCH":
            why = "The private key does not belong to the certificate"
        elif "ENCRYPTED" in pem:
            why = "ssl.key.password is wrong" if password else "ssl.key.password is missing"
        else:
            why = f"The key or the certificate cannot be read ({reason or problem})"
        raise invalid_value(material.setting, material.where, why) from None


def load_truststore(context: ssl.SSLContext, store: CertificateStore) -> None:
    """Trust the certificates of a store; raises ConfigError."""
    where = store.location or "PEM text"
    if store.location is None:
        assert store.certificates is not None
        pem = store.certificates.reveal()
    elif store.type == "PEM":
        pem = _text(store, _read(store))
    else:
        data = _read(store)
        pem = (_certificates_of_jks(store, data) if is_jks(data)
               else _certificates_of_pkcs12(store, data))  # fmt: skip
    if _BEGIN_CERTIFICATE not in pem:
        raise invalid_value(store.setting, where, "It has no certificate (BEGIN CERTIFICATE)")
    try:
        context.load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError) as problem:
        reason = getattr(problem, "reason", None) or problem
        raise invalid_value(
            store.setting, where, f"The certificates cannot be read ({reason})"
        ) from None


def file_state(settings: TlsSettings) -> tuple[tuple[str, int, int], ...]:
    """The files of a context, with what changes when they do."""
    found = []
    for name in settings.files:
        try:
            status = os.stat(name)
            found.append((name, status.st_mtime_ns, status.st_size))
        except OSError:
            found.append((name, 0, 0))
    return tuple(found)


def check_reload(old: Material, new: Material, settings: TlsSettings) -> None:
    """Whether a new certificate may take the place of the old one; raises ConfigError."""
    if new.certificate.subject != old.certificate.subject and not settings.allow_dn_changes:
        raise ConfigError(
            f"the new certificate is for {new.certificate.subject}, the old one for "
            f"{old.certificate.subject}; allow it with ssl.allow.dn.changes=true"
        )
    if (
        new.certificate.alternative_names != old.certificate.alternative_names
        and not settings.allow_san_changes
    ):
        raise ConfigError(
            "the new certificate has other subject alternative names than the old one; allow it "
            "with ssl.allow.san.changes=true"
        )
    if new.certificate.not_after < datetime.now(UTC):
        raise ConfigError("the new certificate has expired")


def pem_certificates(text: str) -> Iterator[bytes]:
    """The certificates of a PEM text, as DER; raises ConfigError for a malformed one."""
    end = "-----END CERTIFICATE-----"
    for part in text.split(_BEGIN_CERTIFICATE)[1:]:
        body, mark, _ = part.partition(end)
        try:
            yield ssl.PEM_cert_to_DER_cert(f"{_BEGIN_CERTIFICATE}{body}{mark}\n")
        except ValueError:
            raise ConfigError("malformed certificate in PEM text") from None


def _read(store: CertificateStore) -> bytes:
    assert store.location is not None
    path = Path(store.location)
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise invalid_value(store.setting, store.location, "The file is too large")
        return path.read_bytes()
    except OSError as problem:
        raise invalid_value(
            store.setting, store.location, f"The file cannot be read: {problem.strerror}"
        ) from None


def _text(store: CertificateStore, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise invalid_value(
            store.setting,
            store.location,
            "The file is not PEM; set the type (ssl.keystore.type, ssl.truststore.type) if it is "
            "PKCS12 or JKS",
        ) from None


def _jks(store: CertificateStore, data: bytes) -> Store:
    password = None if store.password is None else store.password.reveal()
    try:
        return read_jks(data, password)
    except JksError as problem:
        raise _wrong_jks(store, problem) from None


def _wrong_jks(store: CertificateStore, problem: JksError) -> ConfigError:
    why = f"The JKS store cannot be read: {problem}"
    return invalid_value(store.setting, store.location, why)


def _pem_of_jks(store: CertificateStore, data: bytes, key_password: Secret | None) -> str:
    secret = key_password or store.password
    if secret is None:
        raise invalid_value(store.setting, store.location, "A JKS store needs its password")
    keys = _jks(store, data).keys
    if not keys:
        raise invalid_value(store.setting, store.location, "It has no private key and certificate")
    try:
        key = keys[0].private_key(secret.reveal())
    except JksError as problem:
        raise _wrong_jks(store, problem) from None
    body = "\n".join(wrap(b64encode(key).decode(), 64))
    chain = "".join(map(ssl.DER_cert_to_PEM_cert, keys[0].chain))
    return f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n{chain}"


def _certificates_of_jks(store: CertificateStore, data: bytes) -> str:
    """What is trusted: as in Java, the certificates alone and those of keys."""
    found = _jks(store, data)
    chains = [each.chain[0] for each in found.keys if each.chain]
    return "".join(map(ssl.DER_cert_to_PEM_cert, (*found.certificates, *chains)))


def _pem_of_pkcs12(store: CertificateStore, data: bytes) -> str:
    found = _pkcs12(store, data)
    if found.key is None or found.cert is None:
        raise invalid_value(store.setting, store.location, "It has no private key and certificate")
    from cryptography.hazmat.primitives import serialization

    key = found.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    chain = [found.cert, *found.additional_certs]
    pem = [each.certificate.public_bytes(serialization.Encoding.PEM) for each in chain]
    return b"".join((key, *pem)).decode()


def _certificates_of_pkcs12(store: CertificateStore, data: bytes) -> str:
    found = _pkcs12(store, data)
    from cryptography.hazmat.primitives import serialization

    chain = [*([found.cert] if found.cert is not None else []), *found.additional_certs]
    return "".join(
        each.certificate.public_bytes(serialization.Encoding.PEM).decode() for each in chain
    )


def _pkcs12(store: CertificateStore, data: bytes):  # type: ignore[no-untyped-def]  # of an optional library
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise invalid_value(
            store.setting,
            store.location,
            f"PKCS12 needs cryptography; install it: {install_command('security')}",
        ) from None
    if data.startswith(b"-----BEGIN"):
        where = store.setting.removesuffix("location")
        raise invalid_value(store.setting, store.location, f"It is a PEM file: set {where}type=PEM")
    password = store.password.reveal().encode() if store.password is not None else None
    try:
        return pkcs12.load_pkcs12(data, password)
    except (ValueError, TypeError) as problem:
        raise invalid_value(
            store.setting, store.location, f"The PKCS12 store cannot be read ({problem})"
        ) from None


@contextmanager
def _file_of(pem: str) -> Iterator[str]:
    """A path that OpenSSL can read the text from; never a file that stays on a disk."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("ottla-key", os.MFD_CLOEXEC)
        try:
            os.write(fd, pem.encode())
            yield f"/proc/self/fd/{fd}"
        finally:
            os.close(fd)
        return
    with tempfile.NamedTemporaryFile("w") as file:  # made with mode 0600
        file.write(pem)
        file.flush()
        yield file.name
