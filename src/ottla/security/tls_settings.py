"""`ssl.*` as values: what a TLS context is made of. Pure.

Rules kept here:
1. The names and meanings are Kafka's, for a listener and for a client alike.
2. Cipher suites have Java's names. Only those with forward secrecy and authenticated encryption are
   known; OpenSSL's TLS 1.3 suites cannot be chosen one by one from Python, so all three or none.
3. What Ottla does not do is refused with the reason, never ignored.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from ottla.config.errors import invalid_value
from ottla.config.types import Value
from ottla.security.secrets import Secret

STORE_TYPES: Final = ("JKS", "PEM", "PKCS12")
VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_TLS_1_3: Final = frozenset(
    {"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"}
)
_TLS_1_2: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
}
DEFAULT_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"

Get = Callable[[str], Value]
"""The value of a setting by its plain name (`ssl.keystore.location`)."""


class CertificateStore(Struct, frozen=True):
    """A keystore or truststore: a file, or PEM text."""

    setting: str
    """The setting that errors name."""
    type: str = "PEM"
    location: str | None = None
    password: Secret | None = None
    certificates: Secret | None = None
    """PEM text: the chain of a keystore, or what a truststore trusts."""
    key: Secret | None = None
    key_location: str | None = None
    """The file of the private key, where it has one of its own."""


class TlsSettings(Struct, frozen=True):
    """What a TLS context is made of."""

    keystore: CertificateStore | None
    key_password: Secret | None
    truststore: CertificateStore | None
    client_auth: str = "none"
    versions: tuple[str, ...] = VERSIONS
    ciphers: str = DEFAULT_CIPHERS
    verify_host: bool = True
    allow_dn_changes: bool = False
    allow_san_changes: bool = False

    @property
    def files(self) -> list[str]:
        """The files that it is read from."""
        stores = (self.keystore, self.truststore)
        found = [store.location for store in stores if store is not None and store.location]
        if self.keystore is not None and self.keystore.key_location:
            found.append(self.keystore.key_location)
        return found


def tls_settings(get: Get, prefix: str = "") -> TlsSettings:
    """Read `ssl.*`; `prefix` is put before the names in errors. Raises ConfigError."""
    versions, ciphers = _versions_and_ciphers(get, prefix)
    return TlsSettings(
        keystore=_keystore(get, prefix),
        key_password=_secret(get("ssl.key.password")),
        truststore=_truststore(get, prefix),
        client_auth=_text(get("ssl.client.auth")) or "none",
        versions=versions,
        ciphers=ciphers,
        verify_host=_verify_host(get, prefix),
        allow_dn_changes=get("ssl.allow.dn.changes") is True,
        allow_san_changes=get("ssl.allow.san.changes") is True,
    )


def _keystore(get: Get, prefix: str) -> CertificateStore | None:
    kind, location = _type(get, prefix, "ssl.keystore.type"), _text(get("ssl.keystore.location"))
    chain, key = _secret(get("ssl.keystore.certificate.chain")), _secret(get("ssl.keystore.key"))
    if chain is None and key is None:
        if location is None:
            return None
        password = _secret(get("ssl.keystore.password"))
        setting, own_file = f"{prefix}ssl.keystore.location", _text(get("ottla.ssl.key.location"))
        return CertificateStore(setting, kind, location, password, key_location=own_file)
    _check_inline(prefix, "keystore", kind, location, "certificate.chain")
    if chain is None or key is None:
        missing = "ssl.keystore.certificate.chain" if chain is None else "ssl.keystore.key"
        raise invalid_value(f"{prefix}{missing}", None, "Must be set too")
    return CertificateStore(
        f"{prefix}ssl.keystore.certificate.chain", "PEM", None, None, chain, key
    )


def _truststore(get: Get, prefix: str) -> CertificateStore | None:
    kind = _type(get, prefix, "ssl.truststore.type")
    location = _text(get("ssl.truststore.location"))
    certificates = _secret(get("ssl.truststore.certificates"))
    if certificates is None:
        if location is None:
            return None
        password = _secret(get("ssl.truststore.password"))
        return CertificateStore(f"{prefix}ssl.truststore.location", kind, location, password)
    _check_inline(prefix, "truststore", kind, location, "certificates")
    return CertificateStore(f"{prefix}ssl.truststore.certificates", "PEM", None, None, certificates)


def _type(get: Get, prefix: str, name: str) -> str:
    kind = (_text(get(name)) or "JKS").upper()
    if kind not in STORE_TYPES:
        raise invalid_value(f"{prefix}{name}", kind, f"Must be one of {', '.join(STORE_TYPES)}")
    return kind


def _check_inline(prefix: str, store: str, kind: str, location: str | None, inline: str) -> None:
    base = f"ssl.{store}"
    if location is not None:
        raise invalid_value(
            f"{prefix}{base}.location", location, f"Must not be set together with {base}.{inline}"
        )
    if kind != "PEM":
        raise invalid_value(
            f"{prefix}{base}.type", kind, f"Must be PEM where {base}.{inline} is set"
        )


def _versions_and_ciphers(get: Get, prefix: str) -> tuple[tuple[str, ...], str]:
    enabled = get("ssl.enabled.protocols")
    versions = enabled if isinstance(enabled, tuple) and enabled else VERSIONS
    for version in versions:
        if version not in VERSIONS:
            raise invalid_value(
                f"{prefix}ssl.enabled.protocols", version, f"Must be one of {', '.join(VERSIONS)}"
            )
    newest = _text(get("ssl.protocol")) or "TLSv1.3"
    if newest not in (*VERSIONS, "TLS"):
        raise invalid_value(
            f"{prefix}ssl.protocol", newest, f"Must be one of {', '.join(VERSIONS)}"
        )
    if newest == "TLSv1.2":
        versions = tuple(version for version in versions if version != "TLSv1.3")
        if not versions:
            raise invalid_value(f"{prefix}ssl.protocol", newest, "Not one of ssl.enabled.protocols")
    suites = get("ssl.cipher.suites")
    if not isinstance(suites, tuple) or not suites:
        return tuple(sorted(set(versions))), DEFAULT_CIPHERS
    name = f"{prefix}ssl.cipher.suites"
    for suite in suites:
        if suite not in _TLS_1_3 and suite not in _TLS_1_2:
            raise invalid_value(
                name, suite, f"Must be one of {', '.join((*sorted(_TLS_1_3), *_TLS_1_2))}"
            )
    new, old = set(suites) & _TLS_1_3, [_TLS_1_2[suite] for suite in suites if suite in _TLS_1_2]
    if new and new != _TLS_1_3 and "TLSv1.3" in versions:
        raise invalid_value(
            name,
            ",".join(suites),
            f"The suites of TLS 1.3 cannot be chosen one by one; name all of "
            f"{', '.join(sorted(_TLS_1_3))}, or none",
        )
    kept = tuple(
        version for version in VERSIONS
        if version in versions and (new if version == "TLSv1.3" else old)
    )  # fmt: skip
    if not kept:
        raise invalid_value(name, ",".join(suites), "No cipher suite matches ssl.enabled.protocols")
    return kept, ":".join(old) or DEFAULT_CIPHERS


def _verify_host(get: Get, prefix: str) -> bool:
    algorithm = _text(get("ssl.endpoint.identification.algorithm")) or ""
    if algorithm.lower() not in ("", "https"):
        raise invalid_value(
            f"{prefix}ssl.endpoint.identification.algorithm", algorithm, "Must be https or empty"
        )
    return bool(algorithm)


def _text(value: Value) -> str | None:
    return value if isinstance(value, str) and value else None


def _secret(value: Value) -> Secret | None:
    return Secret(value) if isinstance(value, str) and value else None
