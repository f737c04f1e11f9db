"""Transactional producers of the three Python clients behind one small interface.

Rules kept here:
1. As in `base`: settings are the client's defaults plus what a transaction needs.
2. Being fenced is FencedError, whatever the client calls it; every other problem stays as it is.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]  # ships no type marker
from aiokafka.errors import ProducerFenced  # type: ignore[import-untyped]  # as above
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka import KafkaProducer  # type: ignore[import-untyped]  # ships no type marker
from kafka.errors import (  # type: ignore[import-untyped]  # as above
    InvalidProducerEpochError,
    ProducerFencedError,
)

from testkit.clients.base import PATIENCE_SECONDS
from testkit.waiting import stretched


class FencedError(Exception):
    """Another producer has this transactional id now."""


class Transactional(ABC):
    """A producer that has been given its id and epoch."""

    name: str

    @abstractmethod
    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        """Start the client, and fence the producer that had the transactional id before."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction."""

    @abstractmethod
    def send(self, topic: str, value: bytes) -> None:
        """Send a record to partition 0 and wait for its acknowledgement."""

    @abstractmethod
    def commit(self) -> None:
        """Commit the transaction."""

    @abstractmethod
    def abort(self) -> None:
        """Abort the transaction."""

    @abstractmethod
    def close(self) -> None:
        """End the client."""


class ConfluentTransactional(Transactional):
    """librdkafka tells of fencing in the error's code; a record that failed fails the commit."""

    name = "confluent-kafka"

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "log_level": 0,
        }
        self._producer = Producer(settings)
        self._producer.init_transactions(PATIENCE_SECONDS)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes) -> None:
        with _confluent_fencing():
            self._producer.produce(topic, value, partition=0)
            self._producer.flush(PATIENCE_SECONDS)

    def commit(self) -> None:
        with _confluent_fencing():
            self._producer.commit_transaction(PATIENCE_SECONDS)

    def abort(self) -> None:
        with _confluent_fencing():
            self._producer.abort_transaction(PATIENCE_SECONDS)

    def close(self) -> None:
        self._producer.purge()
        self._producer.flush(PATIENCE_SECONDS)


@contextmanager
def _confluent_fencing() -> Iterator[None]:
    fenced = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    try:
        yield
    except KafkaException as problem:
        if problem.args[0].code() in fenced:
            raise FencedError(str(problem)) from problem
        raise


class KafkaPythonTransactional(Transactional):
    """kafka-python has an exception for it."""

    name = "kafka-python"

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes) -> None:
        with _kafka_python_fencing():
            self._producer.send(topic, value, partition=0).get(PATIENCE_SECONDS)

    def commit(self) -> None:
        with _kafka_python_fencing():
            self._producer.commit_transaction()

    def abort(self) -> None:
        with _kafka_python_fencing():
            self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=0)


@contextmanager
def _kafka_python_fencing() -> Iterator[None]:
    try:
        yield
    except (InvalidProducerEpochError, ProducerFencedError) as problem:
        raise FencedError(str(problem)) from problem


class AioKafkaTransactional(Transactional):
    """aiokafka's background tasks run only while one of these calls does."""

    name = "aiokafka"

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._runner = asyncio.Runner()
        self._producer = self._runner.run(self._started(bootstrap, transactional_id))

    @staticmethod
    async def _started(bootstrap: str, transactional_id: str) -> Any:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
        await producer.start()
        return producer

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, value: bytes) -> None:
        self._run(self._producer.send_and_wait(topic, value, partition=0))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        try:
            self._run(self._producer.stop())
        except FencedError:
            pass  # it says so once more
        self._runner.close()

    def _run(self, work: Coroutine[Any, Any, object]) -> None:
        async def in_time() -> None:
            async with asyncio.timeout(stretched(PATIENCE_SECONDS)):
                await work

        try:
            self._runner.run(in_time())
        except ProducerFenced as problem:
            raise FencedError(str(problem)) from problem


TRANSACTIONAL: dict[str, type[Transactional]] = {
    kind.name: kind
    for kind in (ConfluentTransactional, KafkaPythonTransactional, AioKafkaTransactional)
}
