"""The topic `_schemas`: everything a registry knows, in one compacted partition.

Rules kept here:
1. One thread reads the topic from its beginning and continues for ever; what it reads is handed to
   the event loop in order. A broker that is gone is asked again until it is back.
2. Writes go through another thread, one after another, with acks=all. A write that failed may have
   arrived all the same: only what is read counts.
3. Nobody else's topic is touched: one with several partitions, or without compaction, is refused.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec
import structlog

from ottla.client import Admin, Client, ClientSettings, KafkaError, Producer, Reader, TopicPartition
from ottla.client.admin import EARLIEST, LATEST, Resource
from ottla.client.cluster import UnknownTopic
from ottla.registry.errors import store_failed
from ottla.registry.records import RegistryRecord, decode, encode
from ottla.wire.config_resource_type import ConfigResourceType
from ottla.wire.errors import ErrorCode

log = structlog.get_logger()

MOST_REPLICAS: Final = 3
WRITE_SECONDS: Final = 7.0
PAUSE_SECONDS: Final = 0.5
STOP_SECONDS: Final = 2.0

Read = tuple[int, RegistryRecord | None]
"""An offset and its record; None where it is to be ignored."""


class SchemaStoreError(Exception):
    """The topic cannot be used as it is; the text says why."""


class SchemaStore:
    """Reads and writes the topic for an event loop."""

    def __init__(
        self, settings: ClientSettings, topic: str, on_read: Callable[[list[Read], int], None]
    ) -> None:
        """`on_read` is called on the loop with records, and the offset that comes next."""
        self._settings = settings
        self._topic = topic
        self._partition = TopicPartition(topic, 0)
        self._on_read = on_read
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._read, name="schemas-reader", daemon=True)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="schemas-writer")
        self._producer: tuple[Client, Producer] | None = None
        self.problem: str | None = "not read yet"
        """Why the topic cannot be read just now."""

    async def start(self) -> int:
        """Create the topic if need be and start to read; returns the offset it ends at now."""
        self._loop = asyncio.get_running_loop()
        end = await self._loop.run_in_executor(self._writer, self._prepare)
        self._thread.start()
        return end

    async def stop(self) -> None:
        """Stop both threads."""
        self._stopping.set()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, STOP_SECONDS)
        self._writer.submit(self._drop_producer)
        self._writer.shutdown(wait=False)

    async def end(self) -> int:
        """The offset that the topic ends at now."""
        return await self._loop.run_in_executor(self._writer, self._end)

    async def write(self, records: Sequence[RegistryRecord]) -> int:
        """Append records; returns the offset of the last one. RegistryError 50001."""
        try:
            return await self._loop.run_in_executor(self._writer, self._write, records)
        except KafkaError as problem:
            raise store_failed(str(problem)) from None

    # In the writer's thread -------------------------------------------------------------------

    def _prepare(self) -> int:
        with Client(self._settings) as client:
            admin = Admin(client)
            try:
                (found,) = admin.describe_topics([self._topic])
            except UnknownTopic:
                self._create(admin)
                (found,) = admin.describe_topics([self._topic])
            if len(found.partitions) != 1:
                raise SchemaStoreError(
                    f"topic {self._topic} has {len(found.partitions)} partitions; schemas need a "
                    "topic with one"
                )
            policy = self._policy(admin)
            if policy is not None and policy != "compact":
                raise SchemaStoreError(
                    f"topic {self._topic} has cleanup.policy={policy}, which would delete schemas; "
                    "set it to compact"
                )
            return admin.list_offsets({self._partition: LATEST})[self._partition].offset

    def _create(self, admin: Admin) -> None:
        brokers = len(admin.describe_cluster().brokers)
        try:
            admin.create_topic(
                self._topic,
                partitions=1,
                replication_factor=min(MOST_REPLICAS, max(brokers, 1)),
                settings={"cleanup.policy": "compact"},
            )
            log.info("created the topic of schemas", topic=self._topic)
        except KafkaError as problem:
            if problem.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    def _policy(self, admin: Admin) -> str | None:
        try:
            found = admin.describe_settings(
                Resource(ConfigResourceType.TOPIC, self._topic), ["cleanup.policy"]
            )
        except KafkaError:
            return None  # who may not ask is not kept from reading
        return found[0].value if found else None

    def _end(self) -> int:
        try:
            client = self._connected()[0]
            return Admin(client).list_offsets({self._partition: LATEST})[self._partition].offset
        except KafkaError as problem:
            self._drop_producer()
            raise store_failed(str(problem)) from None

    def _write(self, records: Sequence[RegistryRecord]) -> int:
        offsets = []
        try:
            producer = self._connected()[1]
            for record in records:
                key, value = encode(record)
                producer.send(
                    self._topic,
                    value,
                    key=key,
                    partition=0,
                    on_delivery=lambda delivered: offsets.append(delivered.offset),
                )
            producer.flush()
        except KafkaError:
            self._drop_producer()
            raise
        return offsets[-1]

    def _connected(self) -> tuple[Client, Producer]:
        if self._producer is None:
            client = Client(msgspec.structs.replace(self._settings, deadline=WRITE_SECONDS))
            self._producer = client, Producer(client)
        return self._producer

    def _drop_producer(self) -> None:
        if self._producer is not None:
            self._producer[0].close()
            self._producer = None

    # In the reader's thread -------------------------------------------------------------------

    def _read(self) -> None:
        position = 0
        while not self._stopping.is_set():
            try:
                position = self._read_on(position)
            except KafkaError as problem:
                self._tell(str(problem))
                self._stopping.wait(PAUSE_SECONDS)

    def _read_on(self, position: int) -> int:
        """Read until it fails or is stopped; returns where it was."""
        with Client(self._settings) as client:
            first = Admin(client).list_offsets({self._partition: EARLIEST})[self._partition].offset
            start = max(position, first)
            with Reader(client, {self._partition: start}) as reader:
                try:
                    while not self._stopping.is_set():
                        self._deliver(reader)
                        position = reader.positions[self._partition]
                except KafkaError as problem:
                    self._tell(str(problem))
                    self._stopping.wait(PAUSE_SECONDS)
        return position

    def _deliver(self, reader: Reader) -> None:
        read = [
            (record.offset, decode(record.key, record.value))
            for batch in reader.poll()
            for record in batch.records
        ]
        if reader.problem is not None:
            self._tell(str(reader.problem))
        else:
            self._tell(None)
        if read and not self._stopping.is_set():
            position = reader.positions[self._partition]
            self._loop.call_soon_threadsafe(self._on_read, read, position)

    def _tell(self, problem: str | None) -> None:
        if problem is not None and self.problem is None:
            log.warning("cannot read the topic of schemas; retrying", reason=problem)
        elif problem is None and self.problem is not None:
            log.info("reading the topic of schemas", topic=self._topic)
        self.problem = problem
