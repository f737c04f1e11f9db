"""Java's own keystore format, JKS: private keys with their chains, and trusted certificates. Pure.

The format is small and does not change any more; the one library for it has not been kept up.

Rules kept here:
1. The digest at the end, which depends on the password, is checked before anything else: a store
   that was changed, or is opened with another password, is an error. Without a password it is not
   checked, as in Java: a truststore may be read so, a key cannot.
2. Keys have Java's "JKS" protection, which is weak: the file's permissions must protect the store.
3. Bytes that are not such a store raise JksError; nothing is guessed.
"""

from __future__ import annotations

from hashlib import sha1
from hmac import compare_digest
from typing import Final, NamedTuple

from ottla.security.x509 import der_items

MAGIC: Final = bytes.fromhex("feedfeed")
_VERSIONS: Final = (1, 2)
_KEY, _CERTIFICATE = 1, 2
_WHITENER: Final = b"Mighty Aphrodite"
_DIGEST_SIZE: Final = 20
_PROTECTION: Final = bytes.fromhex("2b060104012a02110101")
"""1.3.6.1.4.1.42.2.17.1.1"""


class JksError(Exception):
    """The bytes are not such a store, or the password is not its own."""


class KeyEntry(NamedTuple):
    """A private key, still protected, with its chain; all in DER."""

    alias: str
    protected: bytes
    chain: tuple[bytes, ...]

    def private_key(self, password: str) -> bytes:
        """The key as PKCS8; raises JksError for a wrong password."""
        return _unprotected(self.protected, password)


class Store(NamedTuple):
    """What a store has."""

    keys: tuple[KeyEntry, ...]
    certificates: tuple[bytes, ...]


def is_jks(data: bytes) -> bool:
    """Whether it begins as such a store does."""
    return data.startswith(MAGIC)


def read_jks(data: bytes, password: str | None) -> Store:
    """The entries of a store; raises JksError."""
    if not is_jks(data) or len(data) < _DIGEST_SIZE:
        raise JksError("it is not a JKS store")
    body, digest = data[:-_DIGEST_SIZE], data[-_DIGEST_SIZE:]
    if password is not None:
        expected = sha1(_java(password) + _WHITENER + body, usedforsecurity=False).digest()
        if not compare_digest(expected, digest):
            raise JksError("its password is wrong, or it was changed")
    reader = _Reader(body, len(MAGIC))
    version = reader.number()
    if version not in _VERSIONS:
        raise JksError(f"unknown version {version}")
    keys, certificates = [], []
    for _ in range(reader.number()):
        kind, alias = reader.number(), reader.text()
        reader.take(8)  # when it was made
        if kind == _KEY:
            protected = reader.block()
            chain = tuple(reader.certificate(version) for _ in range(reader.number()))
            keys.append(KeyEntry(alias, protected, chain))
        elif kind == _CERTIFICATE:
            certificates.append(reader.certificate(version))
        else:
            raise JksError(f"unknown kind of entry {kind}")
    if reader.at != len(body):
        raise JksError("there are bytes behind its last entry")
    return Store(tuple(keys), tuple(certificates))


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self.at = at

    def take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self._data):
            raise JksError("it is cut off")
        found, self.at = self._data[self.at : end], end
        return found

    def number(self) -> int:
        return int.from_bytes(self.take(4))

    def block(self) -> bytes:
        return self.take(self.number())

    def text(self) -> str:
        return self.take(int.from_bytes(self.take(2))).decode("utf-8", "replace")

    def certificate(self, version: int) -> bytes:
        if version > 1 and (kind := self.text()) != "X.509":
            raise JksError(f"a certificate of the kind {kind!r}")
        return self.block()


def _unprotected(protected: bytes, password: str) -> bytes:
    try:
        (_, outer), *_ = der_items(protected)
        (_, algorithm), (_, data), *_ = der_items(outer)
        (_, kind), *_ = der_items(algorithm)
    except (ValueError, IndexError):
        raise JksError("malformed private key") from None
    if kind != _PROTECTION or len(data) < 2 * _DIGEST_SIZE:
        raise JksError("unknown protection of a private key")
    pad = data[:_DIGEST_SIZE]
    hidden, check = data[_DIGEST_SIZE:-_DIGEST_SIZE], data[-_DIGEST_SIZE:]
    secret = _java(password)
    key = bytearray()
    for at in range(0, len(hidden), _DIGEST_SIZE):
        pad = sha1(secret + pad, usedforsecurity=False).digest()
        key += bytes(a ^ b for a, b in zip(hidden[at : at + _DIGEST_SIZE], pad, strict=False))
    found = bytes(key)
    if not compare_digest(sha1(secret + found, usedforsecurity=False).digest(), check):
        raise JksError("the password of its private key is wrong")
    return found


def _java(password: str) -> bytes:
    return password.encode("utf-16-be")
