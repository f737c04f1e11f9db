"""A secured broker inside a program: real clients log in with what it gives them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]  # it has no types
from confluent_kafka import Consumer, KafkaError, Producer
from kafka import KafkaProducer  # type: ignore[import-untyped]  # it has no types

import ottla
from testkit.waiting import until

USERS = {"alice": "alice-secret"}


@pytest.fixture(scope="module")
def secured() -> Iterator[ottla.Broker]:
    with ottla.Broker(security=ottla.Security(users=USERS, authorizer=True)) as broker:
        yield broker


def written(config: dict[str, object], topic: str) -> KafkaError | None:
    """What became of one record."""
    outcome: list[KafkaError | None] = []
    producer = Producer({**config, "message.timeout.ms": 20_000})
    producer.produce(topic, b"hello", on_delivery=lambda error, _: outcome.append(error))
    producer.flush(30)
    return outcome[0]


def test_the_admin_logs_in_over_tls_and_reads_what_it_wrote(secured: ottla.Broker) -> None:
    assert written(secured.client_config(), "own") is None
    consumer = Consumer(
        {**secured.client_config(), "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["own"])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    assert message.value() == b"hello"


def test_a_user_may_do_what_acls_allow_and_nothing_else(secured: ottla.Broker) -> None:
    assert written(secured.client_config(), "closed") is None
    refused = written(secured.client_config("alice"), "closed")
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_wrong_password_is_refused(secured: ottla.Broker) -> None:
    problems: list[int] = []
    config = {**secured.client_config("alice"), "sasl.password": "guessed"}
    producer = Producer({**config, "error_cb": lambda problem: problems.append(problem.code())})
    until(
        lambda: producer.poll(0.1) or KafkaError._AUTHENTICATION in problems,
        "the client gets an authentication error",
    )


def test_other_python_clients_log_in_too(secured: ottla.Broker) -> None:
    producer = KafkaProducer(**secured.client_config(client="kafka-python"))
    producer.send("others", b"1").get(30)
    producer.close()

    async def send() -> None:
        producer = AIOKafkaProducer(**secured.client_config(client="aiokafka"))
        await producer.start()
        await producer.send_and_wait("others", b"2")
        await producer.stop()

    asyncio.run(send())


def test_logins_without_encryption() -> None:
    with ottla.Broker(security="plain") as broker:
        assert written(broker.client_config(), "t") is None
        with pytest.raises(RuntimeError, match="no certificate"):
            _ = broker.ca_file


def test_the_files_are_private_and_gone_afterwards() -> None:
    with ottla.Broker(security="tls") as broker:
        folder = broker.ca_file.parent
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert not folder.exists()


def test_mistakes_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="neither 'tls', 'plain' nor a Security"):
        ottla.Broker(security="kerberos")
    with pytest.raises(ValueError, match="must not be empty"):
        ottla.Security(users={"alice": 'quo"te'})
    assert "alice-secret" not in repr(ottla.Security(users=USERS))


def test_the_fixture_is_a_secured_broker(ottla_secure_broker: ottla.Broker) -> None:
    assert written(ottla_secure_broker.client_config(), "t") is None
