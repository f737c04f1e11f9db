"""Groups on a real broker, with members of both protocols."""

from collections.abc import Iterator

import pytest

from ottla.client import Admin, Client, KafkaError, Producer, TopicPartition
from ottla.client.group_admin import CommittedOffset, GroupAdmin, UnknownGroup
from ottla.embedded import Broker
from ottla.wire.errors import ErrorCode

from .joining import member


@pytest.fixture(scope="module")
def ottla_broker() -> Iterator[Broker]:
    """Groups of one need not wait for others to join."""
    with Broker(group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=3) as broker:
        yield broker


@pytest.fixture
def groups(client: Client) -> GroupAdmin:
    return GroupAdmin(client)


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    """A group's name of the test's own."""
    return f"group.{request.node.name}"


def outcomes(found: dict[TopicPartition, KafkaError | None]) -> dict[int, ErrorCode | None]:
    return {
        item.partition: None if problem is None else problem.code for item, problem in found.items()
    }


def test_what_is_committed_comes_back(groups: GroupAdmin, group: str, topic: str) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 2)
    groups.commit_offsets(group, {first: 5, second: 0})
    assert groups.committed_offsets(group) == {
        first: CommittedOffset(5, -1, ""),
        second: CommittedOffset(0, -1, ""),
    }
    assert groups.committed_offsets(f"{group}.other") == {}


def test_a_group_that_only_commits_is_empty(groups: GroupAdmin, group: str, topic: str) -> None:
    groups.commit_offsets(group, {TopicPartition(topic, 0): 1})
    (listed,) = [item for item in groups.list_groups() if item.group_id == group]
    assert (listed.state, listed.type) == ("Empty", "classic")
    described = groups.describe_group(group)
    assert (described.state, described.type, described.members) == ("Empty", "classic", [])


def test_a_group_is_listed_by_its_state(groups: GroupAdmin, group: str, topic: str) -> None:
    groups.commit_offsets(group, {TopicPartition(topic, 0): 1})
    assert group in [item.group_id for item in groups.list_groups(states=["Empty"])]
    assert group not in [item.group_id for item in groups.list_groups(states=["Stable"])]
    assert group not in [item.group_id for item in groups.list_groups(types=["consumer"])]


def test_a_deleted_group_is_gone(groups: GroupAdmin, group: str, topic: str) -> None:
    groups.commit_offsets(group, {TopicPartition(topic, 0): 1})
    groups.delete_group(group)
    assert groups.committed_offsets(group) == {}
    assert group not in [item.group_id for item in groups.list_groups()]


def test_a_group_that_is_not_there_is_unknown(groups: GroupAdmin, group: str) -> None:
    for ask in (groups.describe_group, groups.delete_group):
        with pytest.raises(UnknownGroup, match=f"there is no consumer group {group}"):
            ask(group)
    with pytest.raises(UnknownGroup):
        groups.delete_offsets(group, [TopicPartition("t", 0)])


def test_deleted_offsets_are_gone_and_others_stay(
    groups: GroupAdmin, group: str, topic: str
) -> None:
    partitions = [TopicPartition(topic, index) for index in range(3)]
    groups.commit_offsets(group, dict.fromkeys(partitions, 7))
    found = groups.delete_offsets(group, [*partitions[:2], TopicPartition(topic, 9)])
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert outcomes(found) == {0: None, 1: None, 9: unknown}
    assert list(groups.committed_offsets(group)) == partitions[2:]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_and_what_they_read_are_described(
    groups: GroupAdmin, group: str, topic: str, ottla_broker: Broker, protocol: str
) -> None:
    partitions = [TopicPartition(topic, index) for index in range(3)]
    with member(ottla_broker.bootstrap_servers, group, topic, protocol):
        described = groups.describe_group(group)
    assert (described.type, described.state) == (protocol, "Stable")
    assert described.protocol_type == "consumer"
    (found,) = described.members
    assert (found.client_id, found.assignment, found.target) == ("joining", partitions, partitions)
    assert (found.epoch is None) == (protocol == "classic")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_left_alone(
    client: Client,
    groups: GroupAdmin,
    group: str,
    topic: str,
    ottla_broker: Broker,
    protocol: str,
) -> None:
    where = TopicPartition(topic, 0)
    with Producer(client) as producer:
        producer.send(topic, b"", partition=0)
    with member(ottla_broker.bootstrap_servers, group, topic, protocol):
        with pytest.raises(KafkaError, match="it has members, and only they may commit"):
            groups.commit_offsets(group, {where: 1})
        with pytest.raises(KafkaError, match="it has members") as caught:
            groups.delete_group(group)
        assert caught.value.code == ErrorCode.NON_EMPTY_GROUP
        found = groups.delete_offsets(group, [where])
        assert outcomes(found) == {0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
    groups.commit_offsets(group, {where: 1})
    assert groups.committed_offsets(group)[where].offset == 1


def test_offsets_of_a_deleted_topic_are_no_failure(
    admin: Admin, groups: GroupAdmin, group: str, topic: str
) -> None:
    admin.create_topic(f"{topic}.kept")
    kept = TopicPartition(f"{topic}.kept", 0)
    groups.commit_offsets(group, {TopicPartition(topic, 0): 1, kept: 2})
    admin.delete_topic(topic)
    assert groups.committed_offsets(group)[kept].offset == 2
