"""Apache Kafka and Ottla with the same users, ACLs and logins, for comparisons.

PLAINTEXT is the harness's own: its anonymous client is a super user. The users of
SASL_PLAINTEXT log in with PLAIN; `ADMIN` is a super user, too.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from ottla.config.broker_network_configs import STANDARD_AUTHORIZER
from testkit import java_runtime
from testkit.certificates import plain_users
from testkit.kafka import Kafka
from testkit.process import BrokerProcess
from testkit.server import free_port

ADMIN = "admin"
SETTINGS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": f"User:ANONYMOUS;User:{ADMIN}",
    "sasl.enabled.mechanisms": "PLAIN",
    "delegation.token.secret.key": "secret",
    "auto.create.topics.enable": "true",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
_SASL = "SASL_PLAINTEXT"


class Addresses(NamedTuple):
    """Where a broker is found."""

    plain: str
    secure: str


class _Kafka(Kafka):
    def __init__(self, folder: Path, more: Mapping[str, str]) -> None:
        super().__init__(folder, java_runtime.libs())
        # Two of free_port() at once may be the same one.
        self.controller_port = free_port(2)
        self.secure_port = self.controller_port + 1
        self._more = more

    def settings(self) -> dict[str, str]:
        """Another listener, whose clients log in."""
        found = {**super().settings(), **SETTINGS, **self._more}
        pairs = ("CONTROLLER:PLAINTEXT", "PLAINTEXT:PLAINTEXT", f"{_SASL}:{_SASL}")
        found["listener.security.protocol.map"] = ",".join(pairs)
        for name in ("listeners", "advertised.listeners"):
            found[name] += f",{_SASL}://127.0.0.1:{self.secure_port}"
        return found


@contextmanager
def both(passwords: Mapping[str, str]) -> Iterator[tuple[BrokerProcess, Addresses, Addresses]]:
    """Ottla's process, and where Ottla and Kafka are; a traceback in Ottla's log is an error."""
    known = {"listener.name.sasl_plaintext.plain.sasl.jaas.config": plain_users(**passwords)}
    with TemporaryDirectory() as folder:
        broker = BrokerProcess(Path(folder) / "ottla", SETTINGS | known)
        secure_port = free_port()
        broker.settings["listeners"] = (
            f"PLAINTEXT://127.0.0.1:{broker.port},{_SASL}://127.0.0.1:{secure_port}"
        )
        with broker, _Kafka(Path(folder) / "kafka", known) as kafka:
            kafka.start()
            yield (
                broker,
                Addresses(broker.bootstrap, f"127.0.0.1:{secure_port}"),
                Addresses(kafka.bootstrap, f"127.0.0.1:{kafka.secure_port}"),
            )
