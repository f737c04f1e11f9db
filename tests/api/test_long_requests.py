"""Long requests have few places; those that wait for others do not keep the rest from theirs."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ottla.api.pieces import Pieces, pieces
from ottla.api.registry import LONG_BYTES, Request, handled
from ottla.broker.broker_server import BrokerServer
from ottla.broker.replicas.decoding import LONG_REQUESTS
from ottla.wire import codec
from ottla.wire.apis import ApiKey
from ottla.wire.message import Message
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from testkit.waiting import stretched
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import running

TOPICS = pieces("topics", "topics")
NEW_TOPICS = CreateTopicsRequest(
    topics=[
        CreatableTopic(name=f"{n:0100}", num_partitions=1, replication_factor=1) for n in range(300)
    ]
)
COMMITS = OffsetCommitRequest(
    group_id="g",
    topics=[
        OffsetCommitRequestTopic(
            name="t",
            partitions=[OffsetCommitRequestPartition(partition_index=n) for n in range(2000)],
        )
    ],
)
NAMES = MetadataRequest(topics=[MetadataRequestTopic(name=f"{n:0100}") for n in range(300)])
ASSIGNMENTS = SyncGroupRequest(
    group_id="g",
    assignments=[
        SyncGroupRequestAssignment(member_id=f"{n:0100}", assignment=bytes(100)) for n in range(300)
    ],
)


@pytest.mark.parametrize(
    ("stuck", "key", "version"),
    [(NEW_TOPICS, ApiKey.CREATE_TOPICS, 5), (COMMITS, ApiKey.OFFSET_COMMIT, 8)],
    ids=["store", "replicas"],
)
def test_requests_that_wait_for_others_leave_places_for_the_rest(
    tmp_path: Path, stuck: Message, key: ApiKey, version: int
) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            ended, begun = asyncio.Event(), list[int]()

            async def wait(*_: object) -> Any:
                begun.append(1)
                await ended.wait()

            waiting = [
                asyncio.ensure_future(asked(node, key, version, stuck, wait, TOPICS))
                for _ in range(LONG_REQUESTS + 1)
            ]
            await until(lambda: len(begun) == LONG_REQUESTS)
            async with asyncio.timeout(stretched(20)):
                await asked(node, ApiKey.METADATA, 9, NAMES, lambda *_: MetadataResponse(), TOPICS)
                await asked(node, ApiKey.SYNC_GROUP, 3, ASSIGNMENTS, lambda *_: SyncGroupResponse())
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(live())


def asked(
    node: BrokerServer, key: ApiKey, version: int, message: Message, handler: Any, *ways: Pieces
) -> Any:
    """The reply of a handler to a message that is read by a thread."""
    body = codec.encode(message, version)
    assert len(body) > LONG_BYTES
    request = Request(node, int(key), version, 1, "client", "127.0.0.1", "PLAINTEXT", 1)
    return handled(request, memoryview(body), 0, type(message), handler, ways)
