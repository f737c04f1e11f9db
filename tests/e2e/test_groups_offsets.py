"""Committed offsets on the wire: who may commit what, who may delete it, and the replies."""

import struct
from collections.abc import Callable
from uuid import uuid4

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from testkit.raw import Connection
from tests.e2e.asking_groups import (
    NO_GENERATION,
    Joined,
    commit,
    committed,
    coordinated,
    describe_group,
    fetch_offset,
    join,
    join_alone,
    join_request,
    leave,
)
from tests.e2e.conftest import Topics, describe

STRANGER = Joined("nobody-1234", 1)
LONGEST_METADATA = 4096


@pytest.fixture
def group(connection: Connection, new_name: Callable[[], str]) -> str:
    return coordinated(connection, new_name())


def delete_group(connection: Connection, group: str) -> int:
    request = DeleteGroupsRequest(groups_names=[group])
    return connection.ask(request, DeleteGroupsResponse, 2).results[0].error_code


def delete_offset(connection: Connection, group: str, topic: str, partition: int = 0) -> list[int]:
    """The error codes: the request's, then the partition's where it has one."""
    place = OffsetDeleteRequestPartition(partition_index=partition)
    part = OffsetDeleteRequestTopic(name=topic, partitions=[place])
    request = OffsetDeleteRequest(group_id=group, topics=[part])
    answer = connection.ask(request, OffsetDeleteResponse, 0)
    parts = [each for topic_answer in answer.topics for each in topic_answer.partitions]
    return [answer.error_code, *(each.error_code for each in parts)]


def subscription(topic: str) -> tuple[tuple[str, bytes], ...]:
    """The metadata of a consumer of one topic (version 0 of the consumer protocol)."""
    name = topic.encode()
    metadata = struct.pack(f">hih{len(name)}si", 0, 1, len(name), name, -1)
    return (("range", metadata),)


# What is kept


def test_offset_metadata_and_epoch_come_back(
    connection: Connection, group: str, topic: str
) -> None:
    place = OffsetCommitRequestPartition(
        partition_index=0,
        committed_offset=42,
        committed_leader_epoch=0,
        committed_metadata="é note",
    )
    request = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[place])]
    )
    answer = connection.ask(request, OffsetCommitResponse, 9)
    assert answer.topics[0].partitions[0].error_code == 0
    _, found = fetch_offset(connection, group, topic)
    assert found is not None
    assert (found.committed_offset, found.committed_leader_epoch, found.metadata) == (
        42,
        0,
        "é note",
    )


def test_nothing_committed_is_minus_one(connection: Connection, group: str, topic: str) -> None:
    error, found = fetch_offset(connection, group, topic)
    assert error == 0
    assert found is not None
    assert (found.committed_offset, found.metadata, found.error_code) == (-1, "", 0)


def test_all_offsets_of_a_group_are_told_on_request(
    connection: Connection, group: str, new_topic: Topics
) -> None:
    first, second = new_topic(), new_topic(2)
    commit(connection, group, first, 1)
    commit(connection, group, second, 2, partition=1)
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    (answer,) = connection.ask(request, OffsetFetchResponse, 9).groups
    told = {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in answer.topics
        for partition in topic.partitions
    }
    assert told == {(first, 0): 1, (second, 1): 2}


def test_a_nameless_group_can_keep_offsets(connection: Connection, topic: str) -> None:
    coordinated(connection, "")
    assert commit(connection, "", topic, 5) == 0
    assert committed(connection, "", topic) == 5
    assert delete_group(connection, "") == 0
    assert committed(connection, "", topic) == -1


def test_a_topic_can_be_named_by_its_id(connection: Connection, group: str, topic: str) -> None:
    topic_id = describe(connection, topic).topic_id
    assert commit(connection, group, topic_id, 4, version=10) == 0
    assert committed(connection, group, topic) == 4


# What is refused


@pytest.mark.parametrize("version", [2, 5, 8, 9])
def test_unknown_topics_and_partitions_keep_no_offsets(
    connection: Connection, group: str, topic: str, version: int
) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(connection, group, "no-such-topic", 1, version=version) == unknown
    assert commit(connection, group, topic, 1, partition=1, version=version) == unknown
    assert commit(connection, group, topic, 1, partition=-1, version=version) == unknown


def test_unknown_topic_ids_keep_no_offsets(connection: Connection, group: str) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_ID
    assert commit(connection, group, uuid4(), 1, version=10) == unknown


def test_known_partitions_are_kept_beside_unknown_ones(
    connection: Connection, group: str, topic: str
) -> None:
    places = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=7) for index in (0, 9)
    ]
    request = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=places)]
    )
    answer = connection.ask(request, OffsetCommitResponse, 9)
    codes = {part.partition_index: part.error_code for part in answer.topics[0].partitions}
    assert codes == {0: 0, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert committed(connection, group, topic) == 7


def test_long_metadata_is_refused(connection: Connection, group: str, topic: str) -> None:
    too_long = "m" * (LONGEST_METADATA + 1)
    code = commit(connection, group, topic, 1, metadata=too_long)
    assert code == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert committed(connection, group, topic) == -1
    assert commit(connection, group, topic, 1, metadata=too_long[1:]) == 0


def test_there_is_no_generation_without_a_group(
    connection: Connection, group: str, topic: str
) -> None:
    old = commit(connection, group, topic, 1, member=STRANGER, version=8)
    assert old == ErrorCode.ILLEGAL_GENERATION
    new = commit(connection, group, topic, 1, member=STRANGER, version=9)
    assert new == ErrorCode.GROUP_ID_NOT_FOUND


def test_only_members_commit_in_a_group_that_has_some(
    connection: Connection, group: str, topic: str
) -> None:
    member = join_alone(connection, group)
    assert commit(connection, group, topic, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(connection, group, topic, 1, member=STRANGER) == ErrorCode.UNKNOWN_MEMBER_ID
    for generation in (member.generation - 1, member.generation + 1, NO_GENERATION):
        other = Joined(member.member_id, generation)
        code = commit(connection, group, topic, 1, member=other)
        assert code == ErrorCode.ILLEGAL_GENERATION
    assert committed(connection, group, topic) == -1
    assert commit(connection, group, topic, 1, member=member) == 0


def test_a_fenced_static_member_does_not_commit(
    connection: Connection, group: str, topic: str
) -> None:
    old = join_alone(connection, group, instance_id="static")
    join(connection, join_request(group, instance_id="static"))
    assert commit(connection, group, topic, 1, member=old) == ErrorCode.FENCED_INSTANCE_ID
    other = Joined(old.member_id, old.generation, "other")
    assert commit(connection, group, topic, 1, member=other) == ErrorCode.UNKNOWN_MEMBER_ID


def test_nobody_commits_before_the_leader_has_assigned(
    connection: Connection, group: str, topic: str
) -> None:
    answer = join(connection, join_request(group))
    member = Joined(answer.member_id, answer.generation_id)
    code = commit(connection, group, topic, 1, member=member)
    assert code == ErrorCode.REBALANCE_IN_PROGRESS


# What is deleted


def test_a_group_with_members_is_not_deleted(
    connection: Connection, group: str, topic: str
) -> None:
    member = join_alone(connection, group)
    commit(connection, group, topic, 1, member=member)
    assert delete_group(connection, group) == ErrorCode.NON_EMPTY_GROUP
    leave(connection, group, member.member_id)
    assert delete_group(connection, group) == 0
    assert committed(connection, group, topic) == -1
    assert describe_group(connection, group).group_state == "Dead"


def test_an_unknown_group_is_not_deleted(connection: Connection, group: str) -> None:
    assert delete_group(connection, group) == ErrorCode.GROUP_ID_NOT_FOUND


def test_an_unknown_group_has_no_offsets_to_delete(
    connection: Connection, group: str, topic: str
) -> None:
    assert delete_offset(connection, group, topic) == [ErrorCode.GROUP_ID_NOT_FOUND]


def test_offsets_of_a_subscribed_topic_are_not_deleted(
    connection: Connection, group: str, new_topic: Topics
) -> None:
    used, unused = new_topic(), new_topic()
    commit(connection, group, unused, 1)
    member = join_alone(connection, group, protocols=subscription(used))
    commit(connection, group, used, 1, member=member)
    subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete_offset(connection, group, used) == [0, subscribed]
    assert delete_offset(connection, group, unused) == [0, 0]
    assert committed(connection, group, used) == 1
    assert committed(connection, group, unused) == -1


def test_offsets_of_unknown_partitions_cannot_be_deleted(
    connection: Connection, group: str, topic: str
) -> None:
    commit(connection, group, topic, 1)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete_offset(connection, group, "no-such-topic") == [0, unknown]
    assert delete_offset(connection, group, topic, 9) == [0, unknown]
    assert delete_offset(connection, group, topic) == [0, 0]
    assert committed(connection, group, topic) == -1
