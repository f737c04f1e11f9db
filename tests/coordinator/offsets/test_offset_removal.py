"""How offsets and groups end: deleted, expired, or with their topic."""

import pytest

from ottla.coordinator import group_shard
from ottla.coordinator.batch_sizes import UNLIMITED
from ottla.coordinator.group_config import GroupConfig
from ottla.coordinator.group_shard import GROUPS_IN_A_SLICE
from ottla.coordinator.shard import Deferred, Result
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

from ..groups_clients import (
    ClassicClient,
    Consumer,
    commit,
    commit_in_transaction,
    fetch,
    stable_group,
)
from ..groups_world import R, Topics, World, answer, context

HOUR = 3_600_000
RETENTION = GroupConfig(offsets_retention_ms=HOUR, offsets_retention_check_interval_ms=60_000)


def delete_offset(
    world: World, partition: int = 0, topic: str = "a", group_id: str = "g"
) -> tuple[ErrorCode, ErrorCode]:
    """Delete one offset; return what was said of the group and of the partition."""
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=partition)],
            )
        ],
    )
    result = world.shard.handle_offset_delete(request, context(0), world.now)
    world.take(result)
    reply = answer(result)
    if not reply.topics:
        return ErrorCode(reply.error_code), ErrorCode.NONE
    return ErrorCode.NONE, ErrorCode(reply.topics[0].partitions[0].error_code)


def delete_group(world: World, group_id: str = "g") -> ErrorCode:
    result = world.shard.handle_delete_groups([group_id], context(2), world.now)
    world.take(result)
    return ErrorCode(answer(result)[0].error_code)


def group_ids(world: World) -> list[str]:
    reply = answer(world.shard.handle_list_groups(ListGroupsRequest(), context(5), world.now))
    return sorted(group.group_id for group in reply)


DONE = (ErrorCode.NONE, ErrorCode.NONE)


def test_an_offset_of_an_empty_group_is_deleted() -> None:
    world = World()
    commit(world, 5)
    assert delete_offset(world) == DONE
    assert fetch(world) == -1
    written = len(world.log)
    assert delete_offset(world) == DONE
    assert len(world.log) == written
    world.restart()
    assert fetch(world) == -1


def test_what_members_use_cannot_be_deleted_and_the_rest_can() -> None:
    world = World()
    (member,) = stable_group(world, 1)
    member.commit(5)
    commit(world, 6, topic="b", member_id=member.member_id, epoch=1)
    assert delete_offset(world) == (ErrorCode.NONE, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
    assert delete_offset(world, topic="b") == DONE
    assert (fetch(world), fetch(world, topic="b")) == (5, -1)


def test_what_members_of_consumer_groups_use_cannot_be_deleted() -> None:
    world = World()
    member = Consumer(world, "m", topics=[], regex="a*")
    member.join()
    commit(world, 5, member_id="m", epoch=2)
    assert delete_offset(world) == (ErrorCode.NONE, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
    member.leave()
    assert delete_offset(world) == DONE


def test_a_group_whose_topics_nobody_knows_keeps_its_offsets_while_it_has_members() -> None:
    world = World()
    stable_group(world, 1, protocol_type="connect")
    assert delete_offset(world) == (ErrorCode.NON_EMPTY_GROUP, ErrorCode.NONE)


def test_a_consumer_whose_subscription_cannot_be_read_may_use_anything() -> None:
    world = World()
    stable_group(world, 1, protocols=[("range", b"\x00")])
    assert delete_offset(world) == (ErrorCode.NONE, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)


def test_deleting_of_what_does_not_exist_is_refused() -> None:
    world = World()
    commit(world, 5)
    unknown = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert delete_offset(world, topic="nowhere") == unknown
    assert delete_offset(world, partition=99) == unknown
    assert delete_offset(world, group_id="nobody") == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.NONE,
    )
    assert delete_offset(world, group_id="") == (ErrorCode.INVALID_GROUP_ID, ErrorCode.NONE)


def test_deleting_an_offset_takes_pending_ones_with_it() -> None:
    world = World()
    commit_in_transaction(world, 5)
    assert delete_offset(world) == DONE
    world.end_transaction(1, commit=True)
    assert fetch(world, require_stable=True) == -1


def test_an_empty_group_is_deleted_with_its_offsets() -> None:
    world = World()
    (member,) = stable_group(world, 1)
    member.commit(5)
    commit_in_transaction(world, 6, partition=1)
    assert delete_group(world) == ErrorCode.NON_EMPTY_GROUP
    member.leave()
    assert delete_group(world) == ErrorCode.NONE
    world.end_transaction(1, commit=True)
    assert (group_ids(world), fetch(world), fetch(world, 1)) == ([], -1, -1)
    assert delete_group(world) == ErrorCode.GROUP_ID_NOT_FOUND
    world.restart()
    assert (group_ids(world), fetch(world), fetch(world, 1)) == ([], -1, -1)


def test_an_empty_consumer_group_is_deleted() -> None:
    world = World()
    member = Consumer(world, "m", regex="a*")
    member.join()
    commit(world, 5, member_id="m", epoch=2)
    assert delete_group(world) == ErrorCode.NON_EMPTY_GROUP
    member.leave()
    assert delete_group(world) == ErrorCode.NONE
    world.restart()
    assert (group_ids(world), fetch(world)) == ([], -1)


def test_a_group_that_was_deleted_starts_again() -> None:
    world = World()
    (member,) = stable_group(world, 1)
    member.leave()
    delete_group(world)
    (again,) = stable_group(world, 1)
    assert again.generation == 1


def test_offsets_of_simple_consumers_expire_after_their_commit() -> None:
    world = World(RETENTION)
    commit(world, 5)
    world.advance(HOUR // 2)
    commit(world, 6, partition=1)
    world.advance(HOUR // 2)
    assert (fetch(world), fetch(world, 1)) == (-1, 6)
    world.advance(HOUR // 2 + 60_000)
    assert (fetch(world, 1), group_ids(world)) == (-1, [])
    world.restart()
    assert group_ids(world) == []


def test_offsets_of_a_group_expire_after_it_became_empty() -> None:
    world = World(RETENTION)
    (member,) = stable_group(world, 1, session_timeout_ms=1_800_000)
    member.commit(5)
    for _ in range(8):
        world.advance(HOUR // 4)
        member.heartbeat()
    member.leave()
    world.advance(HOUR - 60_000)
    assert fetch(world) == 5
    world.advance(2 * 60_000)
    assert (fetch(world), group_ids(world)) == (-1, [])


def test_members_keep_the_offsets_of_topics_they_use() -> None:
    world = World(RETENTION)
    (member,) = stable_group(world, 1, session_timeout_ms=1_800_000)
    member.commit(5)
    commit(world, 6, topic="b", member_id=member.member_id, epoch=1)
    for _ in range(8):
        world.advance(HOUR // 4)
        member.heartbeat()
    assert (fetch(world), fetch(world, topic="b")) == (5, -1)


def test_members_of_consumer_groups_keep_the_offsets_of_topics_they_use() -> None:
    world = World(RETENTION)
    member = Consumer(world, "m")
    member.join()
    commit(world, 5, member_id="m", epoch=2)
    commit(world, 6, topic="b", member_id="m", epoch=2)
    for _ in range(4 * 60):
        world.advance(30_000)
        member.heartbeat()
    assert (fetch(world), fetch(world, topic="b")) == (5, -1)
    member.leave()
    world.advance(2 * 60_000)
    assert (fetch(world), group_ids(world)) == (-1, [])


@pytest.mark.parametrize("version", [2, 4])
def test_a_retention_that_the_client_asked_for_is_kept(version: int) -> None:
    world = World(RETENTION)
    commit(world, 5, version=version, retention_ms=2 * HOUR)
    world.restart()
    world.advance(2 * HOUR - 60_000)
    assert fetch(world) == 5
    world.advance(2 * 60_000)
    assert fetch(world) == -1


def test_the_longest_retention_does_not_overflow() -> None:
    world = World(RETENTION)
    assert commit(world, 5, version=4, retention_ms=2**63 - 1) == ErrorCode.NONE
    world.advance(10 * HOUR)
    assert fetch(world) == 5


def test_an_offset_with_something_pending_does_not_expire() -> None:
    world = World(RETENTION)
    commit(world, 5)
    commit_in_transaction(world, 6)
    world.advance(2 * HOUR)
    assert fetch(world) == 5
    world.end_transaction(1, commit=False)
    world.advance(60_000)
    assert fetch(world) == -1


def test_a_group_with_an_id_given_out_does_not_expire() -> None:
    world = World(GroupConfig(offsets_retention_check_interval_ms=1_000))
    member = ClassicClient(world)
    member.ask_to_join()
    world.advance(5_000)
    token = member.join()
    world.advance(3_000)
    assert member.joined(token).error_code == ErrorCode.NONE


def test_many_groups_expire_in_slices() -> None:
    world = World(RETENTION)
    for number in range(GROUPS_IN_A_SLICE * 2 + 1):
        commit(world, 5, group_id=f"g{number}")
    world.advance(HOUR)
    assert len(group_ids(world)) <= GROUPS_IN_A_SLICE * 2 + 1
    world.advance(60_000)
    assert group_ids(world) == []


def test_many_offsets_of_a_group_expire_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_shard, "OFFSETS_IN_A_SLICE", 7)
    world = World(RETENTION, Topics(a=40))
    for number in range(3):
        for partition in range(10 * number, 40):
            assert commit(world, 5, partition, group_id=f"g{number}") is ErrorCode.NONE
    kept = world.shard._state
    most = 0
    take = world.take

    def counted(result: Result[R]) -> R | Deferred:
        nonlocal most
        most = max(most, len(result.records))
        return take(result)

    monkeypatch.setattr(world, "take", counted)
    world.advance(HOUR + 60_000)
    assert group_ids(world) == []
    assert not kept.offsets.of_group("g0")
    assert most <= 8, "a slice, and the end of a group"


def test_an_offset_whose_deletion_does_not_fit_stays_with_its_group() -> None:
    world = World(RETENTION)
    long = "g" * 400
    for group_id in (long, "g"):
        assert commit(world, 5, group_id=group_id) is ErrorCode.NONE
    world.take_batches_of(300)
    world.advance(HOUR + 60_000)
    assert group_ids(world) == [long]
    assert fetch(world, group_id=long) == 5
    world.take_batches_of(UNLIMITED)
    world.advance(60_000)
    assert group_ids(world) == []


def test_the_offsets_of_a_deleted_topic_go() -> None:
    world = World()
    commit(world, 5)
    commit(world, 6, topic="b")
    commit_in_transaction(world, 7, partition=1)
    topic = world.topics.delete("a")
    world.take(world.shard.topics_deleted([topic], world.now))
    world.end_transaction(1, commit=True)
    assert (fetch(world), fetch(world, 1), fetch(world, topic="b")) == (-1, -1, 6)


def test_the_offsets_of_a_topic_recreated_stay_when_the_old_one_is_cleaned_up() -> None:
    world = World()
    old = world.topics.delete("a")
    world.topics.create("a", 4)
    commit(world, 5)
    world.take(world.shard.topics_deleted([old], world.now))
    assert fetch(world) == 5
