"""A certificate authority for tests: keys and certificates as PEM files in a folder."""

from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


class Certificates:
    """An authority, a broker's certificate for this machine, and clients'."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = trustme.CA()
        self.ca = self._file("ca.pem", self._authority.cert_pem.bytes())
        self.broker = self.issue("broker", "localhost", "127.0.0.1", "::1")

    def issue(self, name: str, *hosts: str) -> Path:
        """A file with a key and its chain; `name` is the certificate's common name."""
        issued = self._authority.issue_cert(*(hosts or (f"{name}@test",)), common_name=name)
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        return self._file(f"{name}.pem", _pkcs8(issued.private_key_pem.bytes()) + chain)

    def _file(self, name: str, content: bytes) -> Path:
        path = self._folder / name
        path.write_bytes(content)
        path.chmod(0o600)
        return path

    def broker_config(self) -> dict[str, str]:
        """The settings of a broker with TLS."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
        }


def _pkcs8(key: bytes) -> bytes:
    """The form of a private key that Kafka reads."""
    return load_pem_private_key(key, None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )


def plain_users(**passwords: str) -> str:
    """A JAAS line with users of PLAIN."""
    users = " ".join(f'user_{name}="{password}"' for name, password in passwords.items())
    return f"{PLAIN_MODULE} required {users};"
