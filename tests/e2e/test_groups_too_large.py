"""What does not fit into a batch of `__consumer_offsets` is refused, and nobody else notices."""

from collections.abc import Callable

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from testkit.raw import Connection
from tests.e2e.asking_groups import (
    Joined,
    commit,
    committed,
    coordinated,
    heartbeat,
    join,
    join_alone,
    join_request,
    sync,
)
from tests.e2e.asking_transactions import add_offsets, ended, new_transactional_producer

MANY = 400
LONG = "m" * 3000
"""So many of these are 1.2 MB."""
BYSTANDERS = 60
"""Enough groups that some share the partition, of 50, of the group that is refused."""


@pytest.fixture
def group(connection: Connection, new_name: Callable[[], str]) -> str:
    return coordinated(connection, new_name())


class Bystanders:
    """Groups that must not notice."""

    def __init__(self, connection: Connection, topic: str, names: list[str]) -> None:
        self._connection, self._topic = connection, topic
        self._members = {}
        for offset, name in enumerate(names):
            self._members[name] = join_alone(connection, coordinated(connection, name)), offset
            assert commit(connection, name, topic, offset, member=self._members[name][0]) == 0

    def check(self) -> None:
        for name, (member, offset) in self._members.items():
            assert heartbeat(self._connection, name, member) == 0
            assert committed(self._connection, name, self._topic) == offset


@pytest.fixture
def bystanders(connection: Connection, topic: str, new_name: Callable[[], str]) -> Bystanders:
    return Bystanders(connection, topic, [new_name() for _ in range(BYSTANDERS)])


def test_a_commit_is_refused_whole(
    connection: Connection, group: str, topic: str, bystanders: Bystanders
) -> None:
    member = join_alone(connection, group)
    assert commit(connection, group, topic, 5, member=member) == 0
    place = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=6, committed_metadata=LONG
    )
    nowhere = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        topics=[
            OffsetCommitRequestTopic(name=topic, partitions=[place] * MANY),
            OffsetCommitRequestTopic(name=f"no-{topic}", partitions=[nowhere]),
        ],
    )
    answers = connection.ask(request, OffsetCommitResponse, 9).topics
    codes = {part.name: {each.error_code for each in part.partitions} for part in answers}
    assert codes == {
        topic: {ErrorCode.UNKNOWN_SERVER_ERROR},
        f"no-{topic}": {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
    }
    assert committed(connection, group, topic) == 5
    assert heartbeat(connection, group, member) == 0
    assert commit(connection, group, topic, 8, member=member) == 0
    bystanders.check()


def test_a_commit_in_a_transaction_is_refused_whole(
    connection: Connection, group: str, topic: str, bystanders: Bystanders
) -> None:
    producer = new_transactional_producer(connection, group)
    assert add_offsets(connection, producer, group) == 0
    place = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=6, committed_metadata=LONG
    )
    request = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=group,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[place] * MANY)],
    )
    (answer,) = connection.ask(request, TxnOffsetCommitResponse, 3).topics
    assert {each.error_code for each in answer.partitions} == {ErrorCode.UNKNOWN_SERVER_ERROR}
    ended(connection, producer, commit=False)
    bystanders.check()


def test_an_assignment_is_refused_and_the_group_rebalances(
    connection: Connection, group: str, bystanders: Bystanders
) -> None:
    answer = join(connection, join_request(group))
    member = Joined(answer.member_id, answer.generation_id)
    given = sync(connection, group, member, [(member.member_id, b"a" * 1_200_000)])
    assert given.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert heartbeat(connection, group, member) == ErrorCode.REBALANCE_IN_PROGRESS
    again = join(connection, join_request(group, member.member_id))
    assert again.error_code == 0
    assert again.generation_id == member.generation + 1
    member = Joined(again.member_id, again.generation_id)
    assert sync(connection, group, member, [(member.member_id, b"small")]).assignment == b"small"
    bystanders.check()


def test_a_subscription_is_refused(
    connection: Connection, group: str, bystanders: Bystanders
) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="member",
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=[f"{number:0240}" for number in range(5000)],
        topic_partitions=[],
    )
    refused = connection.ask(request, ConsumerGroupHeartbeatResponse, 1)
    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    request.subscribed_topic_names = ["topic"]
    assert connection.ask(request, ConsumerGroupHeartbeatResponse, 1).error_code == 0
    bystanders.check()
