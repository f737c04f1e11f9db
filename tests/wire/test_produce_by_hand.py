"""The hand-written Produce codec against the generated one."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire import codec
from ottla.wire import produce as by_hand
from ottla.wire.fields import DecodeError
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.produce import NodeEndpoint, PartitionResult, TopicKey

VERSIONS = range(by_hand.FIRST_VERSION, by_hand.LAST_VERSION + 1)
int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)

partitions = st.builds(
    PartitionProduceData, index=int32, records=st.none() | st.binary(max_size=300)
)
topics = st.builds(
    TopicProduceData,
    name=st.text(max_size=20),
    topic_id=st.uuids(),
    partition_data=st.lists(partitions, max_size=3),
)
requests = st.builds(
    ProduceRequest,
    transactional_id=st.none() | st.text(max_size=10),
    acks=int16,
    timeout_ms=int32,
    topic_data=st.lists(topics, max_size=3),
)


@given(requests, st.sampled_from(VERSIONS))
def test_a_request_reads_as_the_generated_codec_wrote_it(
    request: ProduceRequest, version: int
) -> None:
    data = codec.encode(request, version)
    read = by_hand.read_request(memoryview(data), 0, version)
    assert (read.transactional_id, read.acks, read.timeout_ms) == (
        request.transactional_id,
        request.acks,
        request.timeout_ms,
    )
    assert [
        (topic, [(index, None if view is None else bytes(view)) for index, view in batches])
        for topic, batches in read.topics
    ] == [
        (
            topic.topic_id.bytes if version >= 13 else topic.name,
            [(partition.index, partition.records) for partition in topic.partition_data],
        )
        for topic in request.topic_data
    ]


@given(requests, st.sampled_from(VERSIONS), st.data())
def test_a_truncated_request_raises_decode_error(
    request: ProduceRequest, version: int, data: st.DataObject
) -> None:
    whole = codec.encode(request, version)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(DecodeError):
        by_hand.read_request(memoryview(whole[:cut]), 0, version)


@given(st.binary(max_size=200), st.sampled_from(VERSIONS))
def test_any_bytes_are_read_or_raise_decode_error(data: bytes, version: int) -> None:
    try:
        by_hand.read_request(memoryview(data), 0, version)
    except DecodeError:
        pass


results = st.builds(
    PartitionResult,
    int32,
    int16,
    int64,
    int64,
    int64,
    st.none() | st.text(max_size=10),
    st.none() | st.tuples(int32, int32),
    st.lists(st.tuples(int32, st.none() | st.text(max_size=5)), max_size=3),
)
endpoints = st.builds(
    NodeEndpoint, int32, st.text(max_size=60), int32, st.none() | st.text(max_size=5)
)


@given(
    st.lists(
        st.tuples(st.text(max_size=10), st.uuids(), st.lists(results, max_size=3)), max_size=3
    ),
    st.lists(endpoints, max_size=4),
    int32,
    st.sampled_from(VERSIONS),
)
def test_a_response_is_what_the_generated_codec_reads(
    answers: list[tuple[str, UUID, list[PartitionResult]]],
    nodes: list[NodeEndpoint],
    throttle: int,
    version: int,
) -> None:
    keyed: list[tuple[TopicKey, list[PartitionResult]]] = [
        (topic_id.bytes if version >= 13 else name, partitions)
        for name, topic_id, partitions in answers
    ]
    data = by_hand.response(version, keyed, throttle, nodes)
    read, end = codec.decode_prefix(ProduceResponse, version, data)
    assert end == len(data)
    assert read.throttle_time_ms == throttle
    assert codec.encode(read, version) == data
    assert [topic.topic_id.bytes if version >= 13 else topic.name for topic in read.responses] == [
        key for key, _ in keyed
    ]
    flat = [result for _, partitions in keyed for result in partitions]
    assert [
        (partition.index, partition.error_code, partition.base_offset)
        for topic in read.responses
        for partition in topic.partition_responses
    ] == [(result.partition, result.error_code, result.base_offset) for result in flat]
    if version >= 8:
        assert [
            [
                (error.batch_index, error.batch_index_error_message)
                for error in partition.record_errors
            ]
            for topic in read.responses
            for partition in topic.partition_responses
        ] == [result.record_errors for result in flat]
    if version >= 10:
        assert [node.host for node in read.node_endpoints] == [node.host for node in nodes]
        assert [
            (partition.current_leader.leader_id, partition.current_leader.leader_epoch)
            for topic in read.responses
            for partition in topic.partition_responses
        ] == [result.leader or (-1, -1) for result in flat]


@given(int32, int64, int64, int64, st.text(max_size=300), st.uuids(), st.sampled_from(VERSIONS))
def test_the_short_way_to_answer_says_the_same_as_the_long_one(
    partition: int, base: int, appended: int, start: int, name: str, topic_id: UUID, version: int
) -> None:
    topic: TopicKey = topic_id.bytes if version >= 13 else name
    result = PartitionResult(partition, 0, base, appended, start)
    short = by_hand.one_success(version, topic, partition, base, appended, start)
    assert short == by_hand.response(version, [(topic, [result])])
