"""Markers of transactions, as a leader takes them."""

import asyncio
from pathlib import Path

from msgspec.structs import replace

from ottla.broker.coordinators.txn_markers import Outcomes, write_marker, write_markers
from ottla.broker.metadata.topics import delete_topic
from ottla.coordinator.transactions.effects import TxnMarkers
from ottla.coordinator.transactions.state import TransactionPartition
from ottla.replication.replicas import Leadership
from ottla.wire.errors import ErrorCode
from tests.broker.nodes import running, topic


def test_a_marker_that_too_few_replicas_would_get_is_refused_at_once(tmp_path: Path) -> None:
    """It would wait for them without end, in the place of others."""

    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "t")
            partition.get_replicas(
                Leadership(
                    node.id,
                    node.image.partitions["t", 0],
                    [node.id, node.id + 1],
                    log_end=0,
                    high_watermark=0,
                    min_isr=2,
                    lag=10,
                    now=0,
                )
            )
            where = TransactionPartition("t", 0)
            markers = TxnMarkers("id", 1, 5, 0, 0, True, 2, (where,))
            told: list[ErrorCode] = []
            assert (
                write_marker(node.coordinators, where, markers, told.append)
                == ErrorCode.NOT_ENOUGH_REPLICAS
            )
            assert partition.log.end_offset == 0
            assert not told

    asyncio.run(live())


def test_a_partition_that_the_metadata_no_longer_has_needs_no_marker(tmp_path: Path) -> None:
    """The coordinator decides that, by its own metadata; a leader says that it has none."""

    async def live() -> None:
        async with running(tmp_path) as node:
            await topic(node, "t", partitions=1)
            gone = tuple(TransactionPartition(*where) for where in (("t", 1), ("t", -1), ("no", 0)))
            markers = TxnMarkers("id", 1, 5, 0, 0, True, 2, (TransactionPartition("t", 0), *gone))
            told: list[Outcomes] = []
            write_markers(node.coordinators, markers, told.append)
            assert told == [dict.fromkeys(markers.partitions, ErrorCode.NONE)]
            assert node.partitions.find("t", 0).log.end_offset == 1
            for where in gone:
                code = write_marker(node.coordinators, where, markers, lambda _: None)
                assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    asyncio.run(live())


def test_a_topic_deleted_while_its_marker_is_not_committed_is_asked_about_again(
    tmp_path: Path,
) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "t")
            partition.get_replicas(
                Leadership(
                    node.id,
                    replace(node.image.partitions["t", 0], isr=[node.id, node.id + 1]),
                    [node.id, node.id + 1],
                    log_end=0,
                    high_watermark=0,
                    min_isr=1,
                    lag=10,
                    now=0,
                )
            )
            where = TransactionPartition("t", 0)
            markers = TxnMarkers("id", 1, 5, 0, 0, True, 2, (where,))
            told: list[Outcomes] = []
            write_markers(node.coordinators, markers, told.append)
            assert not told
            await delete_topic(node.metadata, "t")
            assert told == [{where: ErrorCode.NOT_LEADER_OR_FOLLOWER}]
            write_markers(node.coordinators, markers, told.append)
            assert told[-1] == {where: ErrorCode.NONE}

    asyncio.run(live())
