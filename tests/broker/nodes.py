"""A broker without its sockets, for the tests of what lies behind them."""

import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from ottla.broker.broker_server import BrokerServer
from ottla.broker.logs.log_cleaner import LogCleaner
from ottla.broker.metadata.topics import create_topic
from ottla.broker.replicas.partition import Partition
from ottla.config import BrokerConfig
from ottla.metadata.topics import NewTopic
from testkit.batches import now_ms, values

PRODUCE_VERSION = 12


def new_node(folder: Path, settings: Mapping[str, str] | None = None) -> BrokerServer:
    """A node that is not started; it must be made in a loop."""
    return BrokerServer(
        BrokerConfig.from_static(
            {
                "listeners": "PLAINTEXT://127.0.0.1:0",
                "log.dirs": str(folder),
                "log.cleaner.enable": "false",
                **(settings or {}),
            }
        )
    )


def new_cleaner(node: BrokerServer) -> LogCleaner:
    """Another log cleaner of a node."""
    return LogCleaner(
        node.dynamic_config, node.clock, node.partitions, node.files, node.log_manager
    )


@asynccontextmanager
async def running(
    folder: Path, settings: Mapping[str, str] | None = None
) -> AsyncIterator[BrokerServer]:
    """A node from its start to its stop."""
    node = new_node(folder, settings)
    await node.open()
    await node.start({"PLAINTEXT": 1})
    try:
        yield node
    finally:
        await node.close()


def killed(folder: Path, copy: Path) -> Path:
    """The folder as a kill -9 at this moment would leave it."""
    shutil.copytree(folder, copy)
    return copy


async def topic(node: BrokerServer, name: str, partitions: int = 1, **configs: str) -> Partition:
    """Make a topic; its first partition."""
    settings = {key.replace("_", "."): text for key, text in configs.items()}
    await create_topic(node.metadata, NewTopic(name, partitions, configs=settings))
    return node.partitions.find(name, 0)


def write(partition: Partition, count: int = 1, size: int = 100) -> None:
    """Append records, each in a batch of its own."""
    for _ in range(count):
        batch = memoryview(bytearray(values(b"x" * size)))
        partition.append(batch, now_ms(), PRODUCE_VERSION)


def write_out(node: BrokerServer) -> set[int]:
    """Append what coordinators let linger; the connections that were lost by it."""
    lost: set[int] = set()
    node.coordinators.lingering.on_lost = lost.update
    node.coordinators.lingering.write_out()
    return lost
