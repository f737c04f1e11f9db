"""StreamsGroupHeartbeat: joining, tasks, topics, statuses, leaving; and what is refused."""

from dataclasses import replace
from typing import Any

import pytest

from ottla.coordinator.group_config import GroupConfig
from ottla.coordinator.streams.configured import StatusCode
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)

from ..groups_world import World, answer, context
from .streams_world import StreamsClient, StreamsWorld, counting, simple

AT_ONCE = GroupConfig(
    group_streams_initial_rebalance_delay_ms=0, group_streams_assignment_interval_ms=0
)


def world(**more: Any) -> StreamsWorld:
    return StreamsWorld(config=replace(AT_ONCE, **more))


def settle(*clients: StreamsClient) -> None:
    for _ in range(4):
        for client in clients:
            client.beat()


def has(clients: list[StreamsClient]) -> list[tuple[str, int]]:
    """All active tasks, with every owner."""
    return sorted(
        (name, number)
        for client in clients
        for name, numbers in client.active.items()
        for number in numbers
    )


def test_the_first_member_gets_all_tasks() -> None:
    there = world()
    client = StreamsClient(there, "m1")
    reply = client.join()
    assert (reply.error_code, reply.member_epoch, reply.heartbeat_interval_ms) == (0, 2, 5_000)
    assert client.active == {"0": [0, 1, 2, 3]}
    assert there.group().state_name == "Stable"
    assert client.beat().active_tasks is None  # nothing is new


def test_a_new_group_waits_for_more_members() -> None:
    there = StreamsWorld(config=GroupConfig(group_streams_assignment_interval_ms=0))
    first, second = StreamsClient(there, "m1"), StreamsClient(there, "m2")
    first.join()
    assert (first.active, first.statuses) == ({}, [StatusCode.ASSIGNMENT_DELAYED])
    second.join()
    there.advance(2_999)
    first.beat()
    assert first.statuses == [StatusCode.ASSIGNMENT_DELAYED]
    there.advance(1)
    first.beat()
    second.beat()
    assert (len(first.active["0"]), len(second.active["0"])) == (2, 2)
    assert (first.statuses, second.statuses) == ([], [])


def test_tasks_move_only_when_they_were_given_up() -> None:
    there = world()
    first, second = StreamsClient(there, "m1"), StreamsClient(there, "m2")
    first.join()
    second.join()
    assert second.active == {}
    reply = first.beat()  # told to keep two of them
    assert reply.active_tasks is not None
    assert len(first.active["0"]) == 2
    assert second.beat().active_tasks is None
    first.beat()  # says that it has given up the others
    second.beat()
    assert has([first, second]) == [("0", number) for number in range(4)]
    assert there.group().state_name == "Stable"


def test_a_member_that_gives_up_nothing_in_time_is_removed() -> None:
    there = world()
    first, second = StreamsClient(there, "m1"), StreamsClient(there, "m2")
    first.join()
    second.join()
    first.beat()
    kept = {"0": [0, 1, 2, 3]}
    for _ in range(13):
        there.advance(5_000)
        first.active = kept
        first.beat()
        second.beat()
    assert "m1" not in there.group().members
    assert second.active == kept


def test_a_silent_member_is_removed_and_its_tasks_go_to_others() -> None:
    there = world()
    first, second = StreamsClient(there, "m1"), StreamsClient(there, "m2")
    first.join()
    second.join()
    settle(first, second)
    for _ in range(10):
        there.advance(5_000)
        second.beat()
    assert list(there.group().members) == ["m2"]
    assert second.active == {"0": [0, 1, 2, 3]}
    assert first.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_internal_topics_are_asked_for_and_then_tasks_are_assigned() -> None:
    there = world()
    client = StreamsClient(there, "m1", topology=counting())
    client.join()
    assert client.statuses == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert (client.active, there.group().state_name) == ({}, "NotReady")
    wanted = {name: topic.partitions for name, topic in there.to_create.items()}
    assert wanted == {"words-repartition": 4, "counts-changelog": 4}
    there.create_internal_topics()
    client.beat()
    assert client.statuses == []
    assert client.active == {"0": [0, 1, 2, 3], "1": [0, 1, 2, 3]}


@pytest.mark.parametrize(
    ("topology", "topics", "code", "detail"),
    [
        (simple("nowhere"), {}, StatusCode.MISSING_SOURCE_TOPICS, "Source topics nowhere are"),
        (
            simple("a", changelog="c"),
            {"c": 3},
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            "Existing topic c has different number of partitions: expected 4, found 3",
        ),
        (
            Topology(
                subtopologies=[
                    Subtopology(
                        subtopology_id="0",
                        source_topics=["a", "b"],
                        copartition_groups=[CopartitionGroup(source_topics=[0, 1])],
                    )
                ]
            ),
            {},
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            "Following topics do not have the same number of partitions: [{a=4, b=2}]",
        ),
    ],
)
def test_topics_that_are_wrong_keep_tasks_from_being_assigned(
    topology: Topology, topics: dict[str, int], code: StatusCode, detail: str
) -> None:
    there = world()
    for name, count in topics.items():
        there.topics.create(name, count)
    client = StreamsClient(there, "m1", topology=topology)
    statuses = client.join().status
    assert statuses is not None
    (status,) = statuses
    assert (status.status_code, detail in status.status_detail) == (code, True)
    assert (client.active, there.to_create) == ({}, {})


def test_a_source_topic_that_is_created_later_is_seen() -> None:
    there = world()
    client = StreamsClient(there, "m1", topology=simple("later"))
    client.join()
    assert client.statuses == [StatusCode.MISSING_SOURCE_TOPICS]
    there.topics.create("later", 2)
    client.beat()
    assert client.active == {"0": [0, 1]}


def test_standby_tasks_are_on_other_processes() -> None:
    there = world(group_streams_num_standby_replicas=1)
    there.topics.create("c", 4)
    topology = simple("a", changelog="c")
    clients = [
        StreamsClient(there, "m1", "p1", topology),
        StreamsClient(there, "m2", "p1", topology),
        StreamsClient(there, "m3", "p2", topology),
    ]
    for client in clients:
        client.join()
    settle(*clients)
    assert has(clients) == [("0", number) for number in range(4)]
    standby = [number for client in clients for number in client.standby.get("0", ())]
    assert sorted(standby) == [0, 1, 2, 3]
    active_on_p1 = {number for client in clients[:2] for number in client.active.get("0", ())}
    standby_on_p1 = {number for client in clients[:2] for number in client.standby.get("0", ())}
    assert active_on_p1.isdisjoint(standby_on_p1)


def test_the_number_of_standby_replicas_may_change() -> None:
    there = world()
    there.topics.create("c", 4)
    clients = [
        StreamsClient(there, name, topology=simple("a", changelog="c")) for name in ("m1", "m2")
    ]
    for client in clients:
        client.join()
    settle(*clients)
    assert not any(client.standby for client in clients)
    there.own_configs["g"] = replace(there.config, group_streams_num_standby_replicas=1)
    settle(*clients)
    assert sorted(each for client in clients for each in client.standby["0"]) == [0, 1, 2, 3]


def test_all_learn_of_the_endpoints() -> None:
    there = world()
    first, second = StreamsClient(there, "m1"), StreamsClient(there, "m2")
    first.join(user_endpoint=Endpoint(host="one", port=1))
    second.join(user_endpoint=Endpoint(host="two", port=2))
    settle(first, second)
    reply = first.beat(endpoint_information_epoch=-1)
    assert reply.partitions_by_user_endpoint is not None
    found = {
        each.user_endpoint.host: [(part.topic, part.partitions) for part in each.active_partitions]
        for each in reply.partitions_by_user_endpoint
    }
    assert found == {"one": [("a", first.active["0"])], "two": [("a", second.active["0"])]}
    epoch = reply.endpoint_information_epoch
    assert first.beat(endpoint_information_epoch=epoch).partitions_by_user_endpoint is None


def test_one_member_can_ask_all_to_shut_down() -> None:
    there = world()
    first, second = StreamsClient(there, "m1"), StreamsClient(there, "m2")
    first.join()
    second.join()
    first.leave(shutdown_application=True)
    second.beat()
    assert StatusCode.SHUTDOWN_APPLICATION in second.statuses
    second.leave()
    second.join()
    assert StatusCode.SHUTDOWN_APPLICATION not in second.statuses


def test_a_stale_topology_is_told_and_another_one_refused() -> None:
    there = world()
    StreamsClient(there, "m1", topology=simple("a", epoch=2)).join()
    old = StreamsClient(there, "m2", topology=simple("b", epoch=1))
    old.join()
    assert StatusCode.STALE_TOPOLOGY in old.statuses
    for topology in (simple("b", epoch=2), simple("a", epoch=3)):
        reply = StreamsClient(there, "m3", topology=topology).join()
        assert reply.error_code == ErrorCode.INVALID_REQUEST
        assert reply.error_message == "Topology updates are not supported yet."
    assert list(there.group().members) == ["m1", "m2"]


def test_the_epoch_before_is_accepted_where_the_answer_was_lost() -> None:
    there = world()
    first, second = StreamsClient(there, "m1"), StreamsClient(there, "m2")
    first.join()
    second.join()
    before = first.epoch
    first.beat()
    first.beat()
    assert first.epoch > before
    assert first.beat(member_epoch=before).error_code == 0
    for epoch in (before - 1, first.epoch + 1):
        assert first.beat(member_epoch=epoch).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    stolen = [TaskIds(subtopology_id="0", partitions=[0, 1, 2, 3])]
    refused = first.beat(member_epoch=before, active_tasks=stolen)
    assert refused.error_code == ErrorCode.FENCED_MEMBER_EPOCH


def _commit(there: World, epoch: int, version: int = 10, member: str = "m1") -> int:
    request = OffsetCommitRequest(
        group_id="g",
        member_id=member,
        generation_id_or_member_epoch=epoch,
        topics=[
            OffsetCommitRequestTopic(
                name="a",
                topic_id=there.topics.id_of("a"),
                partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
            )
        ],
    )
    result = there.take(there.shard.handle_offset_commit(request, context(version), there.now))
    return result.topics[0].partitions[0].error_code  # type: ignore[union-attr]


def test_offsets_may_be_committed_from_the_epoch_on_in_which_the_task_was_got() -> None:
    there = world()
    first = StreamsClient(there, "m1")
    first.join()
    got = first.epoch
    assert _commit(there, got) == 0
    second = StreamsClient(there, "m2")
    second.join()
    settle(first, second)
    assert first.epoch > got
    keeps = 0 in first.active["0"]
    assert _commit(there, got) == (0 if keeps else ErrorCode.STALE_MEMBER_EPOCH)
    assert _commit(there, got - 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert _commit(there, first.epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert _commit(there, first.epoch, version=8) == ErrorCode.UNSUPPORTED_VERSION
    assert _commit(there, first.epoch, member="other") == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_is_described_listed_and_deleted() -> None:
    there = world()
    client = StreamsClient(there, "m1")
    client.join()
    refused = there.take(there.shard.handle_delete_groups(["g"], context(2), there.now))
    assert refused[0].error_code == ErrorCode.NON_EMPTY_GROUP  # type: ignore[index]
    described = answer(there.shard.handle_streams_group_describe(["g", "x"], context(0), 0))
    assert [each.error_code for each in described] == [0, ErrorCode.GROUP_ID_NOT_FOUND]
    assert (described[0].group_state, described[0].group_epoch) == ("Stable", 2)
    (member,) = described[0].members
    assert member.assignment == member.target_assignment
    client.leave()
    assert there.group().state_name == "Empty"
    deleted = there.take(there.shard.handle_delete_groups(["g"], context(2), there.now))
    assert deleted[0].error_code == 0  # type: ignore[index]
    assert "g" not in there.loaded_anew()._state.groups


def test_an_empty_group_becomes_a_classic_one_and_back() -> None:
    there = world()
    client = StreamsClient(there, "m1")
    client.join()
    joining = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range")],
    )

    def join_classic() -> int:
        reply = there.take(there.shard.handle_join_group(joining, context(4), there.now))
        return reply.error_code  # type: ignore[union-attr]

    assert join_classic() == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    client.leave()
    assert join_classic() == ErrorCode.MEMBER_ID_REQUIRED
    there.advance(60_000)
    assert client.join().error_code == 0
    there.restart()
    assert there.group().state_name == "Stable"


def test_a_group_of_another_kind_is_refused() -> None:
    there = world()
    StreamsClient(there, "m1").join()
    assert StreamsClient(there, "m9").beat(member_epoch=3).error_code == (
        ErrorCode.UNKNOWN_MEMBER_ID
    )
    nobody = StreamsClient(there, "m1").beat(group_id="other", member_epoch=3)
    assert nobody.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_full_group_takes_no_new_member() -> None:
    there = world(group_streams_max_size=1)
    client = StreamsClient(there, "m1")
    client.join()
    assert StreamsClient(there, "m2").join().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert client.join().error_code == 0


OF_0 = [TaskIds(subtopology_id="0", partitions=[0])]


@pytest.mark.parametrize(
    "wrong",
    [
        {"member_id": " "},
        {"group_id": ""},
        {"rack_id": ""},
        {"instance_id": "i"},
        {"rebalance_timeout_ms": -1},
        {"topology": None},
        {"active_tasks": OF_0},
        {"standby_tasks": OF_0},
        {"warmup_tasks": OF_0},
        {"warmup_tasks": None},
        {"task_offsets": [TaskOffset()]},
        {"task_end_offsets": []},
        {"member_epoch": -2},
        {"member_epoch": -3},
    ],
)
def test_what_no_member_may_say_when_it_joins(wrong: dict[str, Any]) -> None:
    there = world()
    assert StreamsClient(there, "m1").join(**wrong).error_code == ErrorCode.INVALID_REQUEST
    assert not there.log
    assert not there.shard._state.groups


@pytest.mark.parametrize(
    "wrong",
    [
        {"topology": simple("a")},
        {"standby_tasks": None},
        {"active_tasks": [TaskIds(subtopology_id="nowhere", partitions=[0])]},
        {"active_tasks": [TaskIds(subtopology_id="0", partitions=[4])]},
        {"standby_tasks": [TaskIds(subtopology_id="0", partitions=[-1])]},
    ],
)
def test_what_no_member_may_say_later(wrong: dict[str, Any]) -> None:
    there = world()
    client = StreamsClient(there, "m1")
    client.join()
    written = len(there.log)
    assert client.beat(**wrong).error_code == ErrorCode.INVALID_REQUEST
    assert len(there.log) == written


def _one(**more: Any) -> Topology:
    return Topology(subtopologies=[Subtopology(subtopology_id="0", **more)])


@pytest.mark.parametrize(
    "topology",
    [
        _one(source_topics=["a"], state_changelog_topics=[TopicInfo(name="c", partitions=1)]),
        _one(),
        _one(repartition_source_topics=[TopicInfo(name="r")]),
        _one(
            repartition_source_topics=[TopicInfo(name="r")],
            repartition_sink_topics=["r"],
        ),
        _one(source_topics=["a"], copartition_groups=[CopartitionGroup(source_topics=[1])]),
        _one(repartition_source_topics=[TopicInfo(name="r", partitions=-1)]),
        Topology(
            subtopologies=[
                Subtopology(subtopology_id="0", source_topics=["a"]),
                Subtopology(subtopology_id="0", source_topics=["b"]),
            ]
        ),
        simple("a", epoch=-1),
    ],
)
def test_a_topology_that_cannot_run_is_refused(topology: Topology) -> None:
    there = world()
    reply = StreamsClient(there, "m1", topology=topology).join()
    assert reply.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert not there.log
    assert not there.shard._state.groups


def test_what_does_not_fit_into_a_batch_is_refused() -> None:
    there = world()
    there.take_batches_of(300)
    reply = StreamsClient(there, "m1").join()
    assert reply.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not there.shard._state.groups
