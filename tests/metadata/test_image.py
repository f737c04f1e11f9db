"""The metadata image follows the documents, and says what changed."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata.documents import (
    BrokerEndpoint,
    BrokerRegistration,
    ClusterIdentity,
    Configs,
    ControllerInfo,
    PartitionState,
    TopicDocument,
    broker_configs_key,
    broker_key,
    client_metrics_configs_key,
    deleted_topic_key,
    encode,
    group_configs_key,
    partition_key,
    topic_key,
)
from ottla.metadata.image import Image, PartitionImage, TopicImage
from ottla.metadata.store import Change, Create, Delete, Op, Put, StoreError

from .model import Model

FIRST, SECOND, THIRD = UUID(int=1), UUID(int=2), UUID(int=3)


class Cluster:
    """An image that follows a model of the store."""

    def __init__(self) -> None:
        self.model = Model()
        self.image = Image()

    def commit(self, *ops: Op) -> list[Change]:
        changes = self.model.commit(ops)
        self.delta = self.image.apply(changes)
        assert self.image == Image.of(self.model.snapshot())
        return changes


def _topic(name: str, topic_id: UUID, partitions: int = 1, **configs: str) -> bytes:
    return encode(TopicDocument(name, topic_id, [[1]] * partitions, configs))


def _state(topic_id: UUID, leader: int = 1) -> bytes:
    return encode(PartitionState(topic_id, leader, 0, [leader]))


def test_a_topic_is_found_by_name_and_by_id() -> None:
    cluster = Cluster()
    cluster.commit(Create(topic_key("a"), _topic("a", FIRST)))
    topic = TopicImage("a", FIRST, [[1]], {}, 0)
    assert cluster.image.topics == {"a": topic}
    assert cluster.image.topics_by_id == {FIRST: topic}
    assert cluster.delta.created_topics == [topic]


def test_a_partition_is_found_by_topic_and_number() -> None:
    cluster = Cluster()
    cluster.commit(Create(partition_key("a.b-c", 12), _state(FIRST, leader=3)))
    partition = PartitionImage("a.b-c", 12, FIRST, 3, 0, [3], 0, 0)
    assert cluster.image.partitions == {("a.b-c", 12): partition}
    assert cluster.delta.changed_partitions == [partition]


def test_a_changed_topic_setting_is_in_the_delta() -> None:
    cluster = Cluster()
    cluster.commit(Create(topic_key("a"), _topic("a", FIRST)))
    cluster.commit(Put(topic_key("a"), _topic("a", FIRST, cleanup="x")))
    assert cluster.delta.changed_topics == [TopicImage("a", FIRST, [[1]], {"cleanup": "x"}, 1)]
    assert cluster.delta.created_topics == cluster.delta.deleted_topics == []


def test_a_topic_made_again_is_deleted_and_created() -> None:
    cluster = Cluster()
    cluster.commit(
        Create(topic_key("a"), _topic("a", FIRST)), Create(partition_key("a", 0), _state(FIRST))
    )
    cluster.commit(
        Delete(topic_key("a")),
        Delete(partition_key("a", 0)),
        Create(deleted_topic_key(FIRST), b"a"),
        Create(topic_key("a"), _topic("a", SECOND)),
        Create(partition_key("a", 0), _state(SECOND)),
    )
    assert [topic.id for topic in cluster.delta.deleted_topics] == [FIRST]
    assert [topic.id for topic in cluster.delta.created_topics] == [SECOND]
    assert [one.topic_id for one in cluster.delta.changed_partitions] == [SECOND]
    assert list(cluster.image.topics_by_id) == [SECOND]


def test_a_topic_that_goes_without_a_record_is_missing_and_not_deleted() -> None:
    cluster = Cluster()
    cluster.commit(Create(topic_key("a"), _topic("a", FIRST)))
    cluster.commit(Delete(topic_key("a")), Create(topic_key("a"), _topic("a", SECOND)))
    assert [topic.id for topic in cluster.delta.missing_topics] == [FIRST]
    assert [topic.id for topic in cluster.delta.created_topics] == [SECOND]
    assert cluster.delta.deleted_topics == []


def test_what_is_created_and_deleted_at_once_is_not_in_the_delta() -> None:
    cluster = Cluster()
    cluster.commit(Create(topic_key("a"), _topic("a", FIRST)), Delete(topic_key("a")))
    assert cluster.delta.created_topics == cluster.delta.deleted_topics == []
    assert cluster.image == Image()


def test_a_broker_that_comes_back_was_down_then_up() -> None:
    cluster = Cluster()
    broker = encode(BrokerRegistration(1, [BrokerEndpoint("PLAINTEXT", "h", 9092)], "rack-a"))
    cluster.commit(Create(broker_key(1), broker))
    assert [one.epoch for one in cluster.delta.brokers_up] == [1]
    assert cluster.image.brokers[1].endpoint("PLAINTEXT") == BrokerEndpoint("PLAINTEXT", "h", 9092)
    assert cluster.image.brokers[1].endpoint("OTHER") is None
    cluster.commit(Delete(broker_key(1)), Create(broker_key(1), broker))
    assert [one.epoch for one in cluster.delta.brokers_down] == [1]
    assert [one.epoch for one in cluster.delta.brokers_up] == [3]


def test_settings_of_brokers_and_of_the_cluster_are_distinct() -> None:
    cluster = Cluster()
    cluster.commit(
        Create(broker_configs_key(None), encode(Configs({"a": "1"}))),
        Create(broker_configs_key(2), encode(Configs({"a": "2"}))),
    )
    assert cluster.delta.changed_broker_configs == [None, 2]
    assert cluster.image.broker_configs[None].configs == {"a": "1"}
    cluster.commit(Delete(broker_configs_key(2)))
    assert cluster.delta.changed_broker_configs == [2]
    assert list(cluster.image.broker_configs) == [None]


def test_a_group_may_have_any_name_and_settings_of_its_own() -> None:
    cluster = Cluster()
    cluster.commit(
        Create(group_configs_key("../a b/c"), encode(Configs({"a": "1"}))),
        Create(group_configs_key("default"), encode(Configs({"a": "2"}))),
    )
    assert {name: own.configs["a"] for name, own in cluster.image.group_configs.items()} == {
        "../a b/c": "1",
        "default": "2",
    }
    assert not cluster.delta.changed_broker_configs
    cluster.commit(Delete(group_configs_key("../a b/c")))
    assert list(cluster.image.group_configs) == ["default"]


def test_the_cluster_and_its_controller_are_known() -> None:
    cluster = Cluster()
    cluster.commit(Create("cluster", encode(ClusterIdentity("abc"))))
    cluster.commit(Create("controller", encode(ControllerInfo(1, 5))))
    assert cluster.image.cluster_id == "abc"
    assert cluster.image.controller == ControllerInfo(1, 5)
    assert cluster.delta.controller_changed
    cluster.commit(Delete("controller"))
    assert cluster.image.controller is None


def test_documents_and_fields_of_a_newer_broker_are_skipped() -> None:
    cluster = Cluster()
    cluster.commit(
        Create("moons/europa", b"?"),
        Create("configs/clients/x", b"?"),
        Create("cluster", b'{"cluster_id":"abc","moons":79}'),
    )
    assert cluster.image.cluster_id == "abc"


@pytest.mark.parametrize(
    ("key", "value"), [("topics/a", b"{}"), ("partitions/a/x", b"{}"), ("brokers/1", b"?")]
)
def test_a_damaged_document_is_named(key: str, value: bytes) -> None:
    with pytest.raises(StoreError, match=key):
        Image().apply([Change(key, value, 0, 1)])


_NAMES = st.sampled_from(["a", "b.c", "b_c"])


@st.composite
def _documents(draw: st.DrawFn) -> Op:
    name, index = draw(_NAMES), draw(st.integers(0, 2))
    number = draw(st.integers(1, 3))
    # An id belongs to one name, as everywhere.
    topic_id = UUID(int=number * 10 + len(name) + ("." in name))
    puts: list[Op] = [
        Put(topic_key(name), _topic(name, topic_id, index + 1)),
        Put(topic_key(name), _topic(name, topic_id, 1, retention="1")),
        Put(partition_key(name, index), _state(topic_id, leader=number)),
        Put(broker_key(number), encode(BrokerRegistration(number, []))),
        Put(broker_configs_key(number), encode(Configs({"x": str(index)}))),
        Put(broker_configs_key(None), encode(Configs({"x": str(index)}))),
        Put(group_configs_key(f"g/{index}"), encode(Configs({"x": str(number)}))),
        Put(client_metrics_configs_key(f"m/{index}"), encode(Configs({"x": str(number)}))),
        Put(deleted_topic_key(topic_id), name.encode()),
        Put("controller", encode(ControllerInfo(number, index))),
        Put("cluster", encode(ClusterIdentity(name))),
    ]
    put = draw(st.sampled_from(puts))
    return Delete(put.key) if draw(st.booleans()) else put


@given(st.lists(st.lists(_documents(), max_size=6), max_size=10))
def test_applying_changes_gives_the_image_of_the_snapshot(commits: list[list[Op]]) -> None:
    cluster = Cluster()
    for ops in commits:
        before = Image.of(cluster.model.snapshot())
        present = set(cluster.model.documents)
        possible: list[Op] = []
        for op in ops:
            if isinstance(op, Delete) and op.key not in present:
                continue
            (present.discard if isinstance(op, Delete) else present.add)(op.key)
            possible.append(op)
        cluster.commit(*possible)
        _check_delta(before, cluster)


@given(
    st.lists(st.lists(_documents(), max_size=6), max_size=5),
    st.lists(st.lists(_documents(), max_size=6), max_size=5),
)
def test_the_changes_to_a_snapshot_lead_there_from_any_image(
    some: list[list[Op]], others: list[list[Op]]
) -> None:
    images = []
    for commits in (some, others):
        cluster = Cluster()
        for ops in commits:
            for op in ops:
                if not isinstance(op, Delete) or op.key in cluster.model.documents:
                    cluster.commit(op)
        images.append(cluster)
    known, stored = images
    known.image.apply(known.image.changes_to(stored.model.snapshot()))
    assert known.image == Image.of(stored.model.snapshot())


def test_a_snapshot_gives_the_difference_since_the_last_watch() -> None:
    cluster = Cluster()
    cluster.commit(
        Create(topic_key("kept"), _topic("kept", FIRST)),
        Create(topic_key("gone"), _topic("gone", SECOND)),
        Create(partition_key("gone", 0), _state(SECOND)),
        Create(topic_key("lost"), _topic("lost", THIRD)),
        Create(broker_key(1), encode(BrokerRegistration(1, []))),
        Create(broker_key(2), encode(BrokerRegistration(2, []))),
    )
    cluster.model.commit(
        [
            Delete(topic_key("gone")),
            Delete(partition_key("gone", 0)),
            Create(deleted_topic_key(SECOND), b"gone"),
            Delete(topic_key("lost")),
            Delete(broker_key(1)),
            Delete(broker_key(2)),
            Create(broker_key(2), encode(BrokerRegistration(2, []))),
        ]
    )
    delta = cluster.image.apply(cluster.image.changes_to(cluster.model.snapshot()))
    assert [topic.name for topic in delta.deleted_topics] == ["gone"]
    assert [topic.name for topic in delta.missing_topics] == ["lost"]
    assert [partition.topic for partition in delta.deleted_partitions] == ["gone"]
    assert not delta.created_topics
    assert not delta.changed_topics
    assert {broker.id for broker in delta.brokers_down} == {1, 2}
    assert [broker.id for broker in delta.brokers_up] == [2], "it came back in another life"


def _check_delta(before: Image, cluster: Cluster) -> None:
    after, delta = cluster.image, cluster.delta
    assert {one.id for one in delta.created_topics} == set(after.topics_by_id) - set(
        before.topics_by_id
    )
    gone = set(before.topics_by_id) - set(after.topics_by_id)
    assert {one.id for one in delta.deleted_topics} == gone & set(after.deleted_topics)
    assert {one.id for one in delta.missing_topics} == gone - set(after.deleted_topics)
    assert {one.id for one in delta.changed_topics} == {
        topic.id
        for topic in after.topics.values()
        if topic.id in before.topics_by_id and before.topics_by_id[topic.id] != topic
    }
    assert {(one.topic, one.index) for one in delta.changed_partitions} == {
        key for key, one in after.partitions.items() if before.partitions.get(key) != one
    }
    assert {(one.topic, one.index) for one in delta.deleted_partitions} == set(
        before.partitions
    ) - set(after.partitions)
    assert {one.id for one in delta.brokers_up} == {
        key for key, one in after.brokers.items() if before.brokers.get(key) != one
    }
    assert set(delta.changed_broker_configs) == {
        key
        for key in set(before.broker_configs) | set(after.broker_configs)
        if before.broker_configs.get(key) != after.broker_configs.get(key)
    }


@pytest.mark.parametrize("name", ["..", ".", "a/b", "../../etc", "", "a b", "x" * 250])
def test_a_topic_with_an_illegal_name_is_skipped(name: str) -> None:
    cluster = Cluster()
    cluster.commit(
        Create(topic_key(name), _topic(name, FIRST)),
        Create(partition_key(name, 0), _state(FIRST)),
        Create(topic_key("good"), _topic("good", SECOND)),
    )
    assert list(cluster.image.topics) == ["good"]
    assert not cluster.image.partitions
    assert cluster.delta.created_topics == [cluster.image.topics["good"]]
    cluster.commit(Delete(topic_key(name)), Delete(partition_key(name, 0)))
    assert cluster.delta.deleted_partitions == []
