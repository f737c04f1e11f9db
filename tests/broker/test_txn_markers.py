"""Markers of transactions, as a leader takes them."""

import asyncio
from pathlib import Path

from ottla.broker.txn_markers import write_marker
from ottla.cluster.replicas import Leadership
from ottla.coordinator.transactions_result import TxnMarkers
from ottla.coordinator.transactions_state import TopicPartition
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
            where = TopicPartition("t", 0)
            markers = TxnMarkers("id", 1, 5, 0, 0, True, 2, (where,))
            told: list[ErrorCode] = []
            assert write_marker(node, where, markers, told.append) == ErrorCode.NOT_ENOUGH_REPLICAS
            assert partition.log.end_offset == 0
            assert not told

    asyncio.run(live())
