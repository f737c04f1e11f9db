"""Security of a broker inside a program: `ottla.Broker(security=Security(users={...}))`.

A test gets TLS with a certificate of its own, users with passwords and, if asked for, the
authorizer; and for each client library the settings that log in as one of the users.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from ottla.security.dev_certificates import make_certificates

ADMIN: Final = "admin"
HOSTS: Final = ("localhost", "127.0.0.1", "::1")
_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_UNUSABLE: Final = frozenset('"\\;\n\r\0')

ClientKind = Literal["confluent", "kafka-python", "aiokafka", "java"]


@dataclass(frozen=True)
class Security:
    """Who may log in, and how.

    Users log in with PLAIN. There is always the super user `admin`, with a password of its own if
    none is given. With `tls` connections are encrypted (it needs the extra `security`). With
    `authorizer` the others may do what ACLs allow, and nothing else.
    """

    users: dict[str, str] = field(default_factory=dict, repr=False)
    tls: bool = True
    authorizer: bool = False

    def __post_init__(self) -> None:
        for name, password in self.users.items():
            if not name or not password or _UNUSABLE & {*name, *password}:
                raise ValueError(
                    "names and passwords of users must not be empty, nor have quotes, "
                    "backslashes, semicolons or line breaks"
                )


def security_of(asked: Security | str) -> Security:
    """What a short name stands for; ValueError for others."""
    if isinstance(asked, Security):
        return asked
    if asked in ("tls", "plain"):
        return Security(tls=asked == "tls")
    raise ValueError(f"security={asked!r} is neither 'tls', 'plain' nor a Security")


class SecureSetup:
    """The files and settings of one secured broker."""

    def __init__(self, security: Security, folder: Path) -> None:
        self._security = security
        self._users = {ADMIN: secrets.token_urlsafe(16), **security.users}
        self.protocol = "SASL_SSL" if security.tls else "SASL_PLAINTEXT"
        self.ca_file: Path | None = None
        self._keystore: Path | None = None
        if security.tls:
            made = make_certificates(HOSTS)
            self.ca_file, self._keystore = folder / "ca.pem", folder / "broker.pem"
            _write(self.ca_file, made.authority)
            _write(self._keystore, made.broker)

    def broker_settings(self, port: int) -> dict[str, str]:
        """What the broker is started with."""
        users = " ".join(f'user_{name}="{word}"' for name, word in self._users.items())
        listener = f"listener.name.{self.protocol.lower()}"
        login = f'{_MODULE} required username="{ADMIN}" password="{self._users[ADMIN]}" {users};'
        settings = {
            "listeners": f"{self.protocol}://127.0.0.1:{port}",
            "inter.broker.listener.name": self.protocol,
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            f"{listener}.plain.sasl.jaas.config": login,
            "super.users": f"User:{ADMIN}",
        }
        if self._keystore is not None:
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self._keystore),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.ca_file),
            }
        if self._security.authorizer:
            settings["authorizer.class.name"] = (
                "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
            )
        return settings

    def client_config(self, user: str, client: ClientKind) -> dict[str, object]:
        """The settings with which a client library logs in as a user; KeyError for strangers."""
        password, ca = self._users[user], self.ca_file
        if client == "confluent":
            trusted = {} if ca is None else {"ssl.ca.location": str(ca)}
            return {
                "security.protocol": self.protocol,
                "sasl.mechanism": "PLAIN",
                "sasl.username": user,
                "sasl.password": password,
                **trusted,
            }
        if client == "java":
            trusted = (
                {}
                if ca is None
                else {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(ca)}
            )
            login = f'{_MODULE} required username="{user}" password="{password}";'
            return {
                "security.protocol": self.protocol,
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": login,
                **trusted,
            }
        common: dict[str, object] = {
            "security_protocol": self.protocol,
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": user,
            "sasl_plain_password": password,
        }
        if ca is None:
            return common
        if client == "kafka-python":
            return {**common, "ssl_cafile": str(ca)}
        if client == "aiokafka":
            import ssl

            return {**common, "ssl_context": ssl.create_default_context(cafile=str(ca))}
        raise ValueError(f"client={client!r} is not one of confluent, kafka-python, aiokafka, java")


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
