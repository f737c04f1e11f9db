"""CreateTopics, CreatePartitions and DeleteTopics: what is made, and what is refused."""

from collections.abc import Callable
from threading import Thread
from uuid import uuid4

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.message import NO_UUID
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from testkit.batches import values
from testkit.raw import Connection
from tests.e2e.asking import From, end_offset, fetch, produce
from tests.e2e.conftest import Eventually, OwnBroker, Topics, create_topic, describe, is_unknown

TIMEOUT_MS = 30_000


def create(
    connection: Connection, *topics: CreatableTopic, version: int = 7, validate_only: bool = False
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(
        topics=list(topics), timeout_ms=TIMEOUT_MS, validate_only=validate_only
    )
    return connection.ask(request, CreateTopicsResponse, version).topics


def grow(
    connection: Connection,
    topic: str,
    count: int,
    assignments: list[CreatePartitionsAssignment] | None = None,
    version: int = 3,
    validate_only: bool = False,
) -> int:
    part = CreatePartitionsTopic(name=topic, count=count, assignments=assignments)
    request = CreatePartitionsRequest(
        topics=[part], timeout_ms=TIMEOUT_MS, validate_only=validate_only
    )
    return connection.ask(request, CreatePartitionsResponse, version).results[0].error_code


def delete(connection: Connection, *names: str, version: int = 5) -> list[int]:
    request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=TIMEOUT_MS)
    answer = connection.ask(request, DeleteTopicsResponse, version)
    return [result.error_code for result in answer.responses]


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_creates(
    connection: Connection, new_name: Callable[[], str], eventually: Eventually, version: int
) -> None:
    wanted = CreatableTopic(
        name=new_name(),
        num_partitions=2,
        replication_factor=1,
        configs=[CreatableTopicConfig(name="retention.ms", value="1234")],
    )
    (created,) = create(connection, wanted, version=version)
    assert (created.name, created.error_code) == (wanted.name, 0)
    if version >= 5:
        assert (created.num_partitions, created.replication_factor) == (2, 1)
        assert created.configs is not None
        configs = {config.name: config for config in created.configs}
        assert configs["retention.ms"].value == "1234"
        assert configs["cleanup.policy"].value == "delete"
    if version >= 7:
        assert created.topic_id != NO_UUID
        assert eventually(lambda: describe(connection, wanted.name).topic_id == created.topic_id)


@pytest.mark.parametrize("version", range(1, 6))
def test_every_version_deletes(
    connection: Connection, new_name: Callable[[], str], eventually: Eventually, version: int
) -> None:
    name = new_name()
    create_topic(connection, name)
    assert delete(connection, name, version=version) == [0]
    assert eventually(lambda: is_unknown(connection, name))


def test_defaults_stand_in_for_minus_1(connection: Connection, new_name: Callable[[], str]) -> None:
    wanted = CreatableTopic(name=new_name(), num_partitions=-1, replication_factor=-1)
    (created,) = create(connection, wanted)
    assert (created.error_code, created.num_partitions, created.replication_factor) == (0, 1, 1)


def test_partitions_may_be_assigned_by_hand(
    connection: Connection, new_name: Callable[[], str], topic: str
) -> None:
    node = describe(connection, topic).partitions[0].leader_id
    wanted = CreatableTopic(
        name=new_name(),
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=number, broker_ids=[node])
            for number in range(3)
        ],
    )
    (created,) = create(connection, wanted)
    assert (created.error_code, created.num_partitions) == (0, 3)


def topic_with(name: str, **fields: object) -> CreatableTopic:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    for field, value in fields.items():
        setattr(topic, field, value)
    return topic


def config(name: str, value: str | None) -> dict[str, object]:
    return {"configs": [CreatableTopicConfig(name=name, value=value)]}


REFUSED: dict[str, tuple[dict[str, object], ErrorCode]] = {
    "no partitions": ({"num_partitions": 0}, ErrorCode.INVALID_PARTITIONS),
    "negative partitions": ({"num_partitions": -7}, ErrorCode.INVALID_PARTITIONS),
    "no replicas": ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
    "more replicas than brokers": (
        {"replication_factor": 2},
        ErrorCode.INVALID_REPLICATION_FACTOR,
    ),
    "unknown config": (config("no.such.config", "1"), ErrorCode.INVALID_CONFIG),
    "wrong config": (config("retention.ms", "soon"), ErrorCode.INVALID_CONFIG),
    "null config": (config("retention.ms", None), ErrorCode.INVALID_CONFIG),
    "unknown broker": (
        {
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [CreatableReplicaAssignment(partition_index=0, broker_ids=[99])],
        },
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "a broker twice": (
        {
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 1])],
        },
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "a hole in the assignment": (
        {
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [CreatableReplicaAssignment(partition_index=1, broker_ids=[1])],
        },
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "assignment and count": (
        {
            "num_partitions": 3,
            "assignments": [CreatableReplicaAssignment(partition_index=0, broker_ids=[1])],
        },
        ErrorCode.INVALID_REQUEST,
    ),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("validate_only", [False, True])
def test_what_cannot_be_made_is_refused(
    connection: Connection, new_name: Callable[[], str], what: str, validate_only: bool
) -> None:
    fields, expected = REFUSED[what]
    name = new_name()
    (refused,) = create(connection, topic_with(name, **fields), validate_only=validate_only)
    assert refused.error_code == expected
    assert refused.error_message
    assert is_unknown(connection, name)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "sl/ash", "x" * 250, "ü"])
def test_an_impossible_name_is_refused(connection: Connection, name: str) -> None:
    (refused,) = create(connection, topic_with(name))
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_name_that_metrics_would_confuse_is_refused(
    connection: Connection, new_name: Callable[[], str]
) -> None:
    name = new_name()
    create_topic(connection, f"{name}.a")
    (refused,) = create(connection, topic_with(f"{name}_a"))
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_name_asked_for_twice_in_one_request_is_refused(
    connection: Connection, new_name: Callable[[], str]
) -> None:
    name, other = new_name(), new_name()
    results = create(connection, topic_with(name), topic_with(name), topic_with(other))
    errors = {result.name: result.error_code for result in results}
    assert errors == {name: ErrorCode.INVALID_REQUEST, other: 0}
    assert is_unknown(connection, name)


def test_of_a_setting_named_twice_the_last_counts(
    connection: Connection, new_name: Callable[[], str]
) -> None:
    twice = [CreatableTopicConfig(name="retention.ms", value=text) for text in ("soon", "2000")]
    (made,) = create(connection, topic_with(new_name(), configs=twice))
    assert made.error_code == 0
    assert {each.name: each.value for each in made.configs or []}["retention.ms"] == "2000"


def test_one_bad_topic_does_not_stop_the_others(
    connection: Connection, new_name: Callable[[], str], topic: str
) -> None:
    good = new_name()
    results = create(connection, topic_with(topic), topic_with(good))
    errors = {result.name: result.error_code for result in results}
    assert errors == {topic: ErrorCode.TOPIC_ALREADY_EXISTS, good: 0}
    assert [bool(result.configs) for result in results] == [False, True]
    assert results[0].configs == []


def test_validate_only_creates_nothing(connection: Connection, new_name: Callable[[], str]) -> None:
    name = new_name()
    (result,) = create(connection, topic_with(name, num_partitions=3), validate_only=True)
    assert (result.error_code, result.num_partitions) == (0, 3)
    assert is_unknown(connection, name)


@pytest.mark.parametrize("version", range(4))
def test_every_version_adds_partitions(
    connection: Connection, topic: str, eventually: Eventually, version: int
) -> None:
    assert grow(connection, topic, 3, version=version) == 0
    assert eventually(lambda: len(describe(connection, topic).partitions) == 3)


def test_a_topic_that_is_to_grow_twice_is_refused_once(connection: Connection, topic: str) -> None:
    parts = [CreatePartitionsTopic(name=topic, count=count, assignments=None) for count in (2, 3)]
    request = CreatePartitionsRequest(topics=parts, timeout_ms=30_000)
    (result,) = connection.ask(request, CreatePartitionsResponse, 3).results
    assert (result.name, result.error_code) == (topic, ErrorCode.INVALID_REQUEST)
    assert len(describe(connection, topic).partitions) == 1


def test_new_partitions_are_empty_and_old_ones_untouched(
    connection: Connection, topic: str, eventually: Eventually
) -> None:
    produce(connection, topic, values(b"before"))
    assert grow(connection, topic, 2) == 0
    assert end_offset(connection, topic, 0) == 1
    assert eventually(lambda: fetch(connection, From(topic, partition=1)).error_code == 0)
    assert end_offset(connection, topic, 1) == 0
    assert produce(connection, topic, values(b"after"), 1).base_offset == 0


def test_partitions_that_cannot_be_added_are_refused(
    connection: Connection, new_topic: Topics, new_name: Callable[[], str]
) -> None:
    topic = new_topic(partitions=3)
    for count in (3, 2, 0, -1):
        assert grow(connection, topic, count) == ErrorCode.INVALID_PARTITIONS
    assert grow(connection, new_name(), 5) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    away = [CreatePartitionsAssignment(broker_ids=[99])]
    assert grow(connection, topic, 4, away) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(connection, topic, 6, away) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(connection, topic, 4, validate_only=True) == 0
    assert len(describe(connection, topic).partitions) == 3


def test_topics_can_be_deleted_by_id(
    connection: Connection, new_name: Callable[[], str], eventually: Eventually
) -> None:
    name = new_name()
    create_topic(connection, name)
    topic_id = describe(connection, name).topic_id
    request = DeleteTopicsRequest(
        topics=[
            DeleteTopicState(name=None, topic_id=topic_id),
            DeleteTopicState(name=None, topic_id=uuid4()),
        ],
        timeout_ms=TIMEOUT_MS,
    )
    answer = connection.ask(request, DeleteTopicsResponse, 6)
    errors = {each.topic_id: (each.error_code, each.error_message) for each in answer.responses}
    assert errors.pop(topic_id) == (0, None)
    assert list(errors.values()) == [
        (ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    ]
    assert eventually(lambda: is_unknown(connection, name))


def test_a_topic_made_again_is_another_one(
    connection: Connection, new_name: Callable[[], str], eventually: Eventually
) -> None:
    name = new_name()
    create_topic(connection, name)
    old = describe(connection, name).topic_id
    produce(connection, name, values(b"old"))
    assert delete(connection, name) == [0]
    create_topic(connection, name)
    assert eventually(lambda: describe(connection, name).topic_id not in (old, NO_UUID))
    assert end_offset(connection, name) == 0


def test_deletion_under_writers_and_readers_is_clean(
    connect: Callable[[], Connection], new_name: Callable[[], str]
) -> None:
    name = new_name()
    admin = connect()
    create_topic(admin, name, 3)
    gone = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER}
    seen: list[int] = []

    def write(connection: Connection, partition: int) -> None:
        code = 0
        while code == 0:
            code = produce(connection, name, values(b"x" * 100), partition).error_code
        seen.append(code)

    def read(connection: Connection, partition: int) -> None:
        code = 0
        while code == 0:
            wanted = From(name, partition=partition)
            code = fetch(connection, wanted, max_wait_ms=100, min_bytes=1).error_code
        seen.append(code)

    threads = [
        Thread(target=work, args=(connect(), partition))
        for work in (write, read)
        for partition in range(3)
    ]
    for thread in threads:
        thread.start()
    while end_offset(admin, name, 2) < 20:
        pass
    assert delete(admin, name) == [0]
    for thread in threads:
        thread.join(30)
    assert len(seen) == 6
    assert set(seen) <= gone


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_topics_stay_as_they_were_over_a_restart(own_broker: OwnBroker, ending: str) -> None:
    broker = own_broker()
    with Connection(broker.bootstrap) as connection:
        create_topic(connection, "kept", 3)
        create_topic(connection, "dropped")
        topic_id = describe(connection, "kept").topic_id
        assert grow(connection, "kept", 5) == 0
        produce(connection, "kept", values(b"a", b"b"), 4)
        assert delete(connection, "dropped") == [0]
    if ending == "kill":
        broker.kill()
    else:
        assert broker.stop() == 0
    broker.start()
    with Connection(broker.bootstrap) as connection:
        kept = describe(connection, "kept")
        assert (kept.topic_id, len(kept.partitions)) == (topic_id, 5)
        assert end_offset(connection, "kept", 4) == 2
        dropped = describe(connection, "dropped")
        assert dropped.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_huge_number_of_partitions_is_refused_and_harms_nobody(own_broker: OwnBroker) -> None:
    broker = own_broker()
    with Connection(broker.bootstrap) as connection:
        (refused,) = create(connection, topic_with("huge", num_partitions=2**31 - 1))
        assert refused.error_code != 0
        create_topic(connection, "small")
        assert grow(connection, "small", 2**31 - 1) != 0
        assert len(describe(connection, "small").partitions) == 1
