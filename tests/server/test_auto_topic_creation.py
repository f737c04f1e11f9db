"""Topics that are made because a client asked about them, while the metadata store is slow."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from ottla.broker.metadata import auto_topic_creation as wished_topics
from ottla.embedded import Broker
from ottla.metadata.store import Op
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from testkit import waiting
from testkit.raw import Connection
from tests.e2e.conftest import create_topic
from tests.server.inside import on_loop, running, until

METADATA = 12


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def hold_commits(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on the store commits nothing before what is returned is called."""
    store = running(broker).server.node.metadata.store
    commit, may_commit = store.commit, asyncio.Event()

    async def late(ops: Sequence[Op]) -> list[int]:
        await may_commit.wait()
        return await commit(ops)

    monkeypatch.setattr(store, "commit", late)
    return lambda: on_loop(broker, may_commit.set)


def ask(client: Connection, *names: str) -> dict[str | None, int]:
    topics = [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=True)
    answer = client.ask(request, MetadataResponse, METADATA)
    return {topic.name: topic.error_code for topic in answer.topics}


def test_a_store_that_does_not_answer_keeps_nobody_from_the_topics_that_are_there(
    broker: Broker, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = running(broker).server.node
    with Connection(broker.bootstrap_servers) as client:
        create_topic(client, "there")
        go_on = request.getfixturevalue("hold_commits")
        monkeypatch.setattr(wished_topics, "LONGEST_WAIT_SECONDS", 0.05)
        for _ in range(2):
            assert ask(client, "there", "wished-for") == {
                "there": ErrorCode.NONE,
                "wished-for": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            }
        assert on_loop(broker, lambda: len(node.background)) == 1, "it was begun twice"
        go_on()
        until(broker, lambda: "wished-for" in node.image.topics)
        assert ask(client, "wished-for") == {"wished-for": ErrorCode.NONE}


def test_who_asks_second_waits_for_the_same(
    broker: Broker, hold_commits: Callable[[], None]
) -> None:
    node = running(broker).server.node
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="wished-for")], allow_auto_topic_creation=True
    )
    with (
        Connection(broker.bootstrap_servers) as one,
        Connection(broker.bootstrap_servers) as other,
    ):
        one.send(request, METADATA)
        other.send(request, METADATA)
        until(broker, lambda: "wished-for" in node.auto_topic_creation._under_way)
        hold_commits()
        for client in (one, other):
            _, answer = client.receive(MetadataResponse, METADATA)
            assert [topic.error_code for topic in answer.topics] == [ErrorCode.NONE]
    assert not on_loop(broker, lambda: node.auto_topic_creation._under_way)


def test_a_broker_that_stops_does_not_wait_for_what_it_cannot_make(
    broker: Broker, hold_commits: Callable[[], None]
) -> None:
    node = running(broker).server.node
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="wished-for")], allow_auto_topic_creation=True
    )
    with Connection(broker.bootstrap_servers) as client:
        client.send(request, METADATA)
        until(broker, lambda: "wished-for" in node.auto_topic_creation._under_way)
        broker.stop()


def test_a_store_that_does_not_answer_keeps_no_group_from_reading(
    broker: Broker, request: pytest.FixtureRequest
) -> None:
    find = FindCoordinatorRequest(coordinator_keys=["group"])
    with Connection(broker.bootstrap_servers) as client:
        create_topic(client, "there")
        go_on = request.getfixturevalue("hold_commits")

        def found() -> int:
            return client.ask(find, FindCoordinatorResponse, 4).coordinators[0].error_code

        assert found() == ErrorCode.COORDINATOR_NOT_AVAILABLE
        # The first has waited without result: who asks now is answered, and what stands behind it.
        began = time.monotonic()
        for _ in range(5):
            assert found() == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert ask(client, "there") == {"there": ErrorCode.NONE}
        assert time.monotonic() - began < waiting.stretched(wished_topics.LONGEST_WAIT_SECONDS)
        go_on()
        waiting.until(lambda: found() == ErrorCode.NONE, "the group has a coordinator")
