"""Decisions about topics; codes and messages were seen on Apache Kafka 4.3.0."""

from collections import Counter
from collections.abc import Callable
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.dynamic import Alteration, AlterOp
from ottla.metadata import topics
from ottla.metadata.documents import BrokerRegistration, broker_key, deleted_topic_key, encode
from ottla.metadata.image import Image
from ottla.metadata.placement import spread
from ottla.metadata.store import Conflict, Create, Op
from ottla.metadata.topics import (
    NewTopic,
    RequestedTopic,
    add_partitions,
    alter_broker_configs,
    alter_topic_configs,
    check_together,
    create_topic,
    create_topics,
    delete_topic,
    replace_broker_configs,
    replace_topic_configs,
)
from ottla.wire.errors import ErrorCode, KafkaError

from .model import Model

ID = UUID(int=7)


class Cluster:
    """Three brokers, and the image of what was decided so far."""

    def __init__(self) -> None:
        self.model = Model()
        self.image = Image()
        self.commit(
            [Create(broker_key(one), encode(BrokerRegistration(one, []))) for one in (1, 2, 3)]
        )

    def commit(self, ops: list[Op]) -> None:
        self.image.apply(self.model.commit(ops))

    def decide(self, new: NewTopic, start: int = 0) -> list[Op]:
        _, ops = create_topic(
            self.image,
            new,
            topic_id=UUID(int=ID.int + len(self.image.topics)),
            start=start,
            default_partitions=2,
            default_replication_factor=1,
        )
        return ops

    def create(self, new: NewTopic) -> None:
        self.commit(self.decide(new))


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_a_topic_is_made_with_all_of_its_partitions(cluster: Cluster) -> None:
    cluster.create(NewTopic("a", 4, 2, configs={"retention.ms": "5"}))
    topic = cluster.image.topics["a"]
    assert topic.id == ID
    assert topic.configs == {"retention.ms": "5"}
    assert topic.assignment == [[1, 2], [2, 3], [3, 1], [1, 3]]
    for index, replicas in enumerate(topic.assignment):
        partition = cluster.image.partitions["a", index]
        assert partition.topic_id == ID
        assert partition.leader == replicas[0]
        assert partition.isr == replicas
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)


def test_counts_that_are_not_given_are_the_brokers_defaults(cluster: Cluster) -> None:
    cluster.create(NewTopic("a"))
    assert cluster.image.topics["a"].assignment == [[1], [2]]


def test_an_assignment_may_be_given(cluster: Cluster) -> None:
    cluster.create(NewTopic("a", assignment={1: [2, 1], 0: [3, 2]}))
    assert cluster.image.topics["a"].assignment == [[3, 2], [2, 1]]


@pytest.mark.parametrize(
    ("new", "code", "message"),
    [
        (NewTopic("old"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'old' already exists."),
        (NewTopic("a_b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "collides with existing topic: a.b"),
        (NewTopic(""), ErrorCode.INVALID_TOPIC_EXCEPTION, "the empty string is not allowed"),
        (NewTopic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid"),
        (NewTopic("__cluster_metadata"), ErrorCode.INVALID_REQUEST, "is prohibited"),
        (NewTopic("new", 0), ErrorCode.INVALID_PARTITIONS, "invalid non-positive value"),
        (NewTopic("new", -2), ErrorCode.INVALID_PARTITIONS, "invalid non-positive value"),
        (NewTopic("new", 10_001), ErrorCode.POLICY_VIOLATION, "Excessively large number"),
        (NewTopic("new", 2**31 - 1), ErrorCode.POLICY_VIOLATION, "Excessively large number"),
        (NewTopic("new", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
        (NewTopic("new", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
        (NewTopic("new", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR, "only 3 broker"),
        (NewTopic("new", configs={"no": "1"}), ErrorCode.INVALID_CONFIG, "Unknown topic config"),
        (NewTopic("new", configs={"retention.ms": "x"}), ErrorCode.INVALID_CONFIG, "Not a number"),
        (NewTopic("new", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG, "Null value"),
        (
            NewTopic("new", configs={"compression.type": "rar"}),
            ErrorCode.INVALID_CONFIG,
            "String must be one of",
        ),
        (NewTopic("new", 1, assignment={0: [1]}), ErrorCode.INVALID_REQUEST, "numPartitions"),
        (NewTopic("new", -1, 1, {0: [1]}), ErrorCode.INVALID_REQUEST, "replication factor"),
        (
            NewTopic("new", assignment={1: [1]}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "consecutive 0-based",
        ),
        (
            NewTopic("new", assignment={-1: [1], 0: [1]}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "consecutive 0-based",
        ),
        (NewTopic("new", assignment={0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "empty"),
        (
            NewTopic("new", assignment={0: [1, 1]}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "includes the broker 1 more than once",
        ),
        (
            NewTopic("new", assignment={0: [7]}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "includes broker 7, but no such broker is registered",
        ),
        (
            NewTopic("new", assignment={0: [1, 2], 1: [3]}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "not consistent with previous partitions",
        ),
    ],
    ids=lambda value: value.name if isinstance(value, ErrorCode) else None,
)
def test_a_topic_that_cannot_be_made_is_refused(
    cluster: Cluster, new: NewTopic, code: ErrorCode, message: str
) -> None:
    cluster.create(NewTopic("old"))
    cluster.create(NewTopic("a.b"))
    with pytest.raises(KafkaError, match=message) as raised:
        cluster.decide(new)
    assert raised.value.code is code


def test_ten_thousand_partitions_are_allowed(cluster: Cluster) -> None:
    assert len(cluster.decide(NewTopic("a", 10_000))) == 10_002


def test_topics_of_a_request_have_ten_thousand_partitions_together() -> None:
    five = NewTopic("five", 5_000)
    default = NewTopic("default")
    given = NewTopic("given", assignment={0: [1], 1: [1]})
    check_together([five, NewTopic("more", 4_995), default, given], default_partitions=3)
    with pytest.raises(KafkaError, match="Excessively large number") as refused:
        check_together([five, NewTopic("more", 4_995), default, given], default_partitions=4)
    assert refused.value.code == ErrorCode.POLICY_VIOLATION


def test_of_two_that_make_the_same_topic_one_conflicts(cluster: Cluster) -> None:
    first, second = cluster.decide(NewTopic("a")), cluster.decide(NewTopic("a"))
    cluster.commit(first)
    with pytest.raises(Conflict):
        cluster.commit(second)


def test_a_deleted_topic_leaves_only_the_record_of_its_deletion(cluster: Cluster) -> None:
    before = cluster.model.snapshot()
    cluster.create(NewTopic("a", 3))
    cluster.commit(delete_topic(cluster.image, "a"))
    left = [each for each in cluster.model.snapshot() if each not in before]
    assert [(each.key, each.value) for each in left] == [(deleted_topic_key(ID), b"a")]
    assert (cluster.image.topics, cluster.image.partitions) == ({}, {})


def test_the_oldest_records_of_deletions_are_dropped(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "DELETIONS_KEPT", 3)
    ids = [UUID(int=number) for number in (9, 3, 7, 1, 5)]
    for topic_id in ids:
        _, ops = create_topic(
            cluster.image,
            NewTopic("a"),
            topic_id=topic_id,
            start=0,
            default_partitions=1,
            default_replication_factor=1,
        )
        cluster.commit(ops)
        cluster.commit(delete_topic(cluster.image, "a"))
    assert sorted(cluster.image.deleted_topics) == sorted(ids[-3:])


def test_partitions_are_added_after_those_that_are_there(cluster: Cluster) -> None:
    cluster.create(NewTopic("a", 1, 2))
    topic, ops = add_partitions(cluster.image, "a", 3, None, start=1)
    cluster.commit(ops)
    assert topic.assignment == [[1, 2], [2, 3], [3, 1]]
    assert cluster.image.topics["a"].assignment == topic.assignment
    assert cluster.image.partitions["a", 2].leader == 3
    _, ops = add_partitions(cluster.image, "a", 4, [[3, 2]], start=0)
    cluster.commit(ops)
    assert cluster.image.partitions["a", 3].isr == [3, 2]


@pytest.mark.parametrize(
    ("name", "count", "assignment", "code", "message"),
    [
        ("no", 3, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("a", 1, None, ErrorCode.INVALID_PARTITIONS, "1 would not be an increase"),
        ("a", -1, None, ErrorCode.INVALID_PARTITIONS, "-1 would not be an increase"),
        ("a", 2, None, ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition"),
        ("a", 20_000, None, ErrorCode.POLICY_VIOLATION, "Excessively large number"),
        ("a", 4, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "but only 1 assignment"),
        ("a", 3, [[1], [2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "add 1 additional partition"),
        ("a", 3, [[9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker"),
        ("a", 3, [[]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "empty replica list"),
        ("a", 3, [[1, 2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "not consistent"),
    ],
)
def test_partitions_that_cannot_be_added_are_refused(
    cluster: Cluster,
    name: str,
    count: int,
    assignment: list[list[int]] | None,
    code: ErrorCode,
    message: str,
) -> None:
    cluster.create(NewTopic("a", 2))
    with pytest.raises(KafkaError, match=message) as raised:
        add_partitions(cluster.image, name, count, assignment, start=0)
    assert raised.value.code is code


def test_a_topics_settings_change_one_by_one_or_all_at_once(cluster: Cluster) -> None:
    cluster.create(NewTopic("a", configs={"retention.ms": "5"}))
    change = [Alteration("segment.ms", AlterOp.SET, "7")]
    cluster.commit(alter_topic_configs(cluster.image, "a", change))
    assert cluster.image.topics["a"].configs == {"retention.ms": "5", "segment.ms": "7"}
    assert alter_topic_configs(cluster.image, "a", change) == []
    cluster.commit(replace_topic_configs(cluster.image, "a", {"flush.ms": "1"}))
    assert cluster.image.topics["a"].configs == {"flush.ms": "1"}
    assert cluster.image.topics["a"].id == ID


def test_a_topic_that_is_not_there_is_neither_changed_nor_deleted(cluster: Cluster) -> None:
    no_topic = "The topic 'no' does not exist"
    decisions: list[tuple[Callable[[], object], str]] = [
        (lambda: alter_topic_configs(cluster.image, "no", []), no_topic),
        (lambda: replace_topic_configs(cluster.image, "no", {}), no_topic),
        (lambda: delete_topic(cluster.image, "no"), "This server does not host this topic"),
    ]
    for decide, words in decisions:
        with pytest.raises(KafkaError, match=words) as raised:
            decide()
        assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("name", "configs", "code"),
    [
        ("", {}, ErrorCode.INVALID_REQUEST),
        ("(bad", {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("no", {"retention.ms": "x"}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_request_is_checked_before_whether_the_topic_exists(
    cluster: Cluster, name: str, configs: dict[str, str], code: ErrorCode
) -> None:
    changes = [Alteration(key, AlterOp.SET, value) for key, value in configs.items()]
    decisions: list[Callable[[], object]] = [
        lambda: alter_topic_configs(cluster.image, name, changes),
        lambda: replace_topic_configs(cluster.image, name, configs),
    ]
    for decide in decisions:
        with pytest.raises(KafkaError) as raised:
            decide()
        assert raised.value.code is code


@pytest.mark.parametrize("broker", [None, 2])
def test_dynamic_settings_of_brokers_change(cluster: Cluster, broker: int | None) -> None:
    change = [Alteration("max.connections", AlterOp.SET, "7")]
    cluster.commit(alter_broker_configs(cluster.image, broker, change))
    assert cluster.image.broker_configs[broker].configs == {"max.connections": "7"}
    assert alter_broker_configs(cluster.image, broker, change) == []
    cluster.commit(replace_broker_configs(cluster.image, broker, {"message.max.bytes": "9"}))
    assert cluster.image.broker_configs[broker].configs == {"message.max.bytes": "9"}
    with pytest.raises(KafkaError, match="Cannot update these configs dynamically"):
        replace_broker_configs(cluster.image, broker, {"num.partitions": "9"})


@given(
    st.sets(st.integers(0, 100), min_size=1, max_size=8),
    st.integers(1, 60),
    st.integers(0, 20),
    st.data(),
)
def test_replicas_are_different_brokers_and_leaders_are_spread_evenly(
    brokers: set[int], partitions: int, start: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    assignment = spread(brokers, partitions, factor, start)
    assert len(assignment) == partitions
    for replicas in assignment:
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= brokers
    leaders = Counter(replicas[0] for replicas in assignment)
    led = [leaders[broker] for broker in brokers]
    assert max(led) - min(led) <= 1


def decide_on_all(cluster: Cluster, *names: str) -> list[ErrorCode]:
    """Create topics in one decision; ErrorCode.NONE for each that is made."""
    outcomes, ops = create_topics(
        cluster.image,
        [RequestedTopic(NewTopic(name), UUID(int=at), 0) for at, name in enumerate(names, 1)],
        default_partitions=1,
        default_replication_factor=1,
    )
    cluster.commit(ops)
    return [each.code if isinstance(each, KafkaError) else ErrorCode.NONE for each in outcomes]


def test_of_many_topics_the_good_ones_are_made(cluster: Cluster) -> None:
    assert decide_on_all(cluster, "a", "/", "b", "") == [
        ErrorCode.NONE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NONE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    assert set(cluster.image.topics) == {"a", "b"}
    assert set(cluster.image.partitions) == {("a", 0), ("b", 0)}


def test_topics_made_together_do_not_collide(cluster: Cluster) -> None:
    assert decide_on_all(cluster, "a.b", "a_b", "a-b") == [
        ErrorCode.NONE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NONE,
    ]
    assert set(cluster.image.topics) == {"a.b", "a-b"}


def test_a_refused_name_blocks_no_other_broker(cluster: Cluster) -> None:
    wanted = [
        RequestedTopic(NewTopic("a.b", replication_factor=9), UUID(int=1), 0),
        RequestedTopic(NewTopic("a_b"), UUID(int=2), 0),
    ]
    outcomes, _ = create_topics(
        cluster.image, wanted, default_partitions=1, default_replication_factor=1
    )
    assert [isinstance(each, KafkaError) for each in outcomes] == [True, False]
