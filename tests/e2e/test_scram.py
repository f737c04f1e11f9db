"""SCRAM from the first user on: made by an admin client, used by others, and gone when removed."""

import asyncio
import time
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from ottla.client.connection import BrokerConnection
from ottla.client.security import AuthenticationFailed, client_security
from ottla.client.settings import ClientSettings, addresses
from ottla.embedded import Broker
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from testkit.certificates import Certificates, plain_users
from testkit.waiting import stretched, until
from tests.server.inside import connections, running

SECONDS = 30.0
MECHANISMS = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(certificates: Certificates) -> Iterator[Broker]:
    config = {
        **certificates.broker_config(),
        "listeners": "SASL_SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": plain_users(admin="secret"),
        "delegation.token.secret.key": "for tokens",
    }
    with Broker(config=config) as running_broker:
        yield running_broker


def settings(
    broker: Broker, certificates: Certificates, user: str, password: str, mechanism: str
) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(certificates.ca),
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def admin(broker: Broker, certificates: Certificates) -> AdminClient:
    return AdminClient(settings(broker, certificates, "admin", "secret", "PLAIN"))


def add(broker: Broker, certificates: Certificates, user: str, password: str) -> None:
    client = admin(broker, certificates)
    for mechanism in MECHANISMS.values():
        info = ScramCredentialInfo(mechanism, 4096)
        change = UserScramCredentialUpsertion(user, info, password.encode())
        for done in client.alter_user_scram_credentials([change]).values():
            done.result(SECONDS)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_user_that_was_made_logs_in(
    broker: Broker, certificates: Certificates, mechanism: str
) -> None:
    add(broker, certificates, "alice, =", "wonder=land,")
    login = settings(broker, certificates, "alice, =", "wonder=land,", mechanism)
    producer = Producer(login)
    producer.produce("t", b"x")
    assert producer.flush(SECONDS) == 0
    assert "User:alice, =" in {str(each.principal) for each in connections(broker)}


def test_aiokafka_logs_in_with_scram(broker: Broker, certificates: Certificates) -> None:
    import ssl

    add(broker, certificates, "bob", "builder")

    async def run() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap_servers,
            security_protocol="SASL_SSL",
            sasl_mechanism="SCRAM-SHA-512",
            sasl_plain_username="bob",
            sasl_plain_password="builder",
            ssl_context=ssl.create_default_context(cafile=str(certificates.ca)),
        ) as producer:
            await producer.send_and_wait("t", b"y")

    asyncio.run(asyncio.wait_for(run(), SECONDS))


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "x")])
def test_wrong_passwords_and_unknown_users_are_told_the_same(
    broker: Broker, certificates: Certificates, user: str, password: str
) -> None:
    add(broker, certificates, "alice", "right")
    found: list[KafkaError] = []
    login = settings(broker, certificates, user, password, "SCRAM-SHA-256")
    producer = Producer({**login, "error_cb": found.append})
    deadline = time.monotonic() + stretched(SECONDS)
    while not any(each.code() == KafkaError._AUTHENTICATION for each in found):
        assert time.monotonic() < deadline
        producer.poll(0.2)
    assert any("invalid credentials with SASL mechanism SCRAM-SHA-256" in str(e) for e in found)


def test_the_connections_of_a_removed_user_are_closed(
    broker: Broker, certificates: Certificates
) -> None:
    add(broker, certificates, "carol", "pw")
    producer = Producer(settings(broker, certificates, "carol", "pw", "SCRAM-SHA-256"))
    producer.produce("t", b"z")
    assert producer.flush(SECONDS) == 0

    def users() -> set[str]:
        return {str(each.principal) for each in connections(broker)}

    assert "User:carol" in users()
    client = admin(broker, certificates)
    for mechanism in MECHANISMS.values():
        gone = UserScramCredentialDeletion("carol", mechanism)
        for done in client.alter_user_scram_credentials([gone]).values():
            done.result(SECONDS)
    until(lambda: "User:carol" not in users(), "the removed user's connections are closed", SECONDS)


def connected(
    broker: Broker, certificates: Certificates, mechanism: str, user: str, password: str, more: str
) -> BrokerConnection:
    """A connection of Ottla's own client, which can send any request."""
    kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    security = client_security(
        {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates.ca),
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"org.apache.kafka.common.security.{kind}LoginModule required "
            f'username="{user}" password="{password}" {more};',
        }
    )
    servers = broker.bootstrap_servers
    (address,) = addresses(servers)
    return BrokerConnection(address, ClientSettings(bootstrap_servers=servers, security=security))


def test_a_delegation_token_logs_in_as_its_owner_and_makes_no_tokens(
    broker: Broker, certificates: Certificates
) -> None:
    by_password = connected(broker, certificates, "PLAIN", "admin", "secret", "")
    request = CreateDelegationTokenRequest(
        owner_principal_type=None, owner_principal_name=None, renewers=[], max_lifetime_ms=-1
    )
    token = by_password.call(request, CreateDelegationTokenResponse)
    assert token.error_code == ErrorCode.NONE
    hmac = b64encode(token.hmac).decode()
    for mechanism in MECHANISMS:
        by_token = connected(
            broker, certificates, mechanism, token.token_id, hmac, 'tokenauth="true"'
        )
        assert [str(each.principal) for each in connections(broker)].count("User:admin") >= 2
        refused = by_token.call(request, CreateDelegationTokenResponse)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        by_token.close()
    with pytest.raises(AuthenticationFailed):  # the id is not a user
        connected(broker, certificates, "SCRAM-SHA-256", token.token_id, hmac, "")
    expire = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1)
    assert by_password.call(expire, ExpireDelegationTokenResponse).error_code == ErrorCode.NONE
    with pytest.raises(AuthenticationFailed):
        connected(broker, certificates, "SCRAM-SHA-256", token.token_id, hmac, 'tokenauth="true"')
    by_password.close()


def test_salts_of_unknown_users_come_from_the_store(broker: Broker) -> None:
    assert running(broker)._fake_salts() == running(broker).node.image.security_secret
