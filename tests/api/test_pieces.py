"""Requests with many elements are divided, and the answers to the pieces are one answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.api.pieces import MOST_UNDIVIDED, divide, join, pieces
from ottla.wire.fields import DecodeError
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

LIST_OFFSETS = pieces("topics.partitions", "topics.partitions", 10)


def request(counts: list[int]) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        isolation_level=1,
        topics=[
            ListOffsetsTopic(
                name=f"t{at}",
                partitions=[ListOffsetsPartition(partition_index=index) for index in range(count)],
            )
            for at, count in enumerate(counts)
        ],
    )


def answer(asked: ListOffsetsRequest) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(partition_index=each.partition_index)
                    for each in topic.partitions
                ],
            )
            for topic in asked.topics
        ]
    )


@given(st.lists(st.integers(0, 40), max_size=12))
def test_the_answers_to_the_pieces_are_the_answer_to_the_whole(counts: list[int]) -> None:
    asked = request(counts)
    found, _ = divide(asked, (LIST_OFFSETS,))
    whole = answer(found[0])
    for piece in found[1:]:
        join(whole, answer(piece), LIST_OFFSETS.answered)
    assert whole == answer(request(counts))
    assert all(piece.isolation_level == 1 for piece in found)


@given(st.lists(st.integers(0, 40), max_size=12))
def test_no_piece_has_more_elements_than_allowed(counts: list[int]) -> None:
    found, _ = divide(request(counts), (LIST_OFFSETS,))
    for piece in found:
        assert sum(1 + len(topic.partitions) for topic in piece.topics) <= LIST_OFFSETS.most + 2


def test_what_cannot_be_divided_has_a_limit() -> None:
    protocol = JoinGroupRequestProtocol(name="range")
    divide(JoinGroupRequest(protocols=[protocol] * (MOST_UNDIVIDED - 1)), ())
    with pytest.raises(DecodeError):
        divide(JoinGroupRequest(protocols=[protocol] * MOST_UNDIVIDED), ())
