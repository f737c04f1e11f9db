"""What the stream reader tells Spark, call by call, without Spark."""

import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from ottla.audit.events import AUDIT_TOPIC
from ottla.client import Admin, Client, TopicPartition
from ottla.client.group_admin import GroupAdmin
from pyspark_ottla.errors import DataLossError
from pyspark_ottla.options import Use
from pyspark_ottla.sink.marker import MARKER_TOPIC
from pyspark_ottla.source.offsets import IDS
from pyspark_ottla.source.ranges import OffsetRange
from pyspark_ottla.source.reading import RangePartition
from pyspark_ottla.source.settings import SourceSettings
from pyspark_ottla.source.stream import StreamReader
from tests.spark.source.writing import named, write, write_transaction

NewTopic = Callable[..., str]


def reader(bootstrap: str, **options: object) -> StreamReader:
    return StreamReader(SourceSettings.of(named(bootstrap, options), Use.STREAM_READ))


def through_spark(offset: dict[str, Any]) -> dict[str, Any]:
    """Offsets are text on Spark's side."""
    kept: dict[str, Any] = json.loads(json.dumps(offset))
    return kept


def offsets(offset: dict[str, Any]) -> dict[str, Any]:
    """What an offset says, without the ids of topics."""
    return {topic: item for topic, item in offset.items() if topic != IDS}


def ranges(stream: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[OffsetRange]:
    parts = stream.partitions(through_spark(start), through_spark(end))
    return [part.range for part in parts if isinstance(part, RangePartition)]


def test_a_first_batch_that_is_run_again_begins_where_it_began(
    bootstrap: str, client: Client, topic: str
) -> None:
    write(client, topic, ["before"])
    crashing = reader(bootstrap, subscribe=topic)
    start = crashing.initialOffset()
    write(client, topic, ["a", "b"])
    end = crashing.latestOffset(start, ReadAllAvailable())
    restarted = reader(bootstrap, subscribe=topic)
    new_start = restarted.initialOffset()
    assert new_start != start
    assert ranges(restarted, new_start, end) == [OffsetRange(topic, 0, 1, 3)]


def test_the_start_of_a_query_does_not_move(bootstrap: str, client: Client, topic: str) -> None:
    stream = reader(bootstrap, subscribe=topic)
    start = stream.initialOffset()
    write(client, topic, ["a"])
    assert stream.initialOffset() == start


def test_a_first_batch_runs_even_when_it_is_empty(bootstrap: str, topic: str) -> None:
    stream = reader(bootstrap, subscribe=topic)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    assert end != start
    assert ranges(stream, start, end) == []


def test_an_offset_that_did_not_move_is_the_same_text(bootstrap: str, topic: str) -> None:
    stream = reader(bootstrap, subscribe=topic)
    first = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    again = stream.latestOffset(through_spark(first), ReadAllAvailable())
    assert json.dumps(again) == json.dumps(first)


def test_all_that_is_available_is_more_than_a_limit_of_the_options(
    bootstrap: str, client: Client, topic: str
) -> None:
    write(client, topic, ["a", "b", "c"])
    stream = reader(bootstrap, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=1)
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMaxRows(1)
    start = stream.initialOffset()
    assert stream.latestOffset(start, limit)[topic] == {"0": 1}
    assert stream.latestOffset(start, ReadAllAvailable())[topic] == {"0": 3}


def test_a_batch_waits_for_the_least_number_of_offsets(
    bootstrap: str, client: Client, topic: str
) -> None:
    stream = reader(bootstrap, subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger=3)
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMinRows(3)
    write(client, topic, ["a"])
    first = stream.latestOffset(stream.initialOffset(), limit)
    write(client, topic, ["b", "c"])
    assert stream.latestOffset(first, limit) == first
    write(client, topic, ["d"])
    assert offsets(stream.latestOffset(first, limit)) == {topic: {"0": 4}}


def test_what_is_available_now_does_not_grow(bootstrap: str, client: Client, topic: str) -> None:
    write(client, topic, ["a"])
    stream = reader(bootstrap, subscribe=topic, startingOffsets="earliest")
    stream.prepareForTriggerAvailableNow()
    write(client, topic, ["b"])
    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    assert end[topic] == {"0": 1}
    assert stream.latestOffset(end, ReadAllAvailable()) == end


def test_a_start_at_the_end_is_no_loss_though_records_came_meanwhile(
    bootstrap: str, client: Client, topic: str
) -> None:
    stream = reader(bootstrap, subscribe=topic)
    stream.prepareForTriggerAvailableNow()
    write(client, topic, ["b"])
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    assert ranges(stream, start, end) == []


def test_a_topic_that_was_recreated_is_read_from_its_start(
    bootstrap: str, client: Client, admin: Admin, topic: str
) -> None:
    write(client, topic, ["a", "b", "c"])
    stream = reader(bootstrap, subscribe=topic, startingOffsets="earliest", failOnDataLoss=False)
    first = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    admin.delete_topic(topic)
    gone = stream.latestOffset(first, ReadAllAvailable())
    assert gone == first
    admin.create_topic(topic, partitions=1)
    write(client, topic, ["d"])
    again = stream.latestOffset(first, ReadAllAvailable())
    assert offsets(again) == {topic: {"0": 1}}
    assert ranges(stream, first, again) == [OffsetRange(topic, 0, 0, 1)]


def test_a_topic_that_was_recreated_under_a_planned_batch_is_read_once(
    bootstrap: str, client: Client, admin: Admin, topic: str
) -> None:
    write(client, topic, ["a", "b", "c"])
    stream = reader(bootstrap, subscribe=topic, startingOffsets="earliest", failOnDataLoss=False)
    first = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    write(client, topic, ["d"])
    planned = stream.latestOffset(first, ReadAllAvailable())
    admin.delete_topic(topic)
    admin.create_topic(topic, partitions=1)
    write(client, topic, ["e"])
    assert ranges(stream, first, planned) == []
    again = stream.latestOffset(planned, ReadAllAvailable())
    assert ranges(stream, planned, again) == [OffsetRange(topic, 0, 0, 1)]


def recreate(client: Client, topic: str, values: list[str], partitions: int = 1) -> None:
    Admin(client).delete_topic(topic)
    Admin(client).create_topic(topic, partitions=partitions)
    client.forget(topic)
    write(client, topic, values)


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_longer_topic_of_the_same_name_is_another_topic(
    bootstrap: str, client: Client, topic: str, partitions: int
) -> None:
    write(client, topic, ["a", "b"])
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    stream = reader(bootstrap, **options, failOnDataLoss=False)
    first = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    recreate(client, topic, ["c", "d", "e"], partitions)
    strict = reader(bootstrap, **options)
    with pytest.raises(DataLossError, match=rf"topic {topic} was deleted and created again"):
        strict.latestOffset(first, ReadAllAvailable())
    again = stream.latestOffset(through_spark(first), ReadAllAvailable())
    assert ranges(stream, first, again) == [OffsetRange(topic, 0, 0, 3)]
    assert stream.latestOffset(through_spark(again), ReadAllAvailable()) == again


def test_a_batch_that_was_planned_for_a_deleted_topic_reads_nothing_of_the_new_one(
    bootstrap: str, client: Client, topic: str
) -> None:
    write(client, topic, ["a", "b"])
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    stream = reader(bootstrap, **options, failOnDataLoss=False)
    start = stream.initialOffset()
    planned = stream.latestOffset(start, ReadAllAvailable())
    recreate(client, topic, ["c", "d", "e"])
    with pytest.raises(DataLossError, match=rf"offsets 0 to 1 of {topic}-0, as it was, cannot"):
        ranges(reader(bootstrap, **options), start, planned)
    assert ranges(stream, start, planned) == []
    again = stream.latestOffset(planned, ReadAllAvailable())
    assert ranges(stream, planned, again) == [OffsetRange(topic, 0, 0, 3)]


@pytest.mark.parametrize("fails", [True, False])
def test_a_task_reads_nothing_of_a_topic_that_was_created_after_it_was_planned(
    bootstrap: str, client: Client, topic: str, fails: bool
) -> None:
    write(client, topic, ["a", "b"])
    options = {"startingOffsets": "earliest", "failOnDataLoss": fails}
    stream = reader(bootstrap, subscribe=topic, **options)
    start = stream.initialOffset()
    (part,) = stream.partitions(start, stream.latestOffset(start, ReadAllAvailable()))
    recreate(client, topic, ["c", "d", "e"])
    if fails:
        with pytest.raises(DataLossError, match=rf"topic {topic} was deleted and created again"):
            list(stream.read(part))
    else:
        assert list(stream.read(part)) == []


def test_a_group_is_told_nothing_of_a_topic_that_was_created_again(
    bootstrap: str, client: Client, topic: str
) -> None:
    write(client, topic, ["a", "b"])
    group = f"of {topic}"
    stream = reader(bootstrap, subscribe=topic, startingOffsets="earliest", commitGroup=group)
    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    recreate(client, topic, ["c", "d", "e"])
    stream.commit(end)
    assert GroupAdmin(client).committed_offsets(group) == {}


@pytest.mark.parametrize("fails", [True, False])
def test_a_topic_that_is_deleted_under_a_task_is_a_loss(
    bootstrap: str, client: Client, topic: str, fails: bool
) -> None:
    write(client, topic, ["a", "b"])
    options = {"startingOffsets": "earliest", "failOnDataLoss": fails}
    stream = reader(bootstrap, subscribe=topic, **options)
    start = stream.initialOffset()
    (part,) = stream.partitions(start, stream.latestOffset(start, ReadAllAvailable()))
    Admin(client).delete_topic(topic)
    if fails:
        with pytest.raises(DataLossError, match=rf"{topic}-0 no longer exists: its offsets"):
            list(stream.read(part))
    else:
        assert list(stream.read(part)) == []


def test_a_query_that_turns_to_committed_records_waits_for_an_open_transaction(
    bootstrap: str, client: Client, topic: str
) -> None:
    write(client, topic, ["a", "b"])
    transaction = write_transaction(bootstrap, topic, ["c"], commit=None)
    before = reader(
        bootstrap,
        subscribe=topic,
        startingOffsets="earliest",
        kafka_isolation_level="read_uncommitted",
    )
    read = {topic: before.latestOffset(before.initialOffset(), ReadAllAvailable())[topic]}
    assert read == {topic: {"0": 3}}
    stream = reader(bootstrap, subscribe=topic)
    assert stream.latestOffset(read, ReadAllAvailable()) == read
    stream.prepareForTriggerAvailableNow()
    assert stream.latestOffset(read, ReadAllAvailable()) == read
    transaction.commit_transaction()
    write(client, topic, ["d"])
    later = reader(bootstrap, subscribe=topic)
    until = {topic: {"0": 5}}
    assert offsets(later.latestOffset(read, ReadAllAvailable())) == until
    assert ranges(later, read, until) == [OffsetRange(topic, 0, 3, 5)]


def test_a_group_is_told_of_the_topics_that_are_left(
    bootstrap: str,
    client: Client,
    admin: Admin,
    new_topic: NewTopic,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic, gone = new_topic(), new_topic()
    write(client, topic, ["a"])
    stream = reader(
        bootstrap,
        subscribe=f"{topic},{gone}",
        startingOffsets="earliest",
        commitGroup=f"of {topic}",
        kafka_default_api_timeout_ms=500,
    )
    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    admin.delete_topic(gone)
    stream.commit(end)
    committed = GroupAdmin(client).committed_offsets(f"of {topic}")
    assert {partition: item.offset for partition, item in committed.items()} == {
        TopicPartition(topic, 0): 1
    }
    assert "failed to commit" not in caplog.text


def test_a_pattern_finds_no_internal_topics(bootstrap: str, client: Client, topic: str) -> None:
    GroupAdmin(client).commit_offsets(f"of {topic}", {TopicPartition(topic, 0): 0})
    found = reader(bootstrap, subscribePattern=".*").initialOffset()
    assert topic in found
    assert "__consumer_offsets" not in found


def test_a_pattern_finds_no_topics_that_are_written_beside_the_rows(
    bootstrap: str, admin: Admin, topic: str
) -> None:
    for own in (AUDIT_TOPIC, MARKER_TOPIC):
        if own not in {known.name for known in admin.list_topics()}:
            admin.create_topic(own, partitions=1)
    found = reader(bootstrap, subscribePattern=".*").initialOffset()
    assert topic in found
    assert not {AUDIT_TOPIC, MARKER_TOPIC} & set(found)
    assert AUDIT_TOPIC in reader(bootstrap, subscribe=AUDIT_TOPIC).initialOffset()


def test_a_reader_can_be_sent_to_tasks(bootstrap: str, topic: str) -> None:
    stream = reader(bootstrap, subscribe=topic, startingOffsets="earliest")
    copy = pickle.loads(pickle.dumps(stream))
    assert copy.initialOffset() == stream.initialOffset()
