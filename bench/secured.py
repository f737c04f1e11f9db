"""Both brokers with TLS and logins, and Ottla with an authorizer, ACLs and quotas.

Rules: the works reach the TLS listener; the bench itself asks on a PLAINTEXT one beside it. Both
brokers have the same certificate (ECDSA P-256) and speak TLS 1.3 with what is left at its defaults.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from bench.ottla import Ottla
from testkit.certificates import Certificates
from testkit.errors import HarnessError
from testkit.kafka import Kafka
from testkit.server import ProcessServer, free_port

USER, PASSWORD = "alice", "a password of some length"
MECHANISM = "SCRAM-SHA-512"
OTHER_ACLS = 1_000
ANSWER_SECONDS = 60.0
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class Tls(ProcessServer):
    """A server with an SSL and a SASL_SSL listener beside the PLAINTEXT one."""

    def add_tls(self, certificates: Certificates) -> None:
        """Give it ports and a certificate."""
        self.ssl_port, self.login_port = free_port(), free_port()
        self._certificates = certificates
        self.client_settings = {
            "security.protocol": "ssl",
            "ssl.ca.location": str(certificates.ca),
            "ssl.endpoint.identification.algorithm": "none",
        }

    @property
    def measured_bootstrap(self) -> str:
        """The SSL listener."""
        return f"127.0.0.1:{self.ssl_port}"

    def listeners(self) -> str:
        """Those that clients use."""
        return (
            f"PLAINTEXT://127.0.0.1:{self.port},SSL://127.0.0.1:{self.ssl_port},"
            f"SASL_SSL://127.0.0.1:{self.login_port}"
        )

    def tls_settings(self) -> dict[str, str]:
        """The same on both sides; each names its listeners itself."""
        return {
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._certificates.broker),
            "ssl.enabled.protocols": "TLSv1.3",
            "sasl.enabled.mechanisms": MECHANISM,
            "authorizer.class.name": AUTHORIZER,
            "super.users": "User:ANONYMOUS",
        }

    def add_user(self) -> None:
        """The one that logs in."""
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        user = UserScramCredentialUpsertion(USER, scram, PASSWORD.encode())
        admin = _admin(self)  # kept: the answer goes with the client that asked
        answer = admin.alter_user_scram_credentials([user])[USER]
        answer.result(ANSWER_SECONDS)


class TlsKafka(Tls, Kafka):
    """Apache Kafka with TLS."""

    def __init__(self, folder: Path, libs: Path, certificates: Certificates) -> None:
        Kafka.__init__(self, folder, libs)
        self.add_tls(certificates)

    def settings(self) -> dict[str, str]:
        """Those of a node without TLS, and more."""
        controller = f"CONTROLLER://127.0.0.1:{self.controller_port}"
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        protocols = ("CONTROLLER:PLAINTEXT", "PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_SSL:SASL_SSL")
        return {
            **super().settings(),
            **self.tls_settings(),
            "listeners": f"{self.listeners()},{controller}",
            "advertised.listeners": self.listeners(),
            "listener.security.protocol.map": ",".join(protocols),
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": login,
        }


class TlsOttla(Tls, Ottla):
    """Ottla with TLS."""

    def __init__(
        self, folder: Path, certificates: Certificates, installed: Path | None = None
    ) -> None:
        Ottla.__init__(self, folder, installed=installed)
        self.add_tls(certificates)

    def address(self) -> list[str]:
        """The settings say where."""
        return []

    def settings(self) -> dict[str, str]:
        """As Kafka's."""
        return {**self.tls_settings(), "listeners": self.listeners()}


class GuardedOttla(Ottla):
    """Ottla without TLS, but with an authorizer whose ACLs count for its clients, and quotas."""

    name = "Ottla, guarded"

    def settings(self) -> dict[str, str]:
        """Everybody may do everything until there are ACLs."""
        return {"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}

    def start(self) -> float:
        """Start, and add ACLs and quotas."""
        seconds = super().start()
        admin = _admin(self)
        for answer in admin.create_acls(list(_acls())).values():
            answer.result(ANSWER_SECONDS)
        quotas = [
            "producer_byte_rate=1000GB",
            "consumer_byte_rate=1000GB",
            "request_percentage=100000",
        ]
        command = [sys.executable, "-m", "ottla", "quota", "set", "user=<default>", *quotas]
        done = subprocess.run(
            [*command, "--bootstrap", self.bootstrap], check=False, capture_output=True, text=True
        )
        if done.returncode:
            raise HarnessError(f"no quotas: {done.stderr.strip()}")
        return seconds


def _acls() -> Iterator[AclBinding]:
    """What the clients of the bench need, and a thousand of others."""
    literal, prefixed = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
    everything, allow = AclOperation.ALL, AclPermissionType.ALLOW
    for number in range(OTHER_ACLS):
        pattern = prefixed if number % 2 else literal
        operation = (AclOperation.READ, AclOperation.WRITE)[number % 4 // 2]
        yield AclBinding(ResourceType.TOPIC, f"team-{number}", pattern, f"User:user-{number % 50}",
                         "*", operation, allow)  # fmt: skip
    for kind, name in (
        (ResourceType.TOPIC, "*"),
        (ResourceType.GROUP, "*"),
        (ResourceType.BROKER, "kafka-cluster"),
    ):
        yield AclBinding(kind, name, literal, "User:ANONYMOUS", "*", everything, allow)


def _admin(server: ProcessServer) -> AdminClient:
    return AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})
