"""Committing and fetching offsets, plain and in transactions."""

import pytest

from ottla.coordinator.group_config import GroupConfig
from ottla.coordinator.offsets.fetch import groups_of, refuse, reply_of
from ottla.wire.errors import ErrorCode
from ottla.wire.message import NO_UUID
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from ..groups_clients import (
    ClassicClient,
    Consumer,
    commit,
    commit_in_transaction,
    fetch,
    leader_of,
    settle,
    stable_group,
)
from ..groups_world import World, answer, context


def fetch_group(
    world: World, request: OffsetFetchRequestGroup, version: int = 9
) -> OffsetFetchResponseGroup:
    return answer(world.shard.handle_offset_fetch(request, context(version), world.now))


def test_what_was_committed_is_fetched_with_its_metadata() -> None:
    world = World()
    assert commit(world, 42, partition=1, metadata="note") == ErrorCode.NONE
    request = OffsetFetchRequestGroup(
        group_id="g", topics=[OffsetFetchRequestTopics(name="a", partition_indexes=[1, 0])]
    )
    found, missing = fetch_group(world, request).topics[0].partitions
    assert (found.committed_offset, found.metadata, found.error_code) == (42, "note", 0)
    assert (missing.committed_offset, missing.metadata, missing.error_code) == (-1, "", 0)


def test_a_null_metadata_is_kept_as_an_empty_one() -> None:
    world = World()
    assert commit(world, 1, metadata=None) == ErrorCode.NONE
    assert fetch(world) == 1


def test_offsets_outlive_a_restart() -> None:
    world = World()
    commit(world, 42)
    commit(world, 43)
    world.restart()
    assert fetch(world) == 43


def test_a_group_that_does_not_exist_has_committed_nothing() -> None:
    assert fetch(World(), group_id="nobody") == -1


def test_all_offsets_of_a_group_can_be_asked_for() -> None:
    world = World()
    commit(world, 1, topic="a")
    commit(world, 2, topic="b")
    reply = fetch_group(world, OffsetFetchRequestGroup(group_id="g", topics=None))
    assert {t.name: t.partitions[0].committed_offset for t in reply.topics} == {"a": 1, "b": 2}
    world.topics.delete("b")
    by_id = fetch_group(world, OffsetFetchRequestGroup(group_id="g", topics=None), version=10)
    assert [topic.topic_id for topic in by_id.topics] == [world.topics.id_of("a")]


@pytest.mark.parametrize("version", range(2, 11))
def test_unknown_topics_and_partitions_are_refused_in_every_version(version: int) -> None:
    world = World()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(world, 1, partition=99, version=version) == unknown
    assert commit(world, 1, partition=-1, version=version) == unknown
    no_topic = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else unknown
    assert commit(world, 1, topic="nowhere", version=version) == no_topic
    assert world.log == []


def test_a_partition_that_exists_is_committed_beside_one_that_does_not() -> None:
    world = World()
    request = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name="a",
                partitions=[
                    OffsetCommitRequestPartition(partition_index=9, committed_offset=1),
                    OffsetCommitRequestPartition(partition_index=0, committed_offset=2),
                    OffsetCommitRequestPartition(
                        partition_index=1, committed_offset=3, committed_metadata="x" * 4_097
                    ),
                ],
            )
        ],
    )
    result = world.shard.handle_offset_commit(request, context(9), world.now)
    world.take(result)
    assert [part.error_code for part in answer(result).topics[0].partitions] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ]
    assert (fetch(world, 0), fetch(world, 1)) == (2, -1)


def test_offsets_by_topic_id() -> None:
    world = World()
    assert commit(world, 9, version=10) == ErrorCode.NONE
    topic_id = world.topics.id_of("a")
    request = OffsetFetchRequestGroup(
        group_id="g", topics=[OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0])]
    )
    reply = fetch_group(world, request, version=10)
    assert reply.topics[0].topic_id == topic_id
    assert reply.topics[0].partitions[0].committed_offset == 9
    world.topics.delete("a")
    gone = fetch_group(world, request, version=10)
    assert gone.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_an_offset_of_a_deleted_topic_is_not_the_new_topics() -> None:
    world = World()
    commit(world, 9, version=10)
    world.topics.delete("a")
    topic_id = world.topics.create("a", 4).topic_id
    request = OffsetFetchRequestGroup(
        group_id="g", topics=[OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0])]
    )
    reply = fetch_group(world, request, version=10)
    assert reply.topics[0].partitions[0].committed_offset == -1


def test_an_offset_of_a_deleted_topic_is_not_the_new_topics_by_name_either() -> None:
    """The coordinator may have been moving when the topic was deleted."""
    world = World()
    commit(world, 9)
    commit(world, 8, topic="b")
    world.topics.delete("a")
    assert fetch(world) == 9
    world.topics.create("a", 4)
    assert fetch(world) == -1
    everything = OffsetFetchRequestGroup(group_id="g", topics=None)
    assert [topic.name for topic in fetch_group(world, everything, version=9).topics] == ["b"]
    commit(world, 1)
    assert fetch(world) == 1


def test_members_commit_with_their_generation() -> None:
    world = World()
    (member,) = stable_group(world, 1)
    assert member.commit(1) == ErrorCode.NONE
    assert commit(world, 1, member_id="stranger", epoch=1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(world, 1, member_id=member.member_id, epoch=7) == ErrorCode.ILLEGAL_GENERATION
    assert commit(world, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    no_instance = commit(world, 1, member_id=member.member_id, epoch=1, instance_id="i")
    assert no_instance == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_while_the_leader_divides_must_wait() -> None:
    world = World()
    member = ClassicClient(world)
    token = member.join()
    world.advance(3_000)
    member.joined(token)
    assert member.commit(1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_the_old_generation_may_still_commit_while_members_join() -> None:
    world = World()
    members = stable_group(world, 2)
    leader_of(members).join()
    follower = next(member for member in members if member is not leader_of(members))
    assert follower.commit(1) == ErrorCode.NONE


def test_a_commit_keeps_the_session_alive() -> None:
    world = World()
    (member,) = stable_group(world, 1)
    for _ in range(3):
        world.advance(9_000)
        assert member.commit(1) == ErrorCode.NONE
    assert member.heartbeat() == ErrorCode.NONE


def test_members_of_groups_that_do_not_exist_are_told_so() -> None:
    world = World()
    assert commit(world, 1, epoch=1, version=8) == ErrorCode.ILLEGAL_GENERATION
    assert commit(world, 1, epoch=1, version=9) == ErrorCode.GROUP_ID_NOT_FOUND
    assert commit_in_transaction(world, 1, generation=1) == ErrorCode.ILLEGAL_GENERATION


def test_the_empty_group_id_may_commit_but_not_in_a_transaction() -> None:
    world = World()
    assert commit(world, 1, group_id="") == ErrorCode.NONE
    assert fetch(world, group_id="") == 1
    assert commit_in_transaction(world, 1, group_id="") == ErrorCode.INVALID_GROUP_ID


def test_members_of_consumer_groups_commit_with_their_epoch() -> None:
    world = World()
    first, second = Consumer(world, "m1"), Consumer(world, "m2")
    first.join()
    second.join()
    settle(first, second)
    partition = first.owned["a"][0]
    assert commit(world, 1, partition, member_id="m1", epoch=first.epoch) == ErrorCode.NONE
    stale = ErrorCode.STALE_MEMBER_EPOCH
    assert commit(world, 1, partition, member_id="m1", epoch=99) == stale
    assert commit(world, 1, member_id="stranger", epoch=2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(world, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    old_client = commit(world, 1, partition, member_id="m1", epoch=first.epoch, version=8)
    assert old_client == ErrorCode.UNSUPPORTED_VERSION


def test_an_older_epoch_is_good_for_what_the_member_had_in_it() -> None:
    world = World()
    first, second = Consumer(world, "m1"), Consumer(world, "m2")
    first.join()
    second.join()
    settle(first, second)
    assert first.epoch == 3
    kept = first.owned["a"][0]
    got = second.owned["a"][0]
    assert commit(world, 1, kept, member_id="m1", epoch=2) == ErrorCode.NONE
    assert commit(world, 1, got, member_id="m1", epoch=2) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(world, 1, got, member_id="m2", epoch=2) == ErrorCode.STALE_MEMBER_EPOCH


def test_members_of_consumer_groups_fetch_with_their_epoch() -> None:
    world = World()
    member = Consumer(world, "m")
    member.join()
    topics = [OffsetFetchRequestTopics(name="a", partition_indexes=[0])]

    def error(member_id: str | None, epoch: int) -> int:
        request = OffsetFetchRequestGroup(
            group_id="g", member_id=member_id, member_epoch=epoch, topics=topics
        )
        return fetch_group(world, request).error_code

    assert error("m", 2) == ErrorCode.NONE
    assert error("m", 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert error("stranger", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert error(None, -1) == ErrorCode.NONE


def test_a_transactions_offsets_count_when_it_is_committed() -> None:
    world = World()
    commit(world, 1)
    assert commit_in_transaction(world, 5) == ErrorCode.NONE
    assert fetch(world) == 1
    assert fetch(world, require_stable=True) == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert fetch(world, 1, require_stable=True) == -1
    world.end_transaction(1, commit=True)
    assert fetch(world, require_stable=True) == 5


def test_an_aborted_transaction_commits_nothing() -> None:
    world = World()
    commit_in_transaction(world, 5)
    world.end_transaction(1, commit=False)
    assert fetch(world, require_stable=True) == -1


def test_pending_offsets_and_markers_outlive_a_restart() -> None:
    world = World()
    commit_in_transaction(world, 5)
    commit_in_transaction(world, 6, partition=1, producer_id=2)
    world.end_transaction(1, commit=True)
    world.restart()
    assert fetch(world, require_stable=True) == 5
    assert fetch(world, 1, require_stable=True) == ErrorCode.UNSTABLE_OFFSET_COMMIT
    world.end_transaction(2, commit=True)
    assert fetch(world, 1) == 6


def test_of_two_commits_the_later_written_wins_whenever_the_marker_comes() -> None:
    world = World()
    commit_in_transaction(world, 5)
    commit(world, 9)
    world.end_transaction(1, commit=True)
    assert fetch(world) == 9
    commit(world, 10)
    commit_in_transaction(world, 7)
    world.end_transaction(1, commit=True)
    assert fetch(world) == 7


def test_two_transactions_on_one_partition_are_stable_when_both_have_ended() -> None:
    world = World()
    commit_in_transaction(world, 5, producer_id=1)
    commit_in_transaction(world, 6, producer_id=2)
    world.end_transaction(2, commit=True)
    assert fetch(world, require_stable=True) == ErrorCode.UNSTABLE_OFFSET_COMMIT
    world.end_transaction(1, commit=True)
    assert fetch(world, require_stable=True) == 6


def test_records_of_a_transaction_are_written_in_the_producers_name() -> None:
    world = World()
    request = TxnOffsetCommitRequest(
        group_id="g",
        producer_id=7,
        producer_epoch=3,
        topics=[
            TxnOffsetCommitRequestTopic(
                name="a", partitions=[TxnOffsetCommitRequestPartition(partition_index=0)]
            )
        ],
    )
    result = world.shard.handle_txn_offset_commit(request, context(5), world.now)
    assert result.producer == (7, 3)
    assert len(result.records) == 1


def test_a_member_that_is_named_in_a_transaction_is_checked() -> None:
    world = World()
    (member,) = stable_group(world, 1)
    assert commit_in_transaction(world, 1) == ErrorCode.NONE
    named = commit_in_transaction(world, 1, member_id=member.member_id, generation=1)
    assert named == ErrorCode.NONE
    old = commit_in_transaction(world, 1, member_id=member.member_id, generation=0)
    assert old == ErrorCode.ILLEGAL_GENERATION
    stranger = commit_in_transaction(world, 1, member_id="stranger", generation=1)
    assert stranger == ErrorCode.UNKNOWN_MEMBER_ID
    unknown = commit_in_transaction(world, 1, topic="nowhere")
    assert unknown == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_stale_member_of_a_consumer_group_has_an_illegal_generation_in_a_transaction() -> None:
    world = World()
    member = Consumer(world, "m")
    member.join()
    assert commit_in_transaction(world, 1) == ErrorCode.NONE
    assert commit_in_transaction(world, 1, member_id="m", generation=2) == ErrorCode.NONE
    stale = commit_in_transaction(world, 1, member_id="m", generation=99)
    assert stale == ErrorCode.ILLEGAL_GENERATION


def test_versions_before_8_ask_for_one_group() -> None:
    world = World()
    commit(world, 4)
    request = OffsetFetchRequest(
        group_id="g", topics=[OffsetFetchRequestTopic(name="a", partition_indexes=[0])]
    )
    (group,) = groups_of(request, 7)
    reply = reply_of([fetch_group(world, group, version=7)], 7)
    assert reply.topics[0].partitions[0].committed_offset == 4
    everything = groups_of(OffsetFetchRequest(group_id="g", topics=None), 7)
    assert everything == [OffsetFetchRequestGroup(group_id="g", topics=None)]
    many = OffsetFetchRequest(groups=everything)
    assert groups_of(many, 8) == everything
    assert reply_of([fetch_group(world, everything[0])], 8).groups[0].group_id == "g"


def test_a_groups_error_stands_where_its_version_has_room_for_it() -> None:
    group = OffsetFetchRequestGroup(
        group_id="g", topics=[OffsetFetchRequestTopics(name="a", partition_indexes=[0, 1])]
    )
    error = ErrorCode.NOT_COORDINATOR
    assert reply_of([refuse(group, error, 8)], 8).groups[0].error_code == error
    assert reply_of([refuse(group, error, 2)], 2).error_code == error
    first = reply_of([refuse(group, error, 1)], 1)
    assert [part.error_code for part in first.topics[0].partitions] == [error, error]


def test_the_limit_of_metadata_is_a_setting() -> None:
    world = World(GroupConfig(offset_metadata_max_bytes=3))
    assert commit(world, 1, metadata="abc") == ErrorCode.NONE
    assert commit(world, 1, metadata="abcd") == ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_only_plain_commits_know_their_topics_id() -> None:
    world = World()
    commit(world, 1)
    commit_in_transaction(world, 2, partition=1)
    world.end_transaction(1, commit=True)
    offsets = world.shard._state.offsets.of_group("g")
    assert offsets["a", 0].topic_id == world.topics.id_of("a")
    assert offsets["a", 1].topic_id == NO_UUID
