"""Several `ottla serve` processes over one store, and who declares a killed one dead.

Rules kept here:
1. Over one SQLite file a broker is declared dead only after its process was reaped, as a supervisor
   does it. Over ZooKeeper nobody tells: its session ends by itself.
2. What a claim waits for is looked at until it is so, or PATIENCE is over.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from ottla.metadata.stores.sqlite_store import SqliteStore
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from testkit.process import BrokerProcess
from testkit.raw import ClosedError, Connection
from testkit.waiting import until

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "replica.fetch.backoff.ms": "200",
}


class ClusterProcesses:
    """Brokers 0, 1, 2, ... of one cluster; `each` has settings of one of them."""

    def __init__(
        self,
        folder: Path,
        brokers: int = 3,
        settings: Mapping[str, str] | None = None,
        *,
        store: str | None = None,
        each: Callable[[int], Mapping[str, str]] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "cluster.sqlite" if store is None else None
        self.store = store or f"sqlite:{self.file}"
        self.brokers = [
            BrokerProcess(
                folder / f"broker-{number}",
                {
                    **SETTINGS,
                    "node.id": str(number),
                    "ottla.store": self.store,
                    **(settings or {}),
                    **(each(number) if each is not None else {}),
                },
            )
            for number in range(brokers)
        ]

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    def __enter__(self) -> Self:
        try:
            for number in range(len(self.brokers)):
                self.start(number)
        except BaseException:
            self.kill_all()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_all()

    def start(self, number: int) -> None:
        """Start a broker, and wait until those that run know each other."""
        self.brokers[number].start()
        running = [broker for broker in self.brokers if broker.is_running]
        until(
            lambda: all(
                len(self.metadata("", of=each).brokers) == len(running) for each in running
            ),
            "the brokers know each other",
        )

    def kill_all(self) -> None:
        """kill -9 for all of them."""
        for broker in self.brokers:
            broker.kill()

    def kill(self, number: int) -> None:
        """kill -9 for one; the others are notified, or find out."""
        self.brokers[number].kill()
        self.declare_dead(number)

    def declare_dead(self, number: int) -> None:
        """End the session of a broker whose process is gone, where that does not end by itself."""
        file = self.file
        if file is None:
            return

        async def declare() -> None:
            store = await SqliteStore.open(file, "supervisor")
            try:
                await store.declare_dead(f"broker-{number}")
            finally:
                await store.close()

        asyncio.run(declare())

    def any_alive(self) -> BrokerProcess:
        """A broker that runs."""
        return next(broker for broker in self.brokers if broker.is_running)

    def metadata(self, topic: str, *, of: BrokerProcess | None = None) -> MetadataResponse:
        """What a broker says of a topic."""
        with Connection((of or self.any_alive()).bootstrap) as connection:
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
            )
            return connection.ask(request, MetadataResponse, 12)

    def partition(
        self, topic: str, index: int = 0, *, of: BrokerProcess | None = None
    ) -> MetadataResponsePartition:
        """What a broker says of a partition."""
        partitions = self.metadata(topic, of=of).topics[0].partitions
        return next(each for each in partitions if each.partition_index == index)

    def until_in_sync(self, topic: str, replicas: int = 3) -> None:
        """Wait until all brokers say: each partition has a leader and so many in sync.

        A broker that finds itself replaced hangs up on everyone, and is asked again.
        """

        def in_sync() -> bool:
            for broker in self.brokers:
                if broker.is_running:
                    try:
                        (found,) = self.metadata(topic, of=broker).topics
                    except ClosedError:
                        return False
                    if not found.partitions or any(
                        each.leader_id < 0 or len(each.isr_nodes) != replicas
                        for each in found.partitions
                    ):
                        return False
            return True

        until(in_sync, f"{topic} has {replicas} replicas in sync")

    def create(self, topic: str, partitions: int = 1, replicas: int = 3, **configs: str) -> str:
        """Make a topic, and wait until its replicas are in sync."""
        with Connection(self.any_alive().bootstrap) as connection:
            answer = connection.ask(
                CreateTopicsRequest(
                    topics=[
                        CreatableTopic(
                            name=topic,
                            num_partitions=partitions,
                            replication_factor=replicas,
                            configs=[
                                CreatableTopicConfig(name=name.replace("_", "."), value=text)
                                for name, text in configs.items()
                            ],
                        )
                    ],
                    timeout_ms=20_000,
                ),
                CreateTopicsResponse,
                7,
            )
        assert answer.topics[0].error_code == 0, answer.topics[0]
        self.until_in_sync(topic, replicas)
        return topic

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        with Connection(self.any_alive().bootstrap) as connection:
            request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=20_000)
            answer = connection.ask(request, DeleteTopicsResponse, 5)
        assert answer.responses[0].error_code == 0, answer.responses[0]

    def log_bytes(self, number: int, topic: str, index: int = 0) -> bytes:
        """All segments of a replica's log, one behind another."""
        folder = self.brokers[number].data / f"{topic}-{index}"
        return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
