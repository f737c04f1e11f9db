"""Real clients over SASL_SSL and with certificates, and their errors when they are refused."""

import asyncio
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # type: ignore[import-untyped]
from confluent_kafka import Consumer, KafkaError, Producer
from kafka import KafkaConsumer, KafkaProducer  # type: ignore[import-untyped]

from ottla.client import Client, ClientSettings
from ottla.client.security import AuthenticationFailed, client_security
from ottla.embedded import Broker
from ottla.wire.errors import KafkaError as OttlaError
from testkit.certificates import PLAIN_MODULE, Certificates, plain_users
from tests.server.inside import running

SECONDS = 30.0
COUNT = 200


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    made = Certificates(tmp_path_factory.mktemp("certificates"))
    made.issue("client")
    return made


@pytest.fixture(scope="module")
def broker(certificates: Certificates) -> Iterator[Broker]:
    config = {
        **certificates.broker_config(),
        "listeners": "SASL_SSL://127.0.0.1:0,SSL://127.0.0.1:0",
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": plain_users(alice="wonderland"),
        "connections.max.reauth.ms": "1500",
    }
    with Broker(config=config) as running_broker:
        yield running_broker


def where(broker: Broker, protocol: str) -> str:
    port = next(
        each.port for each in running(broker).node.lifecycle.advertised if each.name == protocol
    )
    return f"127.0.0.1:{port}"


def client_file(certificates: Certificates) -> str:
    return str(certificates.ca.with_name("client.pem"))


def confluent(broker: Broker, certificates: Certificates, protocol: str) -> dict[str, Any]:
    login: dict[str, Any] = {
        "sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "wonderland",
    }  # fmt: skip
    if protocol == "SSL":
        own = client_file(certificates)
        login = {"ssl.certificate.location": own, "ssl.key.location": own}
    return {
        "bootstrap.servers": where(broker, protocol),
        "security.protocol": protocol,
        "ssl.ca.location": str(certificates.ca),
        **login,
    }


def python_client(broker: Broker, certificates: Certificates, protocol: str) -> dict[str, Any]:
    login: dict[str, Any] = {
        "sasl_mechanism": "PLAIN", "sasl_plain_username": "alice",
        "sasl_plain_password": "wonderland",
    }  # fmt: skip
    if protocol == "SSL":
        own = client_file(certificates)
        login = {"ssl_certfile": own, "ssl_keyfile": own}
    return {
        "bootstrap_servers": where(broker, protocol),
        "security_protocol": protocol,
        "ssl_cafile": str(certificates.ca),
        **login,
    }


PROTOCOLS = pytest.mark.parametrize("protocol", ["SASL_SSL", "SSL"])


@PROTOCOLS
def test_confluent_kafka(broker: Broker, certificates: Certificates, protocol: str) -> None:
    settings = confluent(broker, certificates, protocol)
    topic = f"confluent-{protocol.lower()}"
    producer = Producer(settings)
    values = [b"%d" % number + bytes(2000) for number in range(COUNT)]
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(SECONDS) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    got: list[bytes | None] = []
    while len(got) < COUNT:
        (found,) = consumer.consume(1, SECONDS)
        assert found.error() is None
        got.append(found.value())
    assert got == values
    renewed = time.monotonic() + 2  # sessions last 1.5 s: this goes on while they are renewed
    while time.monotonic() < renewed:
        producer.produce(topic, b"later")
        assert producer.flush(SECONDS) == 0
    consumer.close()


@PROTOCOLS
def test_kafka_python(broker: Broker, certificates: Certificates, protocol: str) -> None:
    settings = python_client(broker, certificates, protocol)
    topic = f"python-{protocol.lower()}"
    producer = KafkaProducer(**settings)
    for number in range(COUNT):
        producer.send(topic, b"%d" % number)
    producer.flush(SECONDS)
    producer.close()
    consumer = KafkaConsumer(
        topic, **settings, auto_offset_reset="earliest", consumer_timeout_ms=SECONDS * 1000
    )
    got = [next(consumer).value for _ in range(COUNT)]
    assert got == [b"%d" % number for number in range(COUNT)]
    consumer.close()


@PROTOCOLS
def test_aiokafka(broker: Broker, certificates: Certificates, protocol: str) -> None:
    settings = python_client(broker, certificates, protocol)
    settings["ssl_context"] = ssl.create_default_context(cafile=settings.pop("ssl_cafile"))
    if protocol == "SSL":
        settings["ssl_context"].load_cert_chain(settings.pop("ssl_certfile"))
        del settings["ssl_keyfile"]
    topic = f"aio-{protocol.lower()}"

    async def run() -> list[bytes | None]:
        async with AIOKafkaProducer(**settings) as producer:
            for number in range(COUNT):
                await producer.send(topic, b"%d" % number)
            await producer.flush()
        async with AIOKafkaConsumer(topic, **settings, auto_offset_reset="earliest") as consumer:
            return [(await consumer.getone()).value for _ in range(COUNT)]

    got = asyncio.run(asyncio.wait_for(run(), 2 * SECONDS))
    assert got == [b"%d" % number for number in range(COUNT)]


def own_settings(
    broker: Broker, certificates: Certificates, protocol: str, password: str = "wonderland"
) -> ClientSettings:
    properties = {
        "security.protocol": protocol,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.ca),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": client_file(certificates),
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN_MODULE} required username="alice" password="{password}";',
    }
    return ClientSettings(
        bootstrap_servers=where(broker, protocol),
        deadline=5,
        security=client_security(properties),
    )


@PROTOCOLS
def test_our_own_client(broker: Broker, certificates: Certificates, protocol: str) -> None:
    settings = own_settings(broker, certificates, protocol)
    assert "wonderland" not in repr(settings)
    with Client(settings) as client:
        client.metadata(None)


def test_our_own_client_says_what_is_wrong(
    broker: Broker, certificates: Certificates, tmp_path: Path
) -> None:
    other = Certificates(tmp_path)
    other.issue("client")
    tries = {
        "Invalid username or password": own_settings(broker, certificates, "SASL_SSL", "wrong"),
        "is not trusted": own_settings(broker, other, "SASL_SSL"),
    }
    for said, settings in tries.items():
        with Client(settings) as client, pytest.raises(AuthenticationFailed, match=said):
            client.metadata(None)
    with Client(where(broker, "SSL")) as plain, pytest.raises(OttlaError):
        plain.metadata(None)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"sasl.password": "wrong"}, KafkaError._AUTHENTICATION),
        ({"sasl.mechanism": "SCRAM-SHA-256"}, KafkaError._AUTHENTICATION),
        ({"ssl.ca.location": ""}, KafkaError._SSL),
    ],
)
def test_librdkafka_is_told_what_is_wrong(
    broker: Broker, certificates: Certificates, tmp_path: Path, change: dict[str, str], code: int
) -> None:
    found: list[KafkaError] = []
    settings = {**confluent(broker, certificates, "SASL_SSL"), **change}
    if not settings["ssl.ca.location"]:
        settings["ssl.ca.location"] = str(Certificates(tmp_path).ca)
    producer = Producer({**settings, "error_cb": found.append})
    for _ in range(100):
        producer.poll(0.2)
        if any(each.code() == code for each in found):
            return
    raise AssertionError(f"never told: {found}")
