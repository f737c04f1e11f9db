"""The hand-written Fetch codec against the generated one."""

from typing import NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire import codec
from ottla.wire import fetch as by_hand
from ottla.wire.fetch import PartitionData
from ottla.wire.fields import DecodeError
from ottla.wire.messages import fetch as generated
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.produce import NodeEndpoint, TopicKey

VERSIONS = range(by_hand.FIRST_VERSION, by_hand.LAST_VERSION + 1)
int8 = st.integers(-(2**7), 2**7 - 1)
int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)

partitions = st.builds(
    generated.FetchPartition,
    partition=int32,
    current_leader_epoch=int32,
    fetch_offset=int64,
    last_fetched_epoch=int32,
    log_start_offset=int64,
    partition_max_bytes=int32,
)
topics = st.builds(
    generated.FetchTopic,
    topic=st.text(max_size=20),
    topic_id=st.uuids(),
    partitions=st.lists(partitions, max_size=3),
)
forgotten = st.builds(
    generated.ForgottenTopic,
    topic=st.text(max_size=20),
    topic_id=st.uuids(),
    partitions=st.lists(int32, max_size=3),
)
requests = st.builds(
    FetchRequest,
    cluster_id=st.none() | st.text(max_size=5),
    replica_id=int32,
    replica_state=st.builds(generated.ReplicaState, replica_id=int32, replica_epoch=int64),
    max_wait_ms=int32,
    min_bytes=int32,
    max_bytes=int32,
    isolation_level=int8,
    session_id=int32,
    session_epoch=int32,
    topics=st.lists(topics, max_size=3),
    forgotten_topics_data=st.lists(forgotten, max_size=3),
    rack_id=st.text(max_size=5),
)


@given(requests, st.sampled_from(VERSIONS))
def test_a_request_reads_as_the_generated_codec_wrote_it(
    request: FetchRequest, version: int
) -> None:
    data = codec.encode(request, version)
    read = by_hand.read_request(memoryview(data), 0, version)
    again, _ = codec.decode_prefix(FetchRequest, version, data)
    assert read.max_wait_ms == again.max_wait_ms
    assert (read.min_bytes, read.max_bytes, read.isolation_level) == (
        again.min_bytes,
        again.max_bytes,
        again.isolation_level,
    )
    assert (read.session_id, read.session_epoch) == (again.session_id, again.session_epoch)
    assert (read.rack_id, read.cluster_id) == (again.rack_id, again.cluster_id)
    replica = again.replica_state.replica_id if version >= 15 else again.replica_id
    assert read.replica_id == replica
    assert [(topic, [tuple(part) for part in parts]) for topic, parts in read.topics] == [
        (
            topic.topic_id.bytes if version >= 13 else topic.topic,
            [
                (
                    part.partition,
                    part.current_leader_epoch,
                    part.fetch_offset,
                    part.last_fetched_epoch,
                    part.log_start_offset,
                    part.partition_max_bytes,
                )
                for part in topic.partitions
            ],
        )
        for topic in again.topics
    ]
    assert read.forgotten == [
        (topic.topic_id.bytes if version >= 13 else topic.topic, topic.partitions)
        for topic in again.forgotten_topics_data
    ]


@given(requests, st.sampled_from(VERSIONS), st.data())
def test_a_truncated_request_raises_decode_error(
    request: FetchRequest, version: int, data: st.DataObject
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


class Stretch(NamedTuple):
    content: bytes

    @property
    def size(self) -> int:
        return len(self.content)


results = st.builds(
    PartitionData,
    int32,
    int16,
    int64,
    int64,
    int64,
    st.none() | st.lists(st.tuples(int64, int64), max_size=3),
    st.none() | st.builds(Stretch, st.binary(min_size=1, max_size=300)),
    st.none() | st.tuples(int32, int64),
    st.none() | st.tuples(int32, int32),
    int32,
)


@given(
    st.lists(
        st.tuples(st.text(max_size=10), st.uuids(), st.lists(results, max_size=3)), max_size=3
    ),
    st.lists(
        st.builds(NodeEndpoint, int32, st.text(max_size=9), int32, st.none() | st.text(max_size=5)),
        max_size=3,
    ),
    st.sampled_from(VERSIONS),
)
def test_a_response_is_what_the_generated_codec_reads(
    answers: list[tuple[str, UUID, list[PartitionData]]], nodes: list[NodeEndpoint], version: int
) -> None:
    keyed: list[tuple[TopicKey, list[PartitionData]]] = [
        (topic_id.bytes if version >= 13 else name, data) for name, topic_id, data in answers
    ]
    parts = by_hand.response(
        version, keyed, error_code=7, session_id=8, throttle_time_ms=9, endpoints=nodes
    )
    whole = b"".join(part.content if isinstance(part, Stretch) else bytes(part) for part in parts)  # type: ignore[arg-type]  # all that is not a Stretch here is bytes
    read, end = codec.decode_prefix(FetchResponse, version, whole)
    assert end == len(whole)
    assert read.throttle_time_ms == 9
    if version >= 7:
        assert (read.error_code, read.session_id) == (7, 8)
    flat = [data for _, results in keyed for data in results]
    told = [part for topic in read.responses for part in topic.partitions]
    assert [
        (part.partition_index, part.error_code, part.high_watermark, part.last_stable_offset)
        for part in told
    ] == [tuple(data[:4]) for data in flat]
    assert [part.records or b"" for part in told] == [
        b"" if data.records is None else data.records.content  # type: ignore[union-attr]  # a Stretch
        for data in flat
    ]
    assert [
        None
        if part.aborted_transactions is None
        else [(entry.producer_id, entry.first_offset) for entry in part.aborted_transactions]
        for part in told
    ] == [data.aborted for data in flat]
    if version >= 12:
        assert [(p.diverging_epoch.epoch, p.diverging_epoch.end_offset) for p in told] == [
            data.diverging or (-1, -1) for data in flat
        ]
        assert [(p.current_leader.leader_id, p.current_leader.leader_epoch) for p in told] == [
            data.leader or (-1, -1) for data in flat
        ]
    if version >= 16:
        assert [node.host for node in read.node_endpoints] == [node.host for node in nodes]
