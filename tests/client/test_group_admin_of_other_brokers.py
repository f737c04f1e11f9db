"""What brokers older than ours, and groups that are not of consumers, answer."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from struct import pack

import pytest

from ottla.client import Client, TopicPartition
from ottla.client.group_admin import CommittedOffset, GroupAdmin, UnknownGroup
from ottla.wire.codec import encode
from ottla.wire.message import Message
from ottla.wire.messages import consumer_protocol_assignment as protocol
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

from .fake_broker import FakeBroker

ASSIGNED = pack(">h", 1) + encode(
    protocol.ConsumerProtocolAssignment(
        assigned_partitions=[protocol.TopicPartition(topic="t", partitions=[1, 0])]
    ),
    1,
)


def coordinator(request: Message) -> Message:
    return FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=1)])


@contextmanager
def groups_of(
    handlers: Mapping[type[Message], Callable[[Message], Message]],
    newest: Mapping[type[Message], int] | None = None,
) -> Iterator[GroupAdmin]:
    """An admin of a broker that serves only these requests, in versions up to `newest`."""
    with FakeBroker({FindCoordinatorRequest: coordinator, **handlers}) as broker:
        versions = broker.versions()
        for kind, version in (newest or {}).items():
            for item in versions.api_keys:
                if item.api_key == kind.API_KEY:
                    item.max_version = version
        broker.answer(ApiVersionsRequest, lambda _: versions)
        with Client(broker.address) as client:
            yield GroupAdmin(client)


def described(**fields: str | list[DescribedGroupMember]) -> Callable[[Message], Message]:
    group = DescribedGroup(group_id="g")
    for name, value in fields.items():
        setattr(group, name, value)
    return lambda _: DescribeGroupsResponse(groups=[group])


def test_a_broker_without_the_consumer_protocol_describes_classic_groups() -> None:
    member = DescribedGroupMember(member_id="m", member_assignment=ASSIGNED)
    handler = described(group_state="Stable", protocol_type="consumer", members=[member])
    with groups_of({DescribeGroupsRequest: handler}) as groups:
        (found,) = groups.describe_group("g").members
    assert found.assignment == [TopicPartition("t", 0), TopicPartition("t", 1)]


def test_a_group_that_an_older_broker_calls_dead_is_not_there() -> None:
    with (
        groups_of({DescribeGroupsRequest: described(group_state="Dead")}) as groups,
        pytest.raises(UnknownGroup),
    ):
        groups.describe_group("g")


@pytest.mark.parametrize(
    ("protocol_type", "assigned"),
    [("connect", ASSIGNED), ("consumer", b""), ("consumer", b"\xff\xff"), ("consumer", b"\0\0\7")],
    ids=["another protocol", "nothing", "no version", "cut short"],
)
def test_what_is_no_assignment_of_a_consumer_is_none(protocol_type: str, assigned: bytes) -> None:
    member = DescribedGroupMember(member_id="m", member_assignment=assigned)
    handler = described(group_state="Stable", protocol_type=protocol_type, members=[member])
    with groups_of({DescribeGroupsRequest: handler}) as groups:
        (found,) = groups.describe_group("g").members
    assert found.assignment == []


def test_offsets_of_a_broker_that_answers_for_one_group_at_a_time() -> None:
    partitions = [
        OffsetFetchResponsePartition(partition_index=0, committed_offset=5, metadata="mine"),
        OffsetFetchResponsePartition(partition_index=1, committed_offset=-1),
    ]
    reply = OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="t", partitions=partitions)])
    with groups_of({OffsetFetchRequest: lambda _: reply}, {OffsetFetchRequest: 7}) as groups:
        found = groups.committed_offsets("g")
    assert found == {TopicPartition("t", 0): CommittedOffset(5, -1, "mine")}
