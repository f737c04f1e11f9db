"""Fetches of many partitions: they hold the loop for no longer than others, and leave nothing."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.api import load_all, registry
from ottla.api.registry import Request
from ottla.broker.broker_server import BrokerServer
from ottla.broker.replicas.delayed_fetch import Answer, DelayedFetch
from ottla.broker.replicas.fetch_reader import FetchReader
from ottla.broker.replicas.fetch_sessions import NO_SESSION, CachedPartition
from ottla.broker.replicas.partition import Partition
from ottla.later import Ending, Later
from ottla.log.storage.file_cache import Slice
from ottla.wire import codec
from ottla.wire.apis import ApiKey
from ottla.wire.fetch import FINAL_EPOCH, INITIAL_EPOCH, FetchPartition, PartitionData
from ottla.wire.messages import fetch as messages
from ottla.wire.reply import Parts
from testkit.waiting import stretched
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import running, topic, write
from tests.broker.test_fetch_progress import BY_NAME, TOPIC, answered, request

MANY = 60
LONG_MS = 60_000
LARGE = 1 << 20


@pytest.fixture
def in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fetch is one of many partitions, and gives way after each."""
    monkeypatch.setattr("ottla.broker.replicas.delayed_fetch.MOST_AT_ONCE", 0)
    monkeypatch.setattr("ottla.broker.replicas.delayed_fetch.PIECE", 1)
    monkeypatch.setattr("ottla.broker.scheduling.turns.TURN_SECONDS", -1)
    monkeypatch.setattr("ottla.broker.replicas.fetch_arrival.PIECE", 1)
    monkeypatch.setattr("ottla.api.fetch.LONG_BYTES", 0)
    monkeypatch.setattr("ottla.api.fetch.MOST_AT_ONCE", 0)


def asks(count: int = MANY) -> list[FetchPartition]:
    return [FetchPartition(index, -1, 0, -1, -1, LARGE) for index in range(count)]


def waiting(node: BrokerServer) -> list[object]:
    return [each for one in node.partitions for each in (*one._readers, *one._followers)]


def pins(node: BrokerServer) -> int:
    return sum(segment.file.pins for one in node.partitions for segment in one.log.segments)


def count_looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The partitions that are looked at from now on."""
    looked: list[int] = []
    look = FetchReader.look

    def counted(
        self: FetchReader, wanted: CachedPartition, room: int, whole_first: bool
    ) -> tuple[Partition | None, PartitionData]:
        looked.append(wanted.ask.partition)
        return look(self, wanted, room, whole_first)

    monkeypatch.setattr(FetchReader, "look", counted)
    return looked


@pytest.mark.parametrize("session", [INITIAL_EPOCH, FINAL_EPOCH], ids=["session", "single"])
def test_a_parked_fetch_looks_at_what_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, session: int
) -> None:
    """An append elsewhere must not cost what all partitions of a fetch cost."""

    async def live() -> None:
        async with running(tmp_path) as node:
            await topic(node, TOPIC, partitions=MANY)
            for index in range(MANY):
                write(node.partitions.find(TOPIC, index))
            asked = request(asks(), session=(NO_SESSION, session), min_bytes=LARGE, wait_ms=LONG_MS)
            found, full = node.fetch_sessions.begin(asked, BY_NAME, node.now_ms())
            parked = DelayedFetch(node.fetches, found, full, asked, "PLAINTEXT").begin()
            assert isinstance(parked, Later)
            looked = count_looks(monkeypatch)
            for index in (7, 7, 8):
                write(node.partitions.find(TOPIC, index))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            assert looked == [7, 7, 8]
            write(node.partitions.find(TOPIC, 9), size=LARGE - 1000)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert parked.done
            for _, results in parked.result():
                assert len(results) == MANY
                for data in results:
                    if isinstance(data.records, Slice):
                        data.records.file.unpin()

    asyncio.run(live())


@pytest.mark.usefixtures("in_turns")
@pytest.mark.parametrize("turns", range(0, 24, 2))
def test_what_is_appended_while_others_are_looked_at_is_not_missed(
    tmp_path: Path, turns: int
) -> None:
    """It wakes the session's next fetch, if it is not in this one's answer."""

    async def live() -> None:
        async with running(tmp_path) as node:
            await topic(node, TOPIC, partitions=5)
            write(node.partitions.find(TOPIC, 0))
            late = node.partitions.find(TOPIC, 1)
            session, first = await answered(
                node, request(asks(5), wait_ms=LONG_MS), lambda: write(late), turns
            )
            if not got(first, 1):
                read = FetchPartition(0, -1, 1, -1, -1, LARGE)
                again = request([read], session=(session, 1), wait_ms=LONG_MS)
                _, second = await asyncio.wait_for(answered(node, again), stretched(10))
                assert got(second, 1)

    asyncio.run(live())


@pytest.mark.usefixtures("in_turns")
def test_another_log_start_is_told_when_the_wait_is_over(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, TOPIC, partitions=2)
            write(partition)
            ends = [
                FetchPartition(0, -1, 1, -1, -1, LARGE),
                FetchPartition(1, -1, 0, -1, -1, LARGE),
            ]
            session, _ = await answered(node, request(ends, wait_ms=1))
            partition.log.raise_start_offset(1)
            partition.wake_all()
            _, answer = await answered(node, request([], session=(session, 1), wait_ms=20))
            ((_, (data,)),) = answer
            assert data.log_start_offset == 1

    asyncio.run(live())


def got(answer: Answer, index: int) -> bool:
    """Whether it has records of a partition; all files of it are let go of."""
    found = False
    for _, results in answer:
        for data in results:
            if isinstance(data.records, Slice):
                data.records.file.unpin()
                found = found or data.partition == index
    return found


def body(version: int, session_epoch: int, *, min_bytes: int) -> memoryview:
    message = messages.FetchRequest(
        max_wait_ms=LONG_MS,
        min_bytes=min_bytes,
        max_bytes=LARGE,
        session_id=NO_SESSION,
        session_epoch=session_epoch,
        topics=[
            messages.FetchTopic(
                topic=TOPIC,
                partitions=[
                    messages.FetchPartition(partition=index, partition_max_bytes=LARGE)
                    for index in range(MANY // 10)
                ],
            )
        ],
    )
    return memoryview(codec.encode(message, version))


def replies(node: BrokerServer, session_epoch: int, *, min_bytes: int) -> Later[Parts | None]:
    load_all()
    asked = Request(node, ApiKey.FETCH, BY_NAME, 1, "c", "host", "PLAINTEXT", 1)
    handle = registry.ENDPOINTS[ApiKey.FETCH].handle
    outcome = handle(asked, body(BY_NAME, session_epoch, min_bytes=min_bytes), 0)
    assert isinstance(outcome, Later)
    return outcome


@pytest.mark.usefixtures("in_turns")
@pytest.mark.parametrize("session", [INITIAL_EPOCH, FINAL_EPOCH], ids=["session", "single"])
@pytest.mark.parametrize("min_bytes", [1, LARGE], ids=["enough", "too little"])
def test_a_client_that_goes_leaves_nothing_behind(
    tmp_path: Path, session: int, min_bytes: int
) -> None:
    """Whenever it goes: while its request is read, looked at, waits, or is answered."""

    async def live() -> None:
        async with running(tmp_path) as node:
            await topic(node, TOPIC, partitions=MANY // 10)
            for index in range(MANY // 10):
                write(node.partitions.find(TOPIC, index))
            tasks = len(node.background)
            for turns in _until_done():
                later = replies(node, session, min_bytes=min_bytes)
                for _ in range(turns):
                    await asyncio.to_thread(int)  # a turn of the loop, and of the threads
                if later.ending is Ending.WAITING:
                    later.abandon()
                    await asyncio.sleep(0)
                else:
                    for part in later.result() or ():
                        if isinstance(part, Slice):
                            part.file.unpin()
                await until(lambda: len(node.background) == tasks)
                assert pins(node) == 0
                assert node.delayed.fetches == 0
                for each in waiting(node):
                    assert isinstance(each, CachedPartition)
                    assert each.session.id != NO_SESSION

    asyncio.run(live())


def _until_done() -> Iterator[int]:
    """Numbers of turns: a fetch takes about thirty of them."""
    yield from range(60)
