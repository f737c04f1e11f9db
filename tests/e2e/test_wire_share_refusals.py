"""What brokers refuse around share groups, each with Kafka's own error code.

`python -m compat --only share-groups` runs the same against Apache Kafka 4.3.0.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import pytest

from ottla.wire.errors import ErrorCode as E
from ottla.wire.messages import alter_share_group_offsets as altering
from ottla.wire.messages import consumer_group_heartbeat as consumers
from ottla.wire.messages import delete_groups, find_coordinator, join_group, offset_commit
from ottla.wire.messages import delete_share_group_offsets as deleting
from ottla.wire.messages import delete_share_group_state as state_deletes
from ottla.wire.messages import describe_share_group_offsets as describing
from ottla.wire.messages import incremental_alter_configs as configs
from ottla.wire.messages import initialize_share_group_state as state_begins
from ottla.wire.messages import read_share_group_state as state_reads
from ottla.wire.messages import share_acknowledge as acks
from ottla.wire.messages import share_fetch as fetches
from ottla.wire.messages import share_group_describe as descriptions
from ottla.wire.messages import share_group_heartbeat as beats
from ottla.wire.messages import write_share_group_state as state_writes
from testkit.batches import values
from testkit.raw import Connection
from testkit.share_groups import id_of, read_from_beginning
from testkit.waiting import until
from tests.e2e.asking import produce
from tests.e2e.conftest import create_topic

RECORDS = 10
LONG = 2_000
GROUP_RESOURCE = 32
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
MISSING = UUID(int=77)
CONSUMERS = "consumers"


class Member:
    """A member of the share group with a session of its own."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.connection = Connection(bootstrap)
        self.group = group
        self.topic = topic
        self.topic_id = id_of(bootstrap, topic)
        self.name = str(uuid4())
        self.epoch = 0
        self.session = 0

    def beat(self, **more: Any) -> beats.ShareGroupHeartbeatResponse:
        asked = beats.ShareGroupHeartbeatRequest(
            **{
                "group_id": self.group,
                "member_id": self.name,
                "member_epoch": self.epoch,
                "subscribed_topic_names": [self.topic],
                **more,
            }
        )
        return self.connection.ask(asked, beats.ShareGroupHeartbeatResponse, 1)

    def join(self) -> None:
        """Join, and wait for the partition."""

        def has_partitions() -> bool:
            reply = self.beat()
            if reply.error_code:
                return False
            self.epoch = reply.member_epoch
            return reply.assignment is not None and bool(reply.assignment.topic_partitions)

        until(has_partitions, "the member has its partition", 60)

    def fetch(self, given: Any = (), version: int = 2, **more: Any) -> fetches.ShareFetchResponse:
        partition = fetches.FetchPartition(
            partition_index=more.pop("partition", 0),
            acknowledgement_batches=[
                fetches.AcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=list(types)
                )
                for first, last, types in given
            ],
        )
        topic = fetches.FetchTopic(
            topic_id=more.pop("topic_id", self.topic_id), partitions=[partition]
        )
        asked = fetches.ShareFetchRequest(
            **{
                "group_id": self.group,
                "member_id": self.name,
                "share_session_epoch": self.session,
                "max_wait_ms": 0,
                "min_bytes": 1,
                "max_bytes": 1 << 20,
                "max_records": 100,
                "batch_size": 100,
                "topics": [topic],
                **more,
            }
        )
        reply = self.connection.ask(asked, fetches.ShareFetchResponse, version)
        if reply.error_code == E.NONE:
            self.session = asked.share_session_epoch + 1
        return reply

    def fetch_error(self, given: Any = (), version: int = 2, **more: Any) -> int:
        return self.fetch(given, version, **more).error_code

    def partition_errors(self, given: Any = (), **more: Any) -> set[tuple[int, int]]:
        """Errors of the partitions in the reply: of the fetch and of the acknowledgement."""
        reply = self.fetch(given, **more)
        assert reply.error_code == E.NONE, E(reply.error_code).name
        return {
            (part.error_code, part.acknowledge_error_code)
            for topic in reply.responses
            for part in topic.partitions
        }

    def acknowledge(self, *given: Any, version: int = 2, **more: Any) -> tuple[int, int]:
        """The error at the top, and that of the partition."""
        partition = acks.AcknowledgePartition(
            acknowledgement_batches=[
                acks.AcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=list(types)
                )
                for first, last, types in given
            ]
        )
        topic = acks.AcknowledgeTopic(
            topic_id=more.pop("topic_id", self.topic_id), partitions=[partition]
        )
        asked = acks.ShareAcknowledgeRequest(
            **{
                "group_id": self.group,
                "member_id": self.name,
                "share_session_epoch": self.session,
                "topics": [topic],
                **more,
            }
        )
        reply = self.connection.ask(asked, acks.ShareAcknowledgeResponse, version)
        if reply.error_code:
            return reply.error_code, 0
        self.session += 1
        ((part,),) = [each.partitions for each in reply.responses]
        return 0, part.error_code


class World(NamedTuple):
    """A share group whose first member holds all records, and whose second has none."""

    bootstrap: str
    owner: Member
    other: Member

    def ask(self, request: Any, response: type[Any], version: int) -> Any:
        with Connection(self.bootstrap) as connection:
            return connection.ask(request, response, version)


def _wait_for_coordinator(connection: Connection, kind: int, key: str, version: int) -> None:
    request = find_coordinator.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])

    def is_there() -> bool:
        answer = connection.ask(request, find_coordinator.FindCoordinatorResponse, version)
        return not answer.coordinators[0].error_code

    until(is_there, "there is a coordinator", 60)


@pytest.fixture(scope="module")
def world(bootstrap: str) -> Iterator[World]:
    name = f"refused-{uuid4().hex[:8]}"
    with Connection(bootstrap) as connection:
        create_topic(connection, name, 1, {})
        records = values(*[b"x"] * RECORDS)
        until(lambda: not produce(connection, name, records).error_code, "there are records", 60)
        for group in (name, CONSUMERS):
            _wait_for_coordinator(connection, 0, group, 4)
        consumer = consumers.ConsumerGroupHeartbeatRequest(
            group_id=CONSUMERS,
            member_id=str(uuid4()),
            rebalance_timeout_ms=300_000,
            subscribed_topic_names=[name],
            topic_partitions=[],
        )
        until(
            lambda: (
                not connection.ask(consumer, consumers.ConsumerGroupHeartbeatResponse, 1).error_code
            ),
            "there is a consumer group",
            60,
        )
    read_from_beginning(bootstrap, name)
    owner, other = Member(bootstrap, name, name), Member(bootstrap, name, name)
    for member in (owner, other):
        member.join()
    got: list[int] = []

    def has_all() -> bool:
        for topic in owner.fetch(max_wait_ms=500).responses:
            for part in topic.partitions:
                for each in part.acquired_records:
                    got.extend(range(each.first_offset, each.last_offset + 1))
        return len(got) == RECORDS

    until(has_all, "the member has all records", 60)
    other.fetch()
    yield World(bootstrap, owner, other)
    # Whatever was refused has changed nothing:
    assert owner.acknowledge((0, RECORDS - 1, (ACCEPT,))) == (0, 0)
    for member in (owner, other):
        member.beat(member_epoch=-1)
        member.connection.close()


HEARTBEATS: dict[str, tuple[dict[str, Any], int]] = {
    "no group": ({"group_id": ""}, E.INVALID_REQUEST),
    "no member": ({"member_id": ""}, E.INVALID_REQUEST),
    "a long member id": ({"member_id": "m" * 37}, E.INVALID_REQUEST),
    "an empty rack": ({"rack_id": ""}, E.INVALID_REQUEST),
    "an impossible epoch": ({"member_epoch": -2}, E.INVALID_REQUEST),
    "joins without topics": (
        {"member_epoch": 0, "subscribed_topic_names": []},
        E.INVALID_REQUEST,
    ),
    "a newer epoch": ({"member_epoch": 1_000}, E.FENCED_MEMBER_EPOCH),
    "an unknown member": ({"member_id": "nobody", "member_epoch": 1}, E.UNKNOWN_MEMBER_ID),
    "an unknown member leaves": ({"member_id": "nobody", "member_epoch": -1}, E.UNKNOWN_MEMBER_ID),
    "an unknown group": ({"group_id": "nothing", "member_epoch": 1}, E.GROUP_ID_NOT_FOUND),
    "a consumer group": ({"group_id": CONSUMERS, "member_epoch": 0}, E.GROUP_ID_NOT_FOUND),
}


@pytest.mark.parametrize("name", HEARTBEATS)
def test_heartbeats(world: World, name: str) -> None:
    wrong, code = HEARTBEATS[name]
    assert world.owner.beat(**wrong).error_code == code


FETCHES: dict[str, tuple[Callable[[Member], int], int]] = {
    "no group": (lambda m: m.fetch_error(group_id=None), E.INVALID_REQUEST),
    "no member": (lambda m: m.fetch_error(member_id=""), E.INVALID_REQUEST),
    "no member at all": (lambda m: m.fetch_error(member_id=None), E.INVALID_REQUEST),
    "a long member id": (lambda m: m.fetch_error(member_id="m" * 37), E.INVALID_REQUEST),
    "no session": (
        lambda m: m.fetch_error(member_id="nobody", share_session_epoch=1),
        E.SHARE_SESSION_NOT_FOUND,
    ),
    "no session to close": (
        lambda m: m.fetch_error(member_id="nobody", share_session_epoch=-1),
        E.SHARE_SESSION_NOT_FOUND,
    ),
    "a wrong session epoch": (
        lambda m: m.fetch_error(share_session_epoch=m.session + 5),
        E.INVALID_SHARE_SESSION_EPOCH,
    ),
    "the first has acknowledgements": (
        lambda m: m.fetch_error([(0, 0, (ACCEPT,))], member_id="new", share_session_epoch=0),
        E.INVALID_REQUEST,
    ),
    "renews and wants records": (
        lambda m: m.fetch_error([(0, 0, (RENEW,))], is_renew_ack=True),
        E.INVALID_REQUEST,
    ),
}


@pytest.mark.parametrize("name", FETCHES)
def test_fetches(world: World, name: str) -> None:
    ask, code = FETCHES[name]
    assert ask(world.owner) == code


def test_an_unknown_acquire_mode(world: World) -> None:
    member = Member(world.bootstrap, world.owner.group, world.owner.topic)
    # Kafka fails over it after it has taken the request for the session's next.
    wanted = (E.INVALID_REQUEST, E.UNKNOWN_SERVER_ERROR)
    assert member.fetch_error(share_acquire_mode=7) in wanted
    member.connection.close()


def test_a_topic_id_that_is_unknown(world: World) -> None:
    member = Member(world.bootstrap, world.owner.group, world.owner.topic)
    member.fetch()
    reply = member.fetch(topic_id=MISSING)
    found = [part.error_code for topic in reply.responses for part in topic.partitions]
    # Kafka fails over the name that it does not have, in a session that goes on.
    assert reply.error_code == E.UNKNOWN_SERVER_ERROR or found == [E.UNKNOWN_TOPIC_ID]
    member.connection.close()


def test_partitions_of_fetches(world: World) -> None:
    member = world.other
    assert member.partition_errors(partition=9) == {(E.UNKNOWN_TOPIC_OR_PARTITION, 0)}
    forget = fetches.ForgottenTopic(topic_id=member.topic_id, partitions=[9])
    member.fetch(topics=[], forgotten_topics_data=[forget])
    not_mine = member.partition_errors([(0, 1, (ACCEPT,))])
    assert not_mine == {(0, E.INVALID_RECORD_STATE)}


REQUEST_CODES: dict[str, tuple[Callable[[Member], tuple[int, int]], int]] = {
    "no group": (lambda m: m.acknowledge(group_id=None), E.INVALID_REQUEST),
    "no member": (lambda m: m.acknowledge(member_id=""), E.INVALID_REQUEST),
    "the initial epoch": (
        lambda m: m.acknowledge((0, 0, (ACCEPT,)), share_session_epoch=0),
        E.INVALID_SHARE_SESSION_EPOCH,
    ),
    "a wrong epoch": (
        lambda m: m.acknowledge((0, 0, (ACCEPT,)), share_session_epoch=999),
        E.INVALID_SHARE_SESSION_EPOCH,
    ),
    "no session": (
        lambda m: m.acknowledge((0, 0, (ACCEPT,)), member_id="nobody", share_session_epoch=1),
        E.SHARE_SESSION_NOT_FOUND,
    ),
}
PARTITION_CODES: dict[str, tuple[list[Any], int]] = {
    "past what is in flight": ([(0, RECORDS + 5, (ACCEPT,))], E.INVALID_REQUEST),
    "first after last": ([(3, 2, (ACCEPT,))], E.INVALID_REQUEST),
    "unsorted": ([(5, 6, (ACCEPT,)), (0, 1, (ACCEPT,))], E.INVALID_REQUEST),
    "too many types": ([(0, 1, (ACCEPT, ACCEPT, ACCEPT))], E.INVALID_REQUEST),
    "no types": ([(0, 1, ())], E.INVALID_REQUEST),
    "an unknown type": ([(0, 1, (5,))], E.INVALID_REQUEST),
    "a negative type": ([(0, 1, (-1,))], E.INVALID_REQUEST),
    "renews by the way": ([(0, 1, (RENEW,))], E.INVALID_REQUEST),
    "twice": ([(0, 1, (ACCEPT,)), (1, 2, (ACCEPT,))], E.INVALID_RECORD_STATE),
}


@pytest.mark.parametrize("name", REQUEST_CODES)
def test_acknowledgements(world: World, name: str) -> None:
    ask, code = REQUEST_CODES[name]
    assert ask(world.owner) == (code, 0)


@pytest.mark.parametrize("name", PARTITION_CODES)
def test_partitions_of_acknowledgements(world: World, name: str) -> None:
    given, code = PARTITION_CODES[name]
    assert world.owner.acknowledge(*given) == (0, code)


def test_acknowledgements_of_what_another_has(world: World) -> None:
    assert world.other.acknowledge((0, 1, (ACCEPT,))) == (0, E.INVALID_RECORD_STATE)
    assert world.owner.acknowledge((0, 1, (RENEW,)), version=1) == (0, E.INVALID_REQUEST)
    unknown = world.owner.acknowledge((0, 1, (ACCEPT,)), topic_id=MISSING)
    assert unknown == (0, E.UNKNOWN_TOPIC_ID)


def test_groups_of_another_kind_and_none(world: World) -> None:
    def described(group: str) -> int:
        request = descriptions.ShareGroupDescribeRequest(group_ids=[group])
        answer = world.ask(request, descriptions.ShareGroupDescribeResponse, 1)
        return int(answer.groups[0].error_code)

    assert described("nothing") == E.GROUP_ID_NOT_FOUND
    assert described(CONSUMERS) == E.GROUP_ID_NOT_FOUND
    heartbeat = consumers.ConsumerGroupHeartbeatRequest(
        group_id=world.owner.group,
        member_id=str(uuid4()),
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=[world.owner.topic],
        topic_partitions=[],
    )
    answer = world.ask(heartbeat, consumers.ConsumerGroupHeartbeatResponse, 1)
    assert answer.error_code == E.GROUP_ID_NOT_FOUND
    join = join_group.JoinGroupRequest(
        group_id=world.owner.group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[join_group.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    joined = world.ask(join, join_group.JoinGroupResponse, 9)
    assert joined.error_code == E.INCONSISTENT_GROUP_PROTOCOL
    partition = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    commit = offset_commit.OffsetCommitRequest(
        group_id=world.owner.group,
        topics=[
            offset_commit.OffsetCommitRequestTopic(name=world.owner.topic, partitions=[partition])
        ],
    )
    committed = world.ask(commit, offset_commit.OffsetCommitResponse, 9)
    assert committed.topics[0].partitions[0].error_code == E.GROUP_ID_NOT_FOUND
    doomed = delete_groups.DeleteGroupsRequest(groups_names=[world.owner.group])
    (refused,) = world.ask(doomed, delete_groups.DeleteGroupsResponse, 2).results
    assert refused.error_code == E.NON_EMPTY_GROUP


def alter(world: World, group: str, topic: str, partition: int = 0) -> tuple[int, list[int]]:
    part = altering.AlterShareGroupOffsetsRequestPartition(partition_index=partition)
    named = altering.AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[part])
    request = altering.AlterShareGroupOffsetsRequest(group_id=group, topics=[named])
    answer = world.ask(request, altering.AlterShareGroupOffsetsResponse, 0)
    parts = [each.error_code for found in answer.responses for each in found.partitions]
    return answer.error_code, parts


def test_offsets_of_groups_with_members_and_of_others(world: World) -> None:
    mine = world.owner.topic
    assert alter(world, world.owner.group, mine)[0] == E.NON_EMPTY_GROUP
    assert alter(world, CONSUMERS, mine)[0] == E.GROUP_ID_NOT_FOUND
    assert alter(world, "altered", "missing") == (0, [E.UNKNOWN_TOPIC_OR_PARTITION])
    assert alter(world, "altered", mine, 9) == (0, [E.UNKNOWN_TOPIC_OR_PARTITION])

    def delete(group: str) -> int:
        topic = deleting.DeleteShareGroupOffsetsRequestTopic(topic_name=mine)
        request = deleting.DeleteShareGroupOffsetsRequest(group_id=group, topics=[topic])
        answer = world.ask(request, deleting.DeleteShareGroupOffsetsResponse, 0)
        return int(answer.error_code)

    assert delete(world.owner.group) == E.NON_EMPTY_GROUP
    assert delete("nothing") == E.GROUP_ID_NOT_FOUND
    assert delete(CONSUMERS) == E.GROUP_ID_NOT_FOUND

    def describe(group: str) -> int:
        asked = describing.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
        request = describing.DescribeShareGroupOffsetsRequest(groups=[asked])
        answer = world.ask(request, describing.DescribeShareGroupOffsetsResponse, 1)
        return int(answer.groups[0].error_code)

    # A group without share partitions has none to describe, whatever it is.
    assert describe("nothing") == describe(CONSUMERS) == 0


BAD_SETTINGS = [
    ("share.record.lock.duration.ms", "14999"),
    ("share.record.lock.duration.ms", "60001"),
    ("share.delivery.count.limit", "1"),
    ("share.delivery.count.limit", "11"),
    ("share.partition.max.record.locks", "99"),
    ("share.partition.max.record.locks", "4001"),
    ("share.session.timeout.ms", "44999"),
    ("share.session.timeout.ms", "60001"),
    ("share.heartbeat.interval.ms", "4999"),
    ("share.heartbeat.interval.ms", "15001"),
    ("share.assignment.interval.ms", "-1"),
    ("share.assignment.interval.ms", "15001"),
    ("share.auto.offset.reset", "middle"),
    ("share.auto.offset.reset", "by_duration:soon"),
    ("share.auto.offset.reset", "by_duration:-PT1H"),
    ("share.isolation.level", "dirty"),
    ("share.renew.acknowledge.enable", "perhaps"),
    ("share.delivery.count.limit", "many"),
]


@pytest.mark.parametrize(("name", "value"), BAD_SETTINGS, ids=lambda part: str(part))
def test_settings_out_of_bounds(world: World, name: str, value: str) -> None:
    resource = configs.AlterConfigsResource(
        resource_type=GROUP_RESOURCE,
        resource_name="configured",
        configs=[configs.AlterableConfig(name=name, value=value)],
    )
    request = configs.IncrementalAlterConfigsRequest(resources=[resource])
    answer = world.ask(request, configs.IncrementalAlterConfigsResponse, 1)
    assert answer.responses[0].error_code == E.INVALID_CONFIG


def test_state_requests(world: World) -> None:
    """What only brokers ask: what is not there, and what is older."""
    topic_id, group = world.owner.topic_id, f"state-{uuid4().hex[:8]}"

    def begin(epoch: int, start: int = 0, partition: int = 0, topic: UUID = topic_id) -> int:
        part = state_begins.PartitionData(
            partition=partition, state_epoch=epoch, start_offset=start
        )
        named = state_begins.InitializeStateData(topic_id=topic, partitions=[part])
        request = state_begins.InitializeShareGroupStateRequest(group_id=group, topics=[named])
        answer = world.ask(request, state_begins.InitializeShareGroupStateResponse, 0)
        return int(answer.results[0].partitions[0].error_code)

    def read(leader_epoch: int = 0) -> int:
        part = state_reads.PartitionData(partition=0, leader_epoch=leader_epoch)
        named = state_reads.ReadStateData(topic_id=topic_id, partitions=[part])
        request = state_reads.ReadShareGroupStateRequest(group_id=group, topics=[named])
        answer = world.ask(request, state_reads.ReadShareGroupStateResponse, 0)
        return int(answer.results[0].partitions[0].error_code)

    def write(state_epoch: int = 3, leader_epoch: int = 5) -> int:
        part = state_writes.PartitionData(
            partition=0, state_epoch=state_epoch, leader_epoch=leader_epoch, start_offset=0
        )
        named = state_writes.WriteStateData(topic_id=topic_id, partitions=[part])
        request = state_writes.WriteShareGroupStateRequest(group_id=group, topics=[named])
        answer = world.ask(request, state_writes.WriteShareGroupStateResponse, 1)
        return int(answer.results[0].partitions[0].error_code)

    with Connection(world.bootstrap) as connection:
        _wait_for_coordinator(connection, 2, f"{group}:{_id64(topic_id)}:0", 6)
    until(lambda: read() == E.INVALID_REQUEST, "what was not initialized cannot be read", 30)
    assert write() == E.INVALID_REQUEST
    assert begin(3, topic=MISSING) == E.UNKNOWN_TOPIC_OR_PARTITION
    assert begin(3) == 0
    assert begin(2) == E.FENCED_STATE_EPOCH
    assert read(leader_epoch=5) == 0
    assert read(leader_epoch=4) == E.FENCED_LEADER_EPOCH
    assert write(leader_epoch=4) == E.FENCED_LEADER_EPOCH
    assert write(state_epoch=2) == E.FENCED_STATE_EPOCH
    assert write() == 0
    gone = state_deletes.DeleteStateData(
        topic_id=topic_id, partitions=[state_deletes.PartitionData(partition=0)]
    )
    request = state_deletes.DeleteShareGroupStateRequest(group_id=group, topics=[gone])
    answer = world.ask(request, state_deletes.DeleteShareGroupStateResponse, 0)
    assert answer.results[0].partitions[0].error_code == 0
    assert read() == E.INVALID_REQUEST


def _id64(topic_id: UUID) -> str:
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
