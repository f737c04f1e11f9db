"""Every message in every version: what is written is read again, and null only where it may be."""

from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.wire.codec import (
    DecodeError,
    EncodeError,
    decode,
    decode_prefix,
    encode,
    encode_parts,
)
from ottla.wire.message import Message, Part
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from ottla.wire.messages.fetch import FetchRequest, ReplicaState
from ottla.wire.messages.heartbeat import HeartbeatResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

from .every_message import (
    MESSAGE_VERSIONS,
    MESSAGES,
    as_in_version,
    filled,
    messages_of,
    versions_of,
)

SOME = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("cls", MESSAGES)
@SOME
@given(data=st.data())
def test_what_is_written_is_read_again(cls: type[Message], data: st.DataObject) -> None:
    message = data.draw(messages_of(cls))
    for version in versions_of(cls):
        expected = as_in_version(message, version)
        written = encode(expected, version)
        assert decode_prefix(cls, version, written) == (expected, len(written))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_can_be_read_at_any_position(
    kind: type[bytes] | type[bytearray] | type[memoryview],
) -> None:
    message = MetadataRequest(topics=[MetadataRequestTopic(name="a")])
    written = encode(message, 12)
    buffer = kind(b"before" + written + b"after")
    assert decode_prefix(MetadataRequest, 12, buffer, 6) == (message, 6 + len(written))


def test_what_was_read_stays_when_its_buffer_is_used_again() -> None:
    buffer = bytearray(encode(ApiVersionsRequest(client_software_name="name"), 3))
    message = decode(ApiVersionsRequest, 3, memoryview(buffer))
    buffer[:] = bytes(len(buffer))
    assert message.client_software_name == "name"


def test_fields_of_other_versions_are_left_out() -> None:
    full = MetadataResponse(throttle_time_ms=5, error_code=7, cluster_id="c")
    assert decode(MetadataResponse, 0, encode(full, 0)) == MetadataResponse()
    assert decode(MetadataResponse, 13, encode(full, 13)) == full


def test_null_and_empty_arrays_are_two_things() -> None:
    choices: tuple[list[MetadataRequestTopic] | None, ...] = (None, [])
    for topics in choices:
        message = MetadataRequest(topics=topics)
        for version in (1, 12):
            assert decode(MetadataRequest, version, encode(message, version)).topics == topics


def test_a_nullable_part_is_marked() -> None:
    without = DescribeTopicPartitionsRequest()
    cursor = Cursor(topic_name="t", partition_index=3)
    assert encode(without, 0)[-2:] == b"\xff\x00"
    at = DescribeTopicPartitionsRequest(cursor=cursor)
    assert encode(at, 0)[-9:] == b"\x01\x02t\x00\x00\x00\x03\x00\x00"
    assert decode(DescribeTopicPartitionsRequest, 0, encode(at, 0)).cursor == cursor


def test_tagged_fields_are_written_in_order_and_only_where_they_are_not_the_default() -> None:
    plain = encode(FetchRequest(), 15)
    assert plain[-1:] == b"\x00"
    tagged = FetchRequest(replica_state=ReplicaState(replica_id=1, replica_epoch=2), cluster_id="c")
    assert encode(tagged, 15) == plain[:-1] + (
        b"\x02" + b"\x00\x02\x02c" + b"\x01\x0d" + b"\0\0\0\x01" + bytes(7) + b"\x02" + b"\x00"
    )


def test_messages_read_from_tagged_fields_share_no_default() -> None:
    written = encode(FetchRequest(cluster_id="c"), 15)
    first, second = decode(FetchRequest, 15, written), decode(FetchRequest, 15, written)
    assert first.replica_state == ReplicaState()
    first.replica_state.replica_id = 9
    first.topics.append(first.topics)  # type: ignore[arg-type]  # any change will do
    assert (second.replica_state, second.topics) == (ReplicaState(), [])


def _parts(part: Part) -> list[Part]:
    found = [part]
    for field in part.FIELDS:
        value = getattr(part, field.name)
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, Part):
                found += _parts(inner)
    return found


@pytest.mark.parametrize("cls", MESSAGES)
def test_null_is_refused_where_a_version_cannot_say_it(cls: type[Message]) -> None:
    for version in versions_of(cls):
        message = filled(cls, version)
        encode(message, version)
        for part in _parts(message):
            for field in part.FIELDS:
                if not field.is_in(version) or field.is_nullable_in(version):
                    continue
                value = getattr(part, field.name)
                setattr(part, field.name, None)
                with pytest.raises(EncodeError):
                    encode(message, version)
                setattr(part, field.name, value)


@pytest.mark.parametrize(
    "message",
    [
        HeartbeatResponse(error_code=2**15),
        HeartbeatResponse(throttle_time_ms="1"),  # type: ignore[arg-type]  # what is tested
        ApiVersionsRequest(client_software_name="x" * 32768),
        ApiVersionsRequest(client_software_name="\ud800"),
    ],
)
def test_values_that_do_not_fit_are_refused(message: Message) -> None:
    with pytest.raises(EncodeError):
        encode(message, 4)


def test_the_longest_string_passes() -> None:
    message = ApiVersionsRequest(client_software_name="x" * 32767)
    assert decode(ApiVersionsRequest, 3, encode(message, 3)) == message


@pytest.mark.parametrize("version", [-1, 14])
def test_a_version_that_does_not_exist_is_refused(version: int) -> None:
    with pytest.raises(EncodeError, match="no version"):
        encode(MetadataRequest(), version)
    with pytest.raises(DecodeError, match="no version"):
        decode(MetadataRequest, version, b"")


def test_ids_are_read_as_uuids() -> None:
    message = MetadataRequest(topics=[MetadataRequestTopic(topic_id=UUID(int=7), name=None)])
    assert decode(MetadataRequest, 12, encode(message, 12)) == message


def test_all_versions_are_covered() -> None:
    assert len(MESSAGES) == 152
    assert len(MESSAGE_VERSIONS) == 558


@pytest.mark.parametrize("cls", MESSAGES)
def test_the_parts_of_a_message_are_its_bytes(cls: type[Message]) -> None:
    for version in versions_of(cls):
        message = filled(cls, version)
        assert b"".join(encode_parts(message, version)) == encode(message, version)


@pytest.mark.parametrize("version", [3, 9, 13])
def test_large_records_are_not_copied(version: int) -> None:
    large, small = bytes(100_000), b"small"
    data = [PartitionProduceData(index=i, records=r) for i, r in enumerate((large, small, None))]
    message = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=data)])
    parts = encode_parts(message, version)
    assert parts[1] is large
    assert len(parts) == 3
    assert b"".join(parts) == encode(message, version)


@pytest.mark.parametrize("version", [3, 9, 13])
def test_no_part_of_a_message_is_empty(version: int) -> None:
    data = PartitionProduceData(records=bytes(100_000))
    message = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[data])])
    assert all(encode_parts(message, version))


@pytest.mark.parametrize("records", ["x" * 20_000, [1] * 20_000])
def test_large_records_that_are_no_bytes_are_refused(records: object) -> None:
    data = PartitionProduceData(records=records)  # type: ignore[arg-type]  # what is tested
    message = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[data])])
    with pytest.raises(EncodeError):
        encode_parts(message, 9)
