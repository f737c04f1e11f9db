"""GSSAPI with a real KDC: our client and commands, Kafka's Java client, and kcat.

What it needs is not everywhere (MIT's krb5kdc, `gssapi`, `k5test`): `python -m compat --only
kerberos` fails without it, and here it is skipped.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client import Client, ClientSettings
from ottla.client.admin import Admin
from ottla.client.security import AuthenticationFailed, client_security
from ottla.config.errors import ConfigError
from ottla.security.gssapi import new_acceptor
from ottla.security.kerberos import KerberosAcceptor
from ottla.wire.errors import KafkaError
from testkit import java_runtime
from testkit.cluster import ClusterProcesses
from testkit.kerberos import KRB5_MODULE, KerberosBroker, Realm
from testkit.process import plain_environment
from testkit.server import free_port
from testkit.waiting import until

pytest.importorskip("gssapi")
pytest.importorskip("k5test")
pytestmark = pytest.mark.long
SECONDS = 60.0


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with Realm(tmp_path_factory.mktemp("realm")) as found, pytest.MonkeyPatch.context() as patch:
        for name, text in found.environment.items():
            patch.setenv(name, text)
        yield found


@pytest.fixture(scope="module")
def alice(realm: Realm) -> Path:
    return realm.keytab("alice")


@pytest.fixture(scope="module")
def broker(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosBroker]:
    with KerberosBroker(tmp_path_factory.mktemp("broker"), realm) as found:
        yield found
        assert found.tracebacks() == []


def client(broker: KerberosBroker, jaas: str, where: str | None = None) -> Client:
    security = client_security(broker.client_properties(jaas))
    servers = where or broker.secure_bootstrap
    return Client(ClientSettings(bootstrap_servers=servers, deadline=10, security=security))


def properties(broker: KerberosBroker, jaas: str, folder: Path) -> Path:
    path = folder / "client.properties"
    settings = broker.client_properties(jaas)
    path.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
    path.chmod(0o600)
    return path


def test_a_client_logs_in_with_a_keytab(broker: KerberosBroker, realm: Realm, alice: Path) -> None:
    with client(broker, realm.jaas("alice", alice)) as connected:
        assert connected.metadata(None).brokers


def test_a_command_logs_in_with_the_tickets_of_kinit(
    broker: KerberosBroker, realm: Realm, alice: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ottla", "topic", "create", "by-kinit",
         "--bootstrap", broker.secure_bootstrap,
         "--command-config",
         str(properties(broker, f"{KRB5_MODULE} required useTicketCache=true;", tmp_path))],
        env=plain_environment() | realm.kinit("alice", alice),
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_who_has_no_ticket_is_told_so(broker: KerberosBroker, realm: Realm, tmp_path: Path) -> None:
    stranger = realm.jaas("stranger", tmp_path / "none.keytab")
    with (
        client(broker, stranger) as refused,
        pytest.raises(AuthenticationFailed, match="no Kerberos ticket for kafka@localhost"),
    ):
        refused.metadata(None)


def test_a_service_that_the_realm_does_not_know_gets_no_ticket(
    broker: KerberosBroker, realm: Realm, alice: Path
) -> None:
    line = realm.jaas("alice", alice).replace("required", 'required serviceName="unknown"')
    settings = broker.client_properties(line)
    del settings["sasl.kerberos.service.name"]
    security = client_security(settings)
    where = broker.secure_bootstrap
    with (
        Client(ClientSettings(bootstrap_servers=where, deadline=10, security=security)) as refused,
        pytest.raises(AuthenticationFailed, match="no Kerberos ticket for unknown@localhost"),
    ):
        refused.metadata(None)


def test_a_ticket_for_another_key_is_refused_without_a_reason(realm: Realm, tmp_path: Path) -> None:
    bob = realm.keytab("bob")
    with KerberosBroker(tmp_path / "broker", realm, service="other") as other:
        realm.change_key("other/localhost")  # the broker's keytab has the one before
        line = realm.jaas("bob", bob)
        with client(other, line) as refused, pytest.raises(AuthenticationFailed) as problem:
            refused.metadata(None)
        assert str(problem.value).endswith("due to invalid credentials with SASL mechanism GSSAPI")
        until(lambda: "kvno 2 in keytab" in other.log_text(), "the log says why")


def test_the_user_is_who_the_ticket_says(broker: KerberosBroker, realm: Realm) -> None:
    mallory = realm.keytab("mallory")
    with (
        client(broker, realm.jaas("mallory", mallory)) as other,
        pytest.raises(KafkaError, match=r"AUTHORIZATION_FAILED|not authorized"),
    ):
        Admin(other).create_topic("hers", partitions=1, replication_factor=1)


def test_a_keytab_that_cannot_be_used_is_refused_at_the_start(
    realm: Realm, alice: Path, tmp_path: Path
) -> None:
    def settings(keytab: Path, name: str = "alice") -> KerberosAcceptor:
        return KerberosAcceptor(realm.principal(name), str(keytab), "the JAAS line")

    new_acceptor(settings(alice))
    with pytest.raises(ConfigError, match="cannot read the keytab"):
        new_acceptor(settings(tmp_path / "missing"))
    with pytest.raises(ConfigError, match=r"no key of bob@"):
        new_acceptor(settings(alice, "bob"))
    open_to_all = tmp_path / "open.keytab"
    open_to_all.write_bytes(alice.read_bytes())
    open_to_all.chmod(0o644)
    with pytest.raises(ConfigError, match="can be read by every user"):
        new_acceptor(settings(open_to_all))


def test_kcat_and_java_log_in(
    broker: KerberosBroker, realm: Realm, alice: Path, tmp_path: Path
) -> None:
    said = subprocess.run(
        ["kcat", "-b", broker.secure_bootstrap, "-L",
         "-X", "security.protocol=SASL_SSL", "-X", f"ssl.ca.location={broker.certificates.ca}",
         "-X", "sasl.mechanisms=GSSAPI", "-X", "sasl.kerberos.service.name=kafka",
         "-X", f"sasl.kerberos.keytab={alice}",
         "-X", f"sasl.kerberos.principal={realm.principal('alice')}"],
        env=plain_environment() | realm.environment,
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    assert "1 brokers" in said.stdout
    command = java_runtime.command(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", broker.secure_bootstrap,
        "--command-config", str(properties(broker, realm.jaas("alice", alice), tmp_path)),
        "--create", "--topic", "by-java",
    )  # fmt: skip
    where = realm.environment["KRB5_CONFIG"]
    command[1:1] = [f"-Djava.security.krb5.conf={where}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    assert "Created topic by-java." in done.stdout


def test_brokers_log_in_at_each_other(realm: Realm, tmp_path: Path) -> None:
    template = KerberosBroker(tmp_path / "template", realm)
    ports = [free_port() for _ in range(2)]

    def each(number: int) -> dict[str, str]:
        plain = cluster_ports[number]
        listeners = f"PLAINTEXT://127.0.0.1:{plain},SASL_SSL://localhost:{ports[number]}"
        return {**template.settings, "listeners": listeners, "inter.broker.listener.name":
                "SASL_SSL", "sasl.mechanism.inter.broker.protocol": "GSSAPI"}  # fmt: skip

    cluster_ports = [free_port() for _ in range(2)]
    cluster = ClusterProcesses(tmp_path / "cluster", 2, each=each)
    for number, one in enumerate(cluster.brokers):
        one.port = cluster_ports[number]
        one.environment |= realm.environment
    with cluster:
        cluster.create("replicated", replicas=2)
