"""The registry beside a broker with TLS and logins: by a client's settings, or by itself."""

import sys
from pathlib import Path

import pytest

import ottla
from ottla.config import BrokerConfig
from ottla.config.errors import ConfigError
from ottla.security.registry_login import registry_login
from testkit.certificates import Certificates, plain_users
from testkit.process import BrokerProcess
from testkit.server import free_port
from testkit.waiting import until
from tests.registry.registries import RegistryProcess, Rest

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_a_registry_logs_in_with_a_clients_settings(tmp_path: Path) -> None:
    security = ottla.Security(users={"schemas": "secret"})
    with ottla.Broker(security=security, registry=True) as broker:
        assert Rest(broker.registry_url).register("a", '"int"').status == 200
        config = broker.client_config("schemas", client="java")
        config.pop("bootstrap.servers", None)
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
        file.chmod(0o600)
        options = ("--command-config", str(file), "--topic", "_others", "--alone")
        with RegistryProcess(broker.bootstrap_servers, *options) as registry:
            assert registry.rest().register("b", '"int"').status == 200


def test_the_registry_of_a_secured_broker_logs_in_by_itself(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    broker = _Secured(tmp_path)
    settings = {
        **certificates.broker_config(),
        "listeners": f"SASL_SSL://127.0.0.1:{broker.port}",
        "ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": plain_users(admin="secret"),
        "authorizer.class.name": AUTHORIZER,
    }
    broker.file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    broker.launch()
    try:
        rest = Rest(f"http://127.0.0.1:{broker.registry_port}")
        until(lambda: registered(rest), "the registry serves", 60)
    finally:
        broker.kill()


class _Secured(BrokerProcess):
    """`ottla serve --config FILE --registry PORT`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.registry_port = free_port()
        self.file = folder / "server.properties"

    def command(self) -> list[str]:
        command = [sys.executable, "-m", "ottla", "serve", "--config", str(self.file)]
        return [*command, "--data", str(self.data), "--registry", str(self.registry_port)]


def registered(rest: Rest) -> bool:
    try:
        return rest.register("a", '"int"').status == 200
    except OSError:
        return False


def test_an_ssl_listener_with_an_authorizer_has_no_user_for_the_registry() -> None:
    settings = {"listeners": "SSL://127.0.0.1:9092", "authorizer.class.name": AUTHORIZER}
    with pytest.raises(ConfigError, match="use SASL_SSL"):
        registry_login(BrokerConfig.from_static(settings), "made")
