"""Which partition of an internal topic an id belongs to, and what all of them say together."""

import asyncio
from pathlib import Path

import pytest

from ottla.broker.broker_server import BrokerServer
from ottla.broker.coordinators import coordinators
from ottla.broker.coordinators.coordinators import java_hash
from ottla.coordinator.group_shard import GroupShard
from ottla.coordinator.shard import Result
from ottla.replication.lease import Lease
from ottla.wire.errors import ErrorCode, KafkaError
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import running


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("group", 98629247),
        ("console-consumer-1", 35782224),
        ("\N{GREEK SMALL LETTER ALPHA}", 945),
        ("\N{GRINNING FACE}", 1772899),
        ("polygenelubricants", 0),
    ],
)
def test_an_id_has_the_hash_that_kafka_gives_it(text: str, expected: int) -> None:
    """Java's hashCode; what is negative is negated, and the smallest number is 0."""
    assert java_hash(text) == expected


def test_long_ids_are_hashed_and_not_remembered() -> None:
    long = "x" * (coordinators.LONGEST_REMEMBERED + 1)
    before = coordinators._remembered_hash.cache_info().currsize
    assert java_hash(long) == coordinators._hash(long)
    assert coordinators._remembered_hash.cache_info().currsize == before


async def _with_groups(node: BrokerServer) -> None:
    await node.groups.ensure_topic()
    await until(lambda: all(runner._shard is not None for runner in node.groups))


def test_a_partition_that_moves_away_while_all_are_asked_is_left_to_its_next_coordinator(
    tmp_path: Path,
) -> None:
    async def live() -> None:
        async with running(tmp_path, {"offsets.topic.num.partitions": "3"}) as node:
            await _with_groups(node)
            last = [*node.groups][-1]

            def decide(shard: GroupShard, now: int) -> Result[int]:
                node.groups.closed(last.partition)
                return Result(1)

            assert await node.groups.ask_all(decide) == [1, 1]

    asyncio.run(live())


def test_who_may_have_been_replaced_does_not_say_that_there_is_nothing(
    tmp_path: Path,
) -> None:
    async def live() -> None:
        async with running(tmp_path, {"offsets.topic.num.partitions": "3"}) as node:
            await _with_groups(node)
            node.state.lease = Lease()  # one that the store never answered
            with pytest.raises(KafkaError) as problem:
                await node.groups.ask_all(lambda shard, now: Result(1))
            assert problem.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    asyncio.run(live())
