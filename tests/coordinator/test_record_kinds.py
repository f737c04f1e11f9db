"""Records of `__consumer_offsets`: Kafka's bytes are read, and the same are written."""

import json
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.classic.schemas import (
    CLASSIC_GROUP_VALUE_VERSION,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from ottla.coordinator.consumer.schemas import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    TargetTopicPartitions,
    TopicMetadata,
)
from ottla.coordinator.group_shard import GroupShard
from ottla.coordinator.offsets.records import (
    OFFSET_VALUE_VERSION,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.coordinator.record_codec import (
    ParsedRecord,
    write_offset,
    write_record,
    write_tombstone,
)
from ottla.coordinator.record_keys import RecordKey
from ottla.coordinator.record_kinds import RECORD_KINDS, read_record
from ottla.coordinator.shard import CoordinatorRecord, UnknownRecordError
from ottla.wire.codec import DecodeError
from ottla.wire.message import NO_UUID, Message
from ottla.wire.messages.list_groups import ListGroupsRequest

from .groups_world import Topics, World, answer, context

TOPIC = UUID("e192667e-acda-4935-8548-5c81fedc5472")


def read_again(record: CoordinatorRecord) -> tuple[RecordKey, Message | None]:
    parsed = read_record(CoordinatorRecord(record.key, record.value))
    return parsed.key, parsed.value


RECORDS: list[tuple[Message, Message, int]] = [
    (
        OffsetCommitKey(group="g", topic="t", partition=3),
        OffsetCommitValue(offset=7, leader_epoch=2, metadata="m", commit_timestamp=9),
        3,
    ),
    (
        OffsetCommitKey(group="g", topic="t", partition=3),
        OffsetCommitValue(offset=7, metadata="m", commit_timestamp=9, expire_timestamp=11),
        1,
    ),
    (
        OffsetCommitKey(group="g", topic="t", partition=3),
        OffsetCommitValue(offset=7, leader_epoch=2, commit_timestamp=9, topic_id=TOPIC),
        4,
    ),
    (
        GroupMetadataKey(group="g"),
        GroupMetadataValue(
            protocol_type="consumer",
            generation=3,
            protocol="range",
            leader="m",
            current_state_timestamp=5,
            members=[MemberMetadata(member_id="m", group_instance_id="i", assignment=b"x")],
        ),
        3,
    ),
    (ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=2), 0),
    (
        ConsumerGroupMetadataKey(group_id="g"),
        ConsumerGroupMetadataValue(epoch=2, metadata_hash=-5),
        0,
    ),
    (
        ConsumerGroupPartitionMetadataKey(group_id="g"),
        ConsumerGroupPartitionMetadataValue(topics=[TopicMetadata(topic_id=TOPIC)]),
        0,
    ),
    (
        ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
        ConsumerGroupMemberMetadataValue(
            client_id="c",
            classic_member_metadata=ClassicMemberMetadata(
                session_timeout_ms=6000,
                supported_protocols=[ClassicProtocol(name="range", metadata=b"\x00\x01")],
            ),
        ),
        0,
    ),
    (
        ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
        ConsumerGroupMemberMetadataValue(subscribed_topic_names=["a"], server_assignor="range"),
        0,
    ),
    (
        ConsumerGroupTargetAssignmentMetadataKey(group_id="g"),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=4, assignment_timestamp=5),
        0,
    ),
    (
        ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="m"),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[TargetTopicPartitions(topic_id=TOPIC, partitions=[0, 2])]
        ),
        0,
    ),
    (
        ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=4,
            previous_member_epoch=3,
            state=1,
            assigned_partitions=[
                CurrentTopicPartitions(topic_id=TOPIC, partitions=[1], assignment_epochs=[3])
            ],
        ),
        0,
    ),
    (
        ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="a.*"),
        ConsumerGroupRegularExpressionValue(topics=["ab"], version=5, timestamp=6),
        0,
    ),
]


@pytest.mark.parametrize(("key", "value", "version"), RECORDS)
def test_what_is_written_is_read_again(key: RecordKey, value: Message, version: int) -> None:
    record = write_record(key, value, version)
    assert read_again(record) == (key, value)
    assert record.parsed == ParsedRecord(key, value)


@pytest.mark.parametrize("key", [key for key, _, _ in RECORDS])
def test_a_tombstone_names_its_key(key: RecordKey) -> None:
    assert read_again(write_tombstone(key)) == (key, None)


KAFKA_LOG: list[tuple[str, str | None]] = json.loads(
    (Path(__file__).parent / "groups_kafka_log.json").read_text()
)
"""A group's life as Apache Kafka 4.3.0 wrote it: a classic member, its upgrade by a member with the
consumer protocol and a pattern, their end, and the group's deletion."""


def kafka_record(number: int) -> CoordinatorRecord:
    key, value = KAFKA_LOG[number]
    return CoordinatorRecord(bytes.fromhex(key), None if value is None else bytes.fromhex(value))


@pytest.mark.parametrize("number", range(len(KAFKA_LOG)))
def test_kafkas_bytes_are_written_as_they_were_read(number: int) -> None:
    record = kafka_record(number)
    key, value = read_again(record)
    if value is None:
        written = write_tombstone(key)
    else:
        version = CLASSIC_GROUP_VALUE_VERSION if isinstance(value, GroupMetadataValue) else 0
        written = write_record(key, value, version)
    expected = record.value
    if isinstance(value, ConsumerGroupMemberMetadataValue) and expected is not None:
        # Kafka says that a member is not classic by a tagged null; nothing says the same.
        expected = expected.replace(b"\x01\x00\x01\x00", b"\x00")
    assert (written.key, written.value) == (record.key, expected)


def test_kafkas_log_is_loaded() -> None:
    world = World(topics=Topics())
    shard = GroupShard(world.config, world.topics, world.topics.matching, lambda: "")
    for number in range(22):
        shard.replay(kafka_record(number))
    (group,) = answer(shard.handle_consumer_group_describe(["gtest-e8b763"], context(1), 0))
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 3, 3)
    assert [(member.member_epoch, member.member_type) for member in group.members] == [
        (3, 0),
        (3, 1),
    ]
    for number in range(22, len(KAFKA_LOG)):
        shard.replay(kafka_record(number))
    assert shard.handle_list_groups(ListGroupsRequest(), context(5), 0).reply == []


UNUSED = CoordinatorRecord(b"\x00\x12\x00\x01g", b"\x00\x00\x00")
NEWER_OFFSET = CoordinatorRecord(b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00", b"\x00\x05")


def test_a_type_or_version_that_nobody_knows_is_skipped_and_counted() -> None:
    shard = World().shard
    for record in (UNUSED, NEWER_OFFSET, UNUSED):
        with pytest.raises(UnknownRecordError):
            read_record(record)
        shard.replay(record)
    assert shard.skipped == {"record type 18": 2, "version 5 of record type 1": 1}
    assert shard.handle_list_groups(ListGroupsRequest(), context(5), 0).reply == []


def test_the_numbers_of_records_are_kafkas() -> None:
    assert {number: kind.key.__name__ for number, kind in RECORD_KINDS.items()} == {
        0: "LegacyOffsetCommitKey",
        1: "OffsetCommitKey",
        2: "GroupMetadataKey",
        3: "ConsumerGroupMetadataKey",
        4: "ConsumerGroupPartitionMetadataKey",
        5: "ConsumerGroupMemberMetadataKey",
        6: "ConsumerGroupTargetAssignmentMetadataKey",
        7: "ConsumerGroupTargetAssignmentMemberKey",
        8: "ConsumerGroupCurrentMemberAssignmentKey",
        10: "ShareGroupMemberMetadataKey",
        11: "ShareGroupMetadataKey",
        12: "ShareGroupTargetAssignmentMetadataKey",
        13: "ShareGroupTargetAssignmentMemberKey",
        14: "ShareGroupCurrentMemberAssignmentKey",
        15: "ShareGroupStatePartitionMetadataKey",
        16: "ConsumerGroupRegularExpressionKey",
        17: "StreamsGroupMetadataKey",
        19: "StreamsGroupMemberMetadataKey",
        20: "StreamsGroupTargetAssignmentMetadataKey",
        21: "StreamsGroupTargetAssignmentMemberKey",
        22: "StreamsGroupCurrentMemberAssignmentKey",
        23: "StreamsGroupTopologyKey",
    }


def test_the_oldest_key_of_offsets_is_read() -> None:
    key, value = read_again(
        CoordinatorRecord(
            b"\x00\x00\x00\x01g\x00\x01t\x00\x00\x00\x03",
            b"\x00\x00" + (7).to_bytes(8, "big") + b"\x00\x01m" + (9).to_bytes(8, "big"),
        )
    )
    assert key == LegacyOffsetCommitKey(group="g", topic="t", partition=3)
    assert value == OffsetCommitValue(offset=7, metadata="m", commit_timestamp=9)


def test_a_record_without_a_kind_is_no_record() -> None:
    with pytest.raises(DecodeError):
        read_record(CoordinatorRecord(b"\x00", None))


@given(st.binary(max_size=40), st.none() | st.binary(max_size=60), st.sampled_from(range(9)))
def test_hostile_bytes_raise_decode_error_or_nothing(
    key: bytes, value: bytes | None, kind: int
) -> None:
    try:
        read_record(CoordinatorRecord(bytes([0, kind]) + key, value))
    except (DecodeError, UnknownRecordError):
        pass


@given(
    st.builds(
        OffsetCommitKey,
        group=st.text(max_size=50),
        topic=st.text(max_size=250),
        partition=st.integers(-(2**31), 2**31 - 1),
    ),
    st.builds(
        OffsetCommitValue,
        offset=st.integers(-(2**63), 2**63 - 1),
        leader_epoch=st.integers(-(2**31), 2**31 - 1),
        metadata=st.text(max_size=200),
        commit_timestamp=st.integers(-(2**63), 2**63 - 1),
        topic_id=st.one_of(st.just(NO_UUID), st.uuids()),
    ),
)
def test_an_offset_written_by_hand_is_as_the_codec_writes_it(
    key: OffsetCommitKey, value: OffsetCommitValue
) -> None:
    assert write_offset(key, value) == write_record(key, value, OFFSET_VALUE_VERSION)


@pytest.mark.parametrize("length", [0, 1, 125, 126, 127, 128, 300, 32_767])
def test_metadata_of_any_length_is_written(length: int) -> None:
    key, value = OffsetCommitKey(group="g", topic="t"), OffsetCommitValue(metadata="m" * length)
    assert write_offset(key, value) == write_record(key, value, OFFSET_VALUE_VERSION)
    assert read_again(write_offset(key, value)) == (key, value)
