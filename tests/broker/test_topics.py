"""Topics of a node: many are made in few commits, and internal ones as they have to be."""

import asyncio
from pathlib import Path

import pytest

from ottla.broker.metadata import topics
from ottla.broker.metadata.topics import create_topic, create_topics
from ottla.config.topic_names import GROUP_METADATA, TRANSACTION_STATE
from ottla.metadata.store import Op, StoreError
from ottla.metadata.stores.sqlite_store import SqliteStore
from ottla.metadata.topics import NewTopic
from ottla.wire.errors import ErrorCode, KafkaError
from tests.broker.nodes import running


def test_many_topics_take_few_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "TOPICS_IN_ONE_COMMIT", 20)
    commits = 0
    commit = SqliteStore.commit

    async def counted(store: SqliteStore, ops: list[Op]) -> None:
        nonlocal commits
        commits += 1
        await commit(store, ops)

    async def live() -> None:
        async with running(tmp_path) as node:
            monkeypatch.setattr(SqliteStore, "commit", counted)
            names = [f"topic-{number}" for number in range(50)]
            made = await create_topics(node.metadata, [NewTopic(name, 1) for name in names])
            assert [each.name for each in made if not isinstance(each, KafkaError)] == names
            assert commits == 3
            assert set(node.image.topics) == set(names)
            assert all(node.partitions.find(name, 0) for name in names)

    asyncio.run(live())


def test_one_bad_topic_does_not_keep_the_others_from_being_made(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            await create_topic(node.metadata, NewTopic("there"))
            made = await create_topics(
                node.metadata, [NewTopic("a"), NewTopic("there"), NewTopic("b")]
            )
            codes = [each.code if isinstance(each, KafkaError) else None for each in made]
            assert codes == [None, ErrorCode.TOPIC_ALREADY_EXISTS, None]
            assert set(node.image.topics) == {"a", "b", "there"}

    asyncio.run(live())


def test_a_check_makes_nothing(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            (checked,) = await create_topics(node.metadata, [NewTopic("a", 3)], validate_only=True)
            assert not isinstance(checked, KafkaError)
            assert len(checked.assignment) == 3
            assert not node.image.topics

    asyncio.run(live())


def test_a_store_that_fails_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(_: SqliteStore, __: list[Op]) -> None:
        raise StoreError("the disk is full")

    async def live() -> None:
        async with running(tmp_path) as node:
            with monkeypatch.context() as patched:
                patched.setattr(SqliteStore, "commit", broken)
                with pytest.raises(StoreError, match="the disk is full"):
                    await create_topic(node.metadata, NewTopic("a"))
            assert not node.image.topics

    asyncio.run(live())


@pytest.mark.parametrize("name", [GROUP_METADATA, TRANSACTION_STATE])
def test_an_internal_topic_is_the_same_whoever_asks_for_it_first(tmp_path: Path, name: str) -> None:
    settings = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}

    async def live() -> None:
        async with running(tmp_path, settings) as node:
            await create_topic(node.metadata, node._by_topic.new_topic(name))
            made = node.image.topics[name]
            assert len(made.assignment) == 3
            assert made.configs["cleanup.policy"] == "compact"

    asyncio.run(live())
