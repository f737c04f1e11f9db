"""The reader of Fetch responses, against the generated codec."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire import codec
from ottla.wire.fetch import FIRST_VERSION, FIRST_WITH_TOPIC_IDS, LAST_VERSION
from ottla.wire.fetch_answer import FetchAnswer, PartitionAnswer, read_answer
from ottla.wire.fields import DecodeError
from ottla.wire.messages import fetch as generated
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.produce import TopicKey

VERSIONS = range(FIRST_VERSION, LAST_VERSION + 1)
int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
epochs = st.just((-1, -1)) | st.tuples(int32, int64)

partitions = st.builds(
    generated.PartitionData,
    partition_index=int32,
    error_code=int16,
    high_watermark=int64,
    last_stable_offset=int64,
    log_start_offset=int64,
    diverging_epoch=epochs.map(
        lambda both: generated.EpochEndOffset(epoch=both[0], end_offset=both[1])
    ),
    current_leader=st.builds(generated.LeaderIdAndEpoch, leader_id=int32, leader_epoch=int32),
    aborted_transactions=st.none()
    | st.lists(
        st.builds(generated.AbortedTransaction, producer_id=int64, first_offset=int64), max_size=2
    ),
    preferred_read_replica=int32,
    records=st.none() | st.binary(max_size=300),
)
topics = st.builds(
    generated.FetchableTopicResponse,
    topic=st.text(max_size=20),
    topic_id=st.uuids(),
    partitions=st.lists(partitions, max_size=3),
)
responses = st.builds(
    FetchResponse,
    throttle_time_ms=int32,
    error_code=int16,
    session_id=int32,
    responses=st.lists(topics, max_size=3),
)


def expected(response: FetchResponse, version: int) -> FetchAnswer:
    found: list[tuple[TopicKey, list[PartitionAnswer]]] = []
    for topic in response.responses:
        answers = []
        for data in topic.partitions:
            parting = (data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            answers.append(
                PartitionAnswer(
                    data.partition_index,
                    data.error_code,
                    data.high_watermark,
                    data.log_start_offset,
                    None if parting == (-1, -1) else parting,
                    memoryview(data.records or b""),
                    data.last_stable_offset,
                    tuple(
                        (each.producer_id, each.first_offset)
                        for each in data.aborted_transactions or ()
                    ),
                )
            )
        by_id = version >= FIRST_WITH_TOPIC_IDS
        found.append((topic.topic_id.bytes if by_id else topic.topic, answers))
    return FetchAnswer(response.error_code, response.session_id, found)


@given(responses, st.sampled_from(VERSIONS))
def test_an_answer_reads_as_the_generated_codec_wrote_it(
    response: FetchResponse, version: int
) -> None:
    data = codec.encode(response, version)
    again, _ = codec.decode_prefix(FetchResponse, version, data)
    assert read_answer(memoryview(b"head" + data), 4, version) == expected(again, version)


@given(responses, st.sampled_from(VERSIONS), st.data())
def test_an_answer_that_ends_early_is_refused(
    response: FetchResponse, version: int, data: st.DataObject
) -> None:
    whole = codec.encode(response, version)
    end = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(DecodeError):
        read_answer(memoryview(whole)[:end], 0, version)


@given(st.binary(max_size=200), st.sampled_from(VERSIONS))
def test_bytes_that_are_no_answer_raise_nothing_else(data: bytes, version: int) -> None:
    try:
        read_answer(memoryview(data), 0, version)
    except DecodeError:
        pass


def test_records_are_not_copied() -> None:
    partition = generated.PartitionData(records=b"x" * 100)
    response = FetchResponse(responses=[generated.FetchableTopicResponse(partitions=[partition])])
    received = bytearray(codec.encode(response, 18))
    ((_, (answer,)),) = read_answer(memoryview(received), 0, 18).topics
    assert answer.records.obj is received
