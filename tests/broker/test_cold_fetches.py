"""A fetch of records that are not in the page cache: read by a thread, then answered."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.embedded import Broker
from ottla.log.storage.files import Files

MESSAGES = 200


@pytest.fixture
def always_cold_at_first(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every place of a file is cold when it is first looked at."""
    seen: set[tuple[int, int]] = set()
    cold: list[int] = []
    real: Callable[[Files], None] = Files.__init__

    def make(files: Files) -> None:
        real(files)
        preadv = files.preadv

        def sometimes(fd: int, buffers: list[bytearray], position: int, flags: int) -> int:
            place = (os.fstat(fd).st_ino, position)  # an index is opened again for each look
            if place not in seen:
                seen.add(place)
                cold.append(position)
                raise BlockingIOError
            return preadv(fd, buffers, position, flags)

        files.preadv = sometimes

    monkeypatch.setattr(Files, "__init__", make)
    return cold


def test_every_record_arrives_though_each_read_is_cold_at_first(
    always_cold_at_first: list[int],
) -> None:
    with Broker() as broker:
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "batch.num.messages": 5}
        )
        for number in range(MESSAGES):
            producer.produce("cold", str(number))
        assert producer.flush(30) == 0
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "g",
                "max.partition.fetch.bytes": 1000,
            }
        )
        consumer.assign([TopicPartition("cold", 0, 0)])
        values: list[int] = []
        while len(values) < MESSAGES:
            found = consumer.consume(MESSAGES, timeout=10)
            assert found, "no more records came"
            values += [int(message.value() or b"") for message in found]
        consumer.close()
    assert values == list(range(MESSAGES))
    assert always_cold_at_first


def test_a_time_is_looked_up_by_a_thread_where_it_is_cold(
    always_cold_at_first: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker(data=tmp_path) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number in range(MESSAGES):
            producer.produce("cold", str(number), timestamp=1_000_000 + number)
        assert producer.flush(30) == 0
    with Broker(data=tmp_path) as broker:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
        consumer.list_topics("cold", timeout=10)
        assert broker._running is not None
        files = broker._running.node.files
        readers: set[str] = set()
        pread = files.pread

        def noted(fd: int, size: int, position: int) -> bytes:
            readers.add(threading.current_thread().name)
            return pread(fd, size, position)

        monkeypatch.setattr(files, "pread", noted)
        always_cold_at_first.clear()
        (found,) = consumer.offsets_for_times([TopicPartition("cold", 0, 1_000_123)], timeout=10)
        assert found.offset == 123
        (newest,) = consumer.offsets_for_times([TopicPartition("cold", 0, 2_000_000)], timeout=10)
        assert newest.offset < 0
        assert always_cold_at_first
        assert "ottla-broker" not in readers, "the loop has waited for the disk"
        consumer.close()
