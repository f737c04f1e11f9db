"""Large answers are made once, and again as soon as they would be different."""

import asyncio
from pathlib import Path

import pytest

from ottla.api import metadata as metadata_api
from ottla.api.registry import Request
from ottla.broker.broker_server import BrokerServer
from ottla.broker.metadata import metadata_response_cache
from ottla.broker.metadata.topics import delete_topic
from ottla.wire import codec
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from tests.broker.nodes import running, topic

VERSION = 12
ALL = memoryview(codec.encode(MetadataRequest(topics=None), VERSION))


@pytest.fixture(autouse=True)
def everything_counts_as_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_response_cache, "MANY_PARTITIONS", 1)
    monkeypatch.setattr(metadata_response_cache, "SMALLEST_KEPT", 1)


def ask(node: BrokerServer) -> bytes:
    request = Request(node, 3, VERSION, 1, "test", "127.0.0.1", "PLAINTEXT", 1)
    outcome = metadata_api.metadata(request, ALL, 0)
    assert isinstance(outcome, tuple)
    (data,) = outcome
    assert isinstance(data, bytes)
    return data


def topics(answer: bytes) -> dict[str | None, MetadataResponseTopic]:
    return {each.name: each for each in codec.decode(MetadataResponse, VERSION, answer).topics}


def test_the_same_question_gets_the_same_bytes(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            await topic(node, "a", partitions=3)
            first = ask(node)
            assert ask(node) is first
            assert len(topics(first)["a"].partitions) == 3

    asyncio.run(live())


def test_a_new_topic_a_deleted_one_and_a_broken_disk_are_reported_at_once(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            await topic(node, "a")
            assert set(topics(ask(node))) == {"a"}
            partition = await topic(node, "b")
            answer = topics(ask(node))
            assert set(answer) == {"a", "b"}
            assert answer["b"].partitions[0].leader_id == node.id
            partition.log.fail(OSError("broken"))
            assert topics(ask(node))["b"].partitions[0].leader_id == -1
            await delete_topic(node.metadata, "a")
            assert set(topics(ask(node))) == {"b"}

    asyncio.run(live())


def test_few_answers_are_kept(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            await topic(node, "a")
            for number in range(100):
                node.metadata_responses.find(number)
                node.metadata_responses.keep(number, b"answer")
            kept = [number for number in range(100) if node.metadata_responses.find(number)]
            assert 0 < len(kept) <= metadata_response_cache.MOST_KEPT
            assert kept[-1] == 99

    asyncio.run(live())
