"""Which settings explain that a leader's log starts above a follower's."""

import asyncio
from pathlib import Path

import pytest

from ottla.broker.replication.log_starts import was_deleted
from testkit.batches import now_ms
from tests.broker.nodes import running, topic, write

WRITTEN = 10


@pytest.mark.parametrize(
    ("settings", "is_explained"),
    [
        ({"retention_ms": "-1"}, False),
        ({"retention_ms": "0"}, True),
        ({"retention_ms": "1"}, True),
        ({"retention_ms": str(10 * 3_600_000)}, False),
        ({"retention_ms": "-1", "retention_bytes": "0"}, True),
    ],
)
def test_retention_explains_a_log_start(
    tmp_path: Path, settings: dict[str, str], is_explained: bool
) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "t", 1, **settings)
            write(partition, WRITTEN)
            state = node.image.partitions["t", 0]
            for start in (1, WRITTEN, WRITTEN + 1):
                assert was_deleted(partition.log, state, start, now_ms()) is is_explained
            assert was_deleted(partition.log, state, 0, now_ms())

    asyncio.run(live())
