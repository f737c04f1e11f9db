"""Brokers that authenticate to each other: by SCRAM or PLAIN, by certificates, and as workers."""

import asyncio
from pathlib import Path

import pytest

from ottla.broker.replication.link import Link, LinkError
from ottla.broker.replication.link_security import LinkSecurity
from ottla.config import BrokerConfig
from ottla.config.errors import ConfigError
from ottla.embedded import Broker
from ottla.metadata.documents import BrokerEndpoint
from ottla.security.listeners import link_settings
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from testkit.certificates import PLAIN_MODULE, Certificates
from tests.server.inside import connections, on_loop, running

SECONDS = 20.0


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def sasl_config(certificates: Certificates, **more: str) -> dict[str, str]:
    jaas = f'{PLAIN_MODULE} required username="broker" password="pw" user_broker="pw";'
    return {
        **certificates.broker_config(),
        "listeners": "SASL_SSL://127.0.0.1:0",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def security(config: dict[str, str]) -> LinkSecurity:
    settings = {**config, "ottla.store": "sqlite:/nowhere"}
    return LinkSecurity(link_settings(BrokerConfig.from_static(settings)))


def ask(
    broker: Broker, link_security: LinkSecurity, host: str = "127.0.0.1", times: int = 1
) -> int:
    """How many brokers another one answers with."""

    async def call() -> int:
        where = BrokerEndpoint("X", host, broker.port, "X")
        link = await Link.open(where, SECONDS, link_security)
        try:
            for _ in range(times):
                reply = await link.ask(MetadataRequest(topics=[]), MetadataResponse, 9, SECONDS)
                await asyncio.sleep(0 if times == 1 else 0.6)
            return len(reply.brokers)
        finally:
            link.close()

    return asyncio.run(call())


def test_a_broker_logs_in_through_tls(certificates: Certificates) -> None:
    config = sasl_config(certificates)
    with Broker(config=config) as broker:
        assert ask(broker, security(config)) == 1


def test_a_session_is_renewed_before_it_ends(certificates: Certificates) -> None:
    config = sasl_config(certificates, connections_max_reauth_ms="2000")
    with Broker(config=config) as broker:
        assert ask(broker, security(config), times=5) == 1


@pytest.mark.parametrize("change", ["password", "truststore", "host"])
def test_a_wrong_password_certificate_or_host_is_one_clear_error(
    certificates: Certificates, tmp_path: Path, change: str
) -> None:
    config = sasl_config(certificates)
    other = dict(config)
    if change == "password":
        name = "listener.name.sasl_ssl.plain.sasl.jaas.config"
        other[name] = config[name].replace('password="pw"', 'password="no"')
    elif change == "truststore":
        other["ssl.truststore.location"] = str(Certificates(tmp_path).ca)
    host = "127.0.0.2" if change == "host" else "127.0.0.1"
    said = {
        "password": "Invalid username or password",
        "truststore": "certificate verify failed",
        "host": "IP address mismatch",
    }
    listening = {**config, "listeners": "SASL_SSL://0.0.0.0:0"}
    with Broker(config=listening) as broker, pytest.raises(LinkError, match=said[change]):
        ask(broker, security(other), host)


def test_a_broker_with_a_certificate_needs_no_login(certificates: Certificates) -> None:
    config = {
        **certificates.broker_config(),
        "listeners": "SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
        "ssl.client.auth": "required",
    }
    with Broker(config=config) as broker:
        assert ask(broker, security(config)) == 1


def test_workers_know_each_other_by_their_password_and_certificate(
    certificates: Certificates, tmp_path: Path
) -> None:
    config = sasl_config(certificates)
    own = {**config, "ottla.worker.password": "made at this start"}
    del own["ssl.truststore.location"]
    with Broker(config=own) as broker:
        assert ask(broker, security(own)) == 1
        found: list[str] = []

        async def look() -> None:
            where = BrokerEndpoint("X", "127.0.0.1", broker.port, "X")
            link = await Link.open(where, SECONDS, security(own))
            found.extend(str(each.principal) for each in connections(broker))
            link.close()

        asyncio.run(look())
        assert found == ["Ottla:worker"]
        with pytest.raises(LinkError, match="invalid credentials"):
            ask(broker, security({**own, "ottla.worker.password": "of another start"}))
        stranger = Certificates(tmp_path).broker
        with pytest.raises(LinkError, match="does not have the certificate"):
            ask(broker, security({**own, "ssl.keystore.location": str(stranger)}))
        on_loop(broker, lambda: running(broker).node.id)
    with Broker(config=config) as broker, pytest.raises(LinkError, match="is not enabled there"):
        ask(broker, security({**config, "ottla.worker.password": "x"}))


def test_what_brokers_need_is_checked_at_the_start(certificates: Certificates) -> None:
    config = {**sasl_config(certificates), "ottla.store": "sqlite:/nowhere"}
    for name, value, said in (
        (
            "sasl.mechanism.inter.broker.protocol",
            "GSSAPI",
            "Must be one of sasl.enabled.mechanisms",
        ),
        (
            "listener.name.sasl_ssl.plain.sasl.jaas.config",
            f'{PLAIN_MODULE} required user_x="y";',
            "Brokers cannot authenticate to each other",
        ),
    ):
        with pytest.raises(ConfigError, match=said):
            link_settings(BrokerConfig.from_static({**config, name: value}))
