"""A broker that is gone is unregistered as long as something names it."""

import asyncio
from pathlib import Path

from ottla.broker.metadata.topics import create_topic
from ottla.metadata import documents
from ottla.metadata.store import Create, Update
from ottla.metadata.topics import NewTopic
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from tests.broker.nodes import running
from tests.broker.sharing import ask


def test_an_id_that_settings_or_replicas_name_can_be_unregistered(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:

            async def unregister(broker: int) -> int:
                request = UnregisterBrokerRequest(broker_id=broker)
                code: int = (await ask(node, request, UnregisterBrokerResponse, 0)).error_code
                return code

            for broker in (77, 78):
                assert await unregister(broker) == ErrorCode.BROKER_ID_NOT_REGISTERED
            assert await unregister(node.id) == ErrorCode.INVALID_REQUEST
            settings = documents.encode(documents.Configs({"cordoned.log.dirs": "*"}))
            topic = await create_topic(node.metadata, NewTopic("t"))
            moved = documents.TopicDocument("t", topic.id, [[node.id, 78]])
            version = node.image.topics["t"].version
            await node.metadata.commit(
                [
                    Create(documents.broker_configs_key(77), settings),
                    Update(documents.topic_key("t"), documents.encode(moved), version),
                ]
            )
            await node.metadata.caught_up()
            for broker in (77, 78, 77):
                assert await unregister(broker) == ErrorCode.NONE
            assert await unregister(79) == ErrorCode.BROKER_ID_NOT_REGISTERED

    asyncio.run(live())
