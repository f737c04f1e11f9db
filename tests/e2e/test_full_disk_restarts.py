"""A full disk, a kill or a stop, and a start: what is there is read, and room can be made.

The disk is a small file system of its own, which only root can mount. What it comes down to is
tested without one in tests/broker/test_full_disk.py, test_memory_recovery.py and
tests/metadata/test_sqlite_store.py.
"""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from faults.disks import MountedDisk, can_mount
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from testkit.batches import values
from testkit.process import BrokerProcess
from testkit.raw import Connection
from testkit.waiting import until
from testkit.workers import WorkersProcess
from tests.e2e.asking import EARLIEST, LATEST, From, fetch, list_offset, produce

SETTINGS = {
    "log.segment.delete.delay.ms": "100",
    "log.segment.bytes": "1048576",
    "log.flush.offset.checkpoint.interval.ms": "300",
}
TOPICS = ("small", "large", "other")
BATCH = values(b"x" * 100_000)
RECORDS = {"small": 1, "large": 30, "other": 30}
"""The small one is recovered where the broker opens it, the large ones by the recovery process."""


@pytest.fixture
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> BrokerProcess:
    kind = getattr(request, "param", BrokerProcess)
    return kind(tmp_path / "broker", SETTINGS)


@pytest.fixture
def disk(broker: BrokerProcess, tmp_path: Path) -> Iterator[MountedDisk]:
    if not can_mount(tmp_path / "probe"):
        pytest.skip("only root can mount a file system")
    disk = MountedDisk(broker.data)
    yield disk
    broker.kill()
    disk.close(keep=False)


class Client:
    """Asks the leader of each topic, which has one partition."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._stack = ExitStack()
        self._first = self._connect(broker.bootstrap.partition(",")[0])

    def _connect(self, bootstrap: str) -> Connection:
        return self._stack.enter_context(Connection(bootstrap))

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def create(self) -> None:
        topics = [
            CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in TOPICS
        ]
        request = CreateTopicsRequest(topics=topics, timeout_ms=10_000)
        answer = self._first.ask(request, CreateTopicsResponse, 7)
        assert {topic.error_code for topic in answer.topics} == {0}

    def at(self, name: str) -> Connection:
        """A connection to the leader."""
        told = self._first.ask(MetadataRequest(topics=None), MetadataResponse, 12)
        brokers = {each.node_id: f"{each.host}:{each.port}" for each in told.brokers}
        (found,) = (topic for topic in told.topics if topic.name == name)
        return self._connect(brokers[found.partitions[0].leader_id])

    def delete(self, name: str) -> int:
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000)
        return self._first.ask(request, DeleteTopicsResponse, 5).responses[0].error_code

    def delete_records(self, name: str, offset: int) -> int:
        partition = DeleteRecordsPartition(partition_index=0, offset=offset)
        topic = DeleteRecordsTopic(name=name, partitions=[partition])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=10_000)
        answer = self.at(name).ask(request, DeleteRecordsResponse, 2)
        return answer.topics[0].partitions[0].error_code


def fill(client: Client, disk: MountedDisk) -> None:
    """Write until the disk is full."""
    client.create()
    for name, count in RECORDS.items():
        connection = client.at(name)
        until(lambda: list_offset(connection, name, LATEST).offset == 0, f"{name} is led")  # noqa: B023
        for _ in range(count):
            assert produce(connection, name, BATCH).error_code == ErrorCode.NONE
    disk.fill()
    for name in TOPICS:
        refused = produce(client.at(name), name, BATCH)
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR


def check_all_is_read(client: Client, names: tuple[str, ...] = TOPICS) -> None:
    for name in names:
        connection, at = client.at(name), 0
        while at < RECORDS[name]:
            found = fetch(connection, From(name, at))
            assert (found.error_code, found.high_watermark) == (0, RECORDS[name])
            assert found.records
            at += len(found.records) // len(BATCH)
        assert at == RECORDS[name]


@pytest.mark.parametrize(
    ("broker", "ends"),
    [
        (BrokerProcess, "killed"),
        (BrokerProcess, "stopped"),
        (BrokerProcess, "stopped and filled"),
        (WorkersProcess, "killed"),
        (WorkersProcess, "stopped and filled"),
    ],
    indirect=["broker"],
)
def test_a_broker_starts_on_a_full_disk_and_room_can_be_made(
    broker: BrokerProcess, disk: MountedDisk, ends: str
) -> None:
    broker.start()
    with Client(broker) as client:
        fill(client, disk)
        check_all_is_read(client)
    if ends == "killed":
        broker.kill()
    else:
        assert broker.stop(signal.SIGTERM) == 0
    if ends == "stopped and filled":
        disk.fill()
    broker.start()
    with Client(broker) as client:
        check_all_is_read(client)
        # This frees nothing, the offset is in the first segment; but it is to be remembered.
        assert client.delete_records("large", 2) == ErrorCode.NONE
        assert client.delete("other") == ErrorCode.NONE
        for name in ("small", "large"):
            until(
                lambda: produce(client.at(name), name, BATCH).error_code == 0,  # noqa: B023
                f"there is room for {name}",
            )
    assert not broker.tracebacks()
    broker.kill()
    broker.start()
    with Client(broker) as client:
        # It answers before it leads.
        until(
            lambda: list_offset(client.at("large"), "large", EARLIEST).error_code == 0,
            "the partition is led again",
        )
        assert list_offset(client.at("large"), "large", EARLIEST).offset == 2
        assert fetch(client.at("large"), From("large", 2)).high_watermark == RECORDS["large"] + 1


def test_records_are_deleted_on_a_full_disk_and_their_room_is_used(
    broker: BrokerProcess, disk: MountedDisk
) -> None:
    broker.start()
    with Client(broker) as client:
        fill(client, disk)
    broker.kill()
    broker.start()
    with Client(broker) as client:
        assert client.delete_records("large", -1) == ErrorCode.NONE
        until(
            lambda: produce(client.at("small"), "small", BATCH).error_code == 0,
            "there is room",
        )
        check_all_is_read(client, ("other",))
    assert not broker.tracebacks()
