"""ConsumerGroupHeartbeat (KIP-848) on the wire: assignments by the broker, and what it refuses."""

from collections.abc import Callable
from uuid import UUID, uuid4

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from testkit.raw import Connection
from tests.e2e.asking_groups import (
    SESSION_MS,
    Joined,
    commit,
    committed,
    consumer_heartbeat,
    coordinated,
    describe_group,
    fetch_offset,
    heartbeat,
    join,
    join_alone,
    join_consumer_group,
    join_request,
)
from tests.e2e.conftest import Topics, describe

LEAVING = -1
LEAVING_FOR_NOW = -2


@pytest.fixture
def group(connection: Connection, new_name: Callable[[], str]) -> str:
    return coordinated(connection, new_name())


def new_member() -> str:
    return str(uuid4())


def owned(answer: ConsumerGroupHeartbeatResponse) -> dict[UUID, list[int]]:
    """The partitions that a heartbeat's answer gives, each topic's in order."""
    assert answer.assignment is not None
    return {part.topic_id: sorted(part.partitions) for part in answer.assignment.topic_partitions}


def described(connection: Connection, group: str) -> DescribedGroup:
    request = ConsumerGroupDescribeRequest(group_ids=[group])
    return connection.ask(request, ConsumerGroupDescribeResponse, 1).groups[0]


def given(
    connection: Connection, group: str, member_id: str, answer: ConsumerGroupHeartbeatResponse
) -> ConsumerGroupHeartbeatResponse:
    """Heartbeats of a member that has nothing, until it has been given something."""
    while answer.assignment is None or not answer.assignment.topic_partitions:
        assert answer.error_code == 0, answer.error_message
        epoch = answer.member_epoch
        answer = consumer_heartbeat(connection, group, member_id, epoch, owned=[])
    return answer


# What works


def test_the_broker_divides_the_partitions(
    connection: Connection, group: str, new_topic: Topics
) -> None:
    topic = new_topic(4)
    topic_id = describe(connection, topic).topic_id
    first, second = new_member(), new_member()
    alone = given(connection, group, first, join_consumer_group(connection, group, first, [topic]))
    assert owned(alone) == {topic_id: [0, 1, 2, 3]}
    newcomer = join_consumer_group(connection, group, second, [topic])
    assert newcomer.error_code == 0
    asked = alone
    has = owned(alone)[topic_id]
    while len(has) == 4:
        parts = [TopicPartitions(topic_id=topic_id, partitions=has)]
        asked = consumer_heartbeat(connection, group, first, asked.member_epoch, owned=parts)
        assert asked.error_code == 0
        has = owned(asked).get(topic_id, []) if asked.assignment is not None else has
    assert len(has) == 2
    parts = [TopicPartitions(topic_id=topic_id, partitions=has)]
    consumer_heartbeat(connection, group, first, asked.member_epoch, owned=parts)
    others = owned(given(connection, group, second, newcomer))[topic_id]
    assert sorted(has + others) == [0, 1, 2, 3]


def test_a_pattern_subscribes_to_the_topics_it_matches(
    connection: Connection, group: str, new_topic: Topics
) -> None:
    topic = new_topic()
    member = new_member()
    answer = consumer_heartbeat(
        connection, group, member, 0, regex=f"{topic[:-1]}.", rebalance_ms=SESSION_MS, owned=[]
    )
    assert list(owned(given(connection, group, member, answer)).values()) == [[0]]


def test_the_last_member_to_leave_leaves_it_empty(
    connection: Connection, group: str, topic: str
) -> None:
    member = new_member()
    join_consumer_group(connection, group, member, [topic])
    assert described(connection, group).members[0].member_id == member
    assert consumer_heartbeat(connection, group, member, LEAVING).error_code == 0
    assert described(connection, group).group_state == "Empty"


def test_members_commit_with_their_epoch(connection: Connection, group: str, topic: str) -> None:
    member = new_member()
    epoch = join_consumer_group(connection, group, member, [topic]).member_epoch
    assert commit(connection, group, topic, 9, member=Joined(member, epoch)) == 0
    assert committed(connection, group, topic) == 9


# What is refused

WRONG: dict[str, tuple[str | None, Callable[[Connection, str], ConsumerGroupHeartbeatResponse]]] = {
    "no member id": (
        "MemberId can't be empty.",
        lambda asking, group: join_consumer_group(asking, group, "", ["a"]),
    ),
    "no group id": (
        "GroupId can't be empty.",
        lambda asking, _: join_consumer_group(asking, "", new_member(), ["a"]),
    ),
    "blank group id": (
        "GroupId can't be empty.",
        lambda asking, _: join_consumer_group(asking, "  ", new_member(), ["a"]),
    ),
    "empty instance id": (
        "InstanceId can't be empty.",
        lambda asking, group: join_consumer_group(asking, group, new_member(), ["a"], ""),
    ),
    "no rebalance timeout": (
        "RebalanceTimeoutMs must be provided in first request.",
        lambda asking, group: consumer_heartbeat(
            asking, group, new_member(), 0, topics=["a"], owned=[]
        ),
    ),
    "no subscription": (
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        lambda asking, group: consumer_heartbeat(
            asking, group, new_member(), 0, rebalance_ms=SESSION_MS, owned=[]
        ),
    ),
    "no owned partitions": (
        "TopicPartitions must be empty when (re-)joining.",
        lambda asking, group: consumer_heartbeat(
            asking, group, new_member(), 0, topics=["a"], rebalance_ms=SESSION_MS
        ),
    ),
    "epoch below -2": (
        "MemberEpoch is invalid.",
        lambda asking, group: consumer_heartbeat(asking, group, new_member(), -3),
    ),
    "leaving for now without an instance id": (
        "InstanceId can't be null.",
        lambda asking, group: consumer_heartbeat(asking, group, new_member(), LEAVING_FOR_NOW),
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_heartbeat_is_explained(connection: Connection, group: str, what: str) -> None:
    message, ask = WRONG[what]
    answer = ask(connection, group)
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, message)


def test_an_unknown_assignor_is_refused(connection: Connection, group: str, topic: str) -> None:
    answer = consumer_heartbeat(
        connection,
        group,
        new_member(),
        0,
        topics=[topic],
        assignor="no-such",
        rebalance_ms=SESSION_MS,
        owned=[],
    )
    assert answer.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR


def test_a_broken_pattern_is_refused(connection: Connection, group: str) -> None:
    answer = consumer_heartbeat(
        connection, group, new_member(), 0, regex="(", rebalance_ms=SESSION_MS, owned=[]
    )
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_there_is_no_epoch_without_a_group(connection: Connection, group: str) -> None:
    answer = consumer_heartbeat(connection, group, new_member(), 1, owned=[])
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert consumer_heartbeat(connection, group, new_member(), LEAVING).error_code == (
        ErrorCode.GROUP_ID_NOT_FOUND
    )


def test_a_stranger_must_join(connection: Connection, group: str, topic: str) -> None:
    join_consumer_group(connection, group, new_member(), [topic])
    for epoch in (1, LEAVING):
        answer = consumer_heartbeat(connection, group, new_member(), epoch, owned=[])
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("step", [-1, 1])
def test_another_epoch_is_fenced(connection: Connection, group: str, topic: str, step: int) -> None:
    member = new_member()
    answer = join_consumer_group(connection, group, member, [topic])
    not_owned = TopicPartitions(topic_id=describe(connection, topic).topic_id, partitions=[7])
    epoch = answer.member_epoch + step
    refused = consumer_heartbeat(connection, group, member, epoch, owned=[not_owned])
    assert refused.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    right = consumer_heartbeat(connection, group, member, answer.member_epoch, owned=[])
    assert (right.error_code, right.member_epoch) == (0, answer.member_epoch)


def test_an_instance_id_has_one_owner(connection: Connection, group: str, topic: str) -> None:
    first, second = new_member(), new_member()
    epoch = join_consumer_group(connection, group, first, [topic], "static").member_epoch
    taken = join_consumer_group(connection, group, second, [topic], "static")
    assert taken.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    left = consumer_heartbeat(connection, group, first, LEAVING_FOR_NOW, instance_id="static")
    assert (left.error_code, left.member_epoch) == (0, LEAVING_FOR_NOW)
    again = join_consumer_group(connection, group, second, [topic], "static")
    assert (again.error_code, again.member_epoch) == (0, epoch)
    late = consumer_heartbeat(connection, group, first, epoch, instance_id="static", owned=[])
    assert late.error_code == ErrorCode.FENCED_INSTANCE_ID


def test_an_unknown_instance_id_is_a_stranger(
    connection: Connection, group: str, topic: str
) -> None:
    member = new_member()
    epoch = join_consumer_group(connection, group, member, [topic]).member_epoch
    answer = consumer_heartbeat(connection, group, member, epoch, instance_id="other", owned=[])
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_stale_epochs_neither_commit_nor_fetch(
    connection: Connection, group: str, topic: str
) -> None:
    member = new_member()
    epoch = join_consumer_group(connection, group, member, [topic]).member_epoch
    stale = ErrorCode.STALE_MEMBER_EPOCH
    assert commit(connection, group, topic, 1, member=Joined(member, epoch + 1)) == stale
    error, _ = fetch_offset(connection, group, topic, member_id=member, member_epoch=epoch + 1)
    assert error == stale
    stranger = Joined(new_member(), epoch)
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(connection, group, topic, 1, member=stranger) == unknown
    error, _ = fetch_offset(
        connection, group, topic, member_id=stranger.member_id, member_epoch=epoch
    )
    assert error == unknown
    assert commit(connection, group, topic, 1) == unknown
    assert committed(connection, group, topic) == -1


def test_members_commit_with_a_version_that_knows_epochs(
    connection: Connection, group: str, topic: str
) -> None:
    member = new_member()
    epoch = join_consumer_group(connection, group, member, [topic]).member_epoch
    code = commit(connection, group, topic, 1, member=Joined(member, epoch), version=8)
    assert code == ErrorCode.UNSUPPORTED_VERSION


# Both protocols


def test_classic_requests_to_a_consumer_group(
    connection: Connection, group: str, topic: str
) -> None:
    member = new_member()
    epoch = join_consumer_group(connection, group, member, [topic]).member_epoch
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert heartbeat(connection, group, Joined(member, epoch)) == unknown
    other = join_request(group, protocol_type="connect")
    assert join(connection, other).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    answer = describe_group(connection, group)
    assert (answer.error_code, answer.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")


def test_a_classic_group_is_not_described_as_a_consumer_group(
    connection: Connection, group: str
) -> None:
    join_alone(connection, group)
    assert described(connection, group).error_code == ErrorCode.GROUP_ID_NOT_FOUND
