"""Admin requests on a broker whose image lags: decided on what the store has."""

import asyncio
from pathlib import Path

import pytest

from ottla.broker.metadata import stores
from ottla.broker.metadata.topics import add_partitions, create_topic, delete_topic
from ottla.metadata.topics import NewTopic
from ottla.wire.errors import KafkaError
from tests.broker.nodes import running


def test_a_broker_does_not_refuse_for_what_it_has_not_heard_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "POLL_SECONDS", 600.0)  # it learns nothing by itself
    store = {"ottla.store": f"sqlite:{tmp_path / 'shared.sqlite'}"}

    async def live() -> None:
        async with (
            running(tmp_path / "one", {**store, "node.id": "1"}) as one,
            running(tmp_path / "two", {**store, "node.id": "2"}) as two,
        ):
            await create_topic(one.metadata, NewTopic("t", 1, 1))
            with pytest.raises(KafkaError, match="already exists"):
                await create_topic(two.metadata, NewTopic("t", 1, 1))
            await delete_topic(one.metadata, "t")
            await create_topic(two.metadata, NewTopic("t", 1, 1))  # two still knows the deleted one
            await add_partitions(one.metadata, "t", 3, None, validate_only=False)
            await delete_topic(one.metadata, "t")
            with pytest.raises(KafkaError, match="does not host this"):
                await delete_topic(two.metadata, "t")

    asyncio.run(live())
