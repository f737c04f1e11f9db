"""Topics, settings, offsets and brokers: what an administrator asks a cluster.

Rules kept here:
1. Each method is one question or one change; it is retried where Kafka's error says so.
2. What the cluster refuses is raised as KafkaError with the broker's own words.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from ottla.client.cluster import Client, TopicPartition, UnknownTopic
from ottla.client.errors import check, error
from ottla.wire.config_resource_type import ConfigResourceType
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.metadata import MetadataResponseBroker, MetadataResponseTopic

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
"""Offset specs beside timestamps: the end, the start, and the record with the largest timestamp."""

BROKER_DEFAULT = -1
"""Let the broker choose: `num.partitions`, `default.replication.factor`."""

_SET, _DELETE = 0, 1
_SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
_TYPES = {
    1: "BOOLEAN",
    2: "STRING",
    3: "INT",
    4: "SHORT",
    5: "LONG",
    6: "DOUBLE",
    7: "LIST",
    8: "CLASS",
    9: "PASSWORD",
}


class Resource(NamedTuple):
    """A topic, a group, a broker by its id, or with an empty name all brokers."""

    type: ConfigResourceType
    name: str


class PartitionInfo(NamedTuple):
    """A partition and its replicas; the leader is -1 where there is none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]


class TopicDescription(NamedTuple):
    """A topic and its partitions."""

    name: str
    id: UUID
    internal: bool
    partitions: list[PartitionInfo]


class Setting(NamedTuple):
    """One setting with where its value comes from (Kafka's names for sources and types)."""

    name: str
    value: str | None
    source: str
    type: str
    read_only: bool
    sensitive: bool
    documentation: str | None


class OffsetAt(NamedTuple):
    """An offset, and the timestamp of its record where one was looked for (else -1).

    The offset is -1 where there is no such record.
    """

    offset: int
    timestamp: int


class BrokerInfo(NamedTuple):
    """A broker and where it listens."""

    id: int
    host: str
    port: int
    rack: str | None


class ClusterInfo(NamedTuple):
    """The cluster's brokers; the controller is -1 where none is known."""

    cluster_id: str
    controller: int
    brokers: list[BrokerInfo]


class Admin:
    """Asks and changes a cluster through a client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def _timeout_ms(self) -> int:
        return int(self._client.settings.request_timeout * 1000)

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = BROKER_DEFAULT,
        replication_factor: int = BROKER_DEFAULT,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=[
                CreatableTopicConfig(name=key, value=value)
                for key, value in (settings or {}).items()
            ],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=self._timeout_ms)

        def attempt() -> None:
            for item in self._client.call(request, CreateTopicsResponse).topics:
                check(item.error_code, item.error_message, f"topic {name}")

        self._client.retry(attempt)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records."""
        request = DeleteTopicsRequest(
            topic_names=[name],
            topics=[DeleteTopicState(name=name)],
            timeout_ms=self._timeout_ms,
        )

        def attempt() -> None:
            for item in self._client.call(request, DeleteTopicsResponse).responses:
                if item.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise UnknownTopic(name)
                check(item.error_code, item.error_message, f"topic {name}")

        self._client.retry(attempt)
        self._client.forget(name)

    def create_partitions(self, topic: str, total: int, *, validate_only: bool = False) -> None:
        """Raise a topic's number of partitions to `total`; or only ask whether that can be."""
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=total, assignments=None)],
            timeout_ms=self._timeout_ms,
            validate_only=validate_only,
        )

        def attempt() -> None:
            for item in self._client.call(request, CreatePartitionsResponse).results:
                if item.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise UnknownTopic(topic)
                check(item.error_code, item.error_message, f"topic {topic}")

        self._client.retry(attempt)
        self._client.forget(topic)

    def list_topics(self) -> list[TopicDescription]:
        """All topics, by name."""
        found = self._client.retry(lambda: self._client.metadata(None)).topics
        topics = [_topic_info(item) for item in found if item.error_code == ErrorCode.NONE]
        return sorted(topics, key=lambda topic: topic.name)

    def describe_topics(self, names: Sequence[str]) -> list[TopicDescription]:
        """Some topics, in the order of their names given; each must exist."""
        for name in names:
            self._client.forget(name)
            self._client.topic(name)

        def attempt() -> dict[str, TopicDescription]:
            topics = {}
            for item in self._client.metadata(names).topics:
                check(item.error_code, None, f"topic {item.name}")
                topics[item.name or ""] = _topic_info(item)
            return topics

        found = self._client.retry(attempt)
        return [found[name] for name in names]

    def describe_settings(
        self, resource: Resource, names: Sequence[str] | None = None, *, docs: bool = False
    ) -> list[Setting]:
        """The settings of a topic or broker, by name: all, or some; with their documentation."""
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configuration_keys=None if names is None else list(names),
                )
            ],
            include_documentation=docs,
        )

        node_id = self._responsible(resource)

        def attempt() -> list[Setting]:
            reply = self._client.call(request, DescribeConfigsResponse, node_id)
            (result,) = reply.results
            _check_resource(result.error_code, result.error_message, resource)
            return sorted(map(_setting, result.configs))

        return self._client.retry(attempt)

    def alter_settings(
        self,
        resource: Resource,
        changes: Mapping[str, str] | None = None,
        *,
        delete: Iterable[str] = (),
    ) -> None:
        """Give settings new values, or (delete) back to what they would be by default."""
        configs = [
            AlterableConfig(name=name, config_operation=_SET, value=value)
            for name, value in (changes or {}).items()
        ]
        configs += [
            AlterableConfig(name=name, config_operation=_DELETE, value=None) for name in delete
        ]
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=resource.type, resource_name=resource.name, configs=configs
                )
            ]
        )

        node_id = self._responsible(resource)

        def attempt() -> None:
            for item in self._client.call(
                request, IncrementalAlterConfigsResponse, node_id
            ).responses:
                _check_resource(item.error_code, item.error_message, resource)

        self._client.retry(attempt)

    def partitions(self, topic: str) -> list[TopicPartition]:
        """All partitions of a topic."""
        return [TopicPartition(topic, index) for index in sorted(self._client.topic(topic).leaders)]

    def list_offsets(
        self, specs: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAt]:
        """For each partition the offset of LATEST, EARLIEST, MAX_TIMESTAMP, or of the first record
        at or after a timestamp (milliseconds). With `read_committed`, the end is the last stable
        offset.
        """

        def attempt() -> dict[TopicPartition, OffsetAt]:
            found = {}
            for leader, partitions in self._client.by_leader(specs).items():
                topics: dict[str, ListOffsetsTopic] = {}
                for name, index in partitions:
                    topics.setdefault(name, ListOffsetsTopic(name=name)).partitions.append(
                        ListOffsetsPartition(
                            partition_index=index, timestamp=specs[TopicPartition(name, index)]
                        )
                    )
                request = ListOffsetsRequest(
                    replica_id=-1,
                    isolation_level=int(read_committed),
                    topics=list(topics.values()),
                    timeout_ms=self._timeout_ms,
                )
                for topic in self._client.call(request, ListOffsetsResponse, leader).topics:
                    for item in topic.partitions:
                        partition = TopicPartition(topic.name, item.partition_index)
                        self._check_partition(item.error_code, partition)
                        found[partition] = OffsetAt(item.offset, item.timestamp)
            return found

        return self._client.retry(attempt)

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records before an offset (-1: all up to the end); returns the new starts."""

        def attempt() -> dict[TopicPartition, int]:
            starts = {}
            for leader, partitions in self._client.by_leader(before).items():
                topics: dict[str, DeleteRecordsTopic] = {}
                for name, index in partitions:
                    topics.setdefault(name, DeleteRecordsTopic(name=name)).partitions.append(
                        DeleteRecordsPartition(
                            partition_index=index, offset=before[TopicPartition(name, index)]
                        )
                    )
                request = DeleteRecordsRequest(
                    topics=list(topics.values()), timeout_ms=self._timeout_ms
                )
                for topic in self._client.call(request, DeleteRecordsResponse, leader).topics:
                    for item in topic.partitions:
                        partition = TopicPartition(topic.name, item.partition_index)
                        self._check_partition(item.error_code, partition)
                        starts[partition] = item.low_watermark
            return starts

        return self._client.retry(attempt)

    def describe_cluster(self) -> ClusterInfo:
        """The cluster's id, controller and brokers."""
        reply = self._client.retry(
            lambda: self._client.call(DescribeClusterRequest(), DescribeClusterResponse)
        )
        check(reply.error_code, reply.error_message)
        brokers = [
            BrokerInfo(item.broker_id, item.host, item.port, item.rack) for item in reply.brokers
        ]
        return ClusterInfo(reply.cluster_id, reply.controller_id, sorted(brokers))

    def _responsible(self, resource: Resource) -> int | None:
        """The broker that must be asked: a broker's own settings are known to itself only. One that
        nobody knows is a mistake, and not waited for like one that is down for a moment.
        """
        if resource.type is not ConfigResourceType.BROKER or not resource.name:
            return None
        node_id = int(resource.name)
        known = [item.node_id for item in self._client.retry(self._brokers)]
        if node_id not in known:
            there = ", ".join(map(str, sorted(known)))
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"there is no broker {node_id}; there are {there}"
            )
        return node_id

    def _brokers(self) -> list[MetadataResponseBroker]:
        return self._client.metadata([]).brokers

    def _check_partition(self, error_code: int, partition: TopicPartition) -> None:
        if error_code:
            self._client.forget(partition.topic)
            raise error(
                error_code, None, f"partition {partition.partition} of topic {partition.topic}"
            )


def _check_resource(error_code: int, message: str | None, resource: Resource) -> None:
    if error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise UnknownTopic(resource.name)
    is_all = resource == Resource(ConfigResourceType.BROKER, "")
    about = "all brokers" if is_all else f"{resource.type.name.lower()} {resource.name}"
    check(error_code, message, about)


def _topic_info(found: MetadataResponseTopic) -> TopicDescription:
    partitions = [
        PartitionInfo(
            item.partition_index,
            item.leader_id,
            item.leader_epoch,
            item.replica_nodes,
            item.isr_nodes,
            item.offline_replicas,
        )
        for item in found.partitions
    ]
    return TopicDescription(found.name or "", found.topic_id, found.is_internal, sorted(partitions))


def _setting(item: DescribeConfigsResourceResult) -> Setting:
    return Setting(
        item.name,
        item.value,
        _SOURCES.get(item.config_source, "UNKNOWN"),
        _TYPES.get(item.config_type, "UNKNOWN"),
        item.read_only,
        item.is_sensitive,
        item.documentation,
    )
