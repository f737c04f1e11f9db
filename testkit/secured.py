"""A broker with every protocol of the listeners at once, and a user who may do everything.

Rules kept here:
1. PLAINTEXT, on `bootstrap`, is the harness's own; clients under test get one of the others.
2. The authorizer is on: what a client may not do, it is refused. Only the users here are super
   users; anonymous clients are, too, so that a harness can look.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from ottla.config.broker_network_configs import STANDARD_AUTHORIZER
from ottla.security.scram import salted_password
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from testkit.certificates import Certificates, plain_users
from testkit.clients.base import Login
from testkit.process import BrokerProcess
from testkit.raw import Connection
from testkit.server import free_port

USER, PASSWORD = "alice", "wonderland"
ITERATIONS = 4096
SCRAM_MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}


class SecuredBroker(BrokerProcess):
    """`with` it; the user can log in with PLAIN and SCRAM once it is entered."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, settings)
        folder.mkdir(parents=True, exist_ok=True)
        self.certificates = Certificates(folder)
        self.ports = {name: free_port() for name in ("SASL_SSL", "SASL_PLAINTEXT", "SSL")}
        others = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        self.settings = {
            **self.certificates.broker_config(),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},{others}",
            "sasl.enabled.mechanisms": ",".join(("PLAIN", *SCRAM_MECHANISMS)),
            "listener.name.sasl_ssl.plain.sasl.jaas.config": plain_users(**{USER: PASSWORD}),
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain_users(**{USER: PASSWORD}),
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": f"User:{USER};User:ANONYMOUS",
            **self.settings,
        }

    def where(self, protocol: str) -> str:
        """The address of one listener."""
        return f"127.0.0.1:{self.ports[protocol]}"

    def start(self) -> Self:
        """Start it, and make the user."""
        super().start()
        self.add_user(USER, PASSWORD)
        return self

    def add_user(self, user: str, password: str) -> None:
        """A credential for each kind of SCRAM."""
        changes = []
        for name, number in SCRAM_MECHANISMS.items():
            salt = b"salt of " + user.encode()
            salted = salted_password(name, password, salt, ITERATIONS)
            changes.append(
                ScramCredentialUpsertion(
                    name=user, mechanism=number, iterations=ITERATIONS, salt=salt,
                    salted_password=salted,
                )
            )  # fmt: skip
        with Connection(self.bootstrap) as connection:
            for change in changes:  # one request has each user once
                request = AlterUserScramCredentialsRequest(upsertions=[change])
                answer = connection.ask(request, AlterUserScramCredentialsResponse, 0)
                assert not any(each.error_code for each in answer.results), answer

    def login(self, mechanism: str = "SCRAM-SHA-512") -> Login:
        """The user's, over SASL_SSL."""
        return Login(mechanism, USER, PASSWORD, self.certificates.ca)
