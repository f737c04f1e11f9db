"""Broker settings of share groups (KIP-932): the groups, their partitions, and their state."""

from ottla.config.definition import ConfigDef, Range
from ottla.config.rows import (
    AT_LEAST_0,
    AT_LEAST_1,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LIST,
    LOW,
    MEDIUM,
    READ_ONLY,
    SHORT,
    broker,
)

SHARE_CONFIGS: tuple[ConfigDef, ...] = (
    broker(
        "group.share.session.timeout.ms", INT, 45_000, AT_LEAST_1, MEDIUM,
        READ_ONLY,
        "A member of a share group without a heartbeat for this long is removed.",
    ),
    broker(
        "group.share.min.session.timeout.ms", INT, 45_000, AT_LEAST_1, MEDIUM,
        READ_ONLY,
        "The smallest session timeout that a share group may set.",
    ),
    broker(
        "group.share.max.session.timeout.ms", INT, 60_000, AT_LEAST_1, MEDIUM,
        READ_ONLY,
        "The largest session timeout that a share group may set.",
    ),
    broker(
        "group.share.heartbeat.interval.ms", INT, 5000, AT_LEAST_1, MEDIUM,
        READ_ONLY,
        "The heartbeat interval given to members of a share group.",
    ),
    broker(
        "group.share.min.heartbeat.interval.ms", INT, 5000, AT_LEAST_1, MEDIUM,
        READ_ONLY,
        "The smallest heartbeat interval that a share group may set.",
    ),
    broker(
        "group.share.max.heartbeat.interval.ms", INT, 15_000, AT_LEAST_1, MEDIUM,
        READ_ONLY,
        "The largest heartbeat interval that a share group may set.",
    ),
    broker(
        "group.share.max.size", INT, 200, Range(1, 1000), MEDIUM,
        READ_ONLY,
        "The maximum number of members of a share group.",
    ),
    broker(
        "group.share.assignors", LIST, ("simple",), None, MEDIUM,
        READ_ONLY,
        "The assignor of share groups. There is one: `simple`.",
    ),
    broker(
        "group.share.assignment.interval.ms", INT, 1000, AT_LEAST_0, MEDIUM,
        CLUSTER_WIDE,
        "The shortest time between two assignments of a share group.",
    ),
    broker(
        "group.share.min.assignment.interval.ms", INT, 0, AT_LEAST_0, MEDIUM,
        READ_ONLY,
        "The smallest assignment interval that a share group may set.",
    ),
    broker(
        "group.share.max.assignment.interval.ms", INT, 15_000, AT_LEAST_0, MEDIUM,
        READ_ONLY,
        "The largest assignment interval that a share group may set.",
    ),
    broker(
        "group.share.initialize.retry.interval.ms", INT, 30_000, AT_LEAST_1, LOW,
        READ_ONLY,
        "How long the group coordinator waits before it initializes the state of share "
        "partitions again.",
        internal=True,
    ),
    broker(
        "group.share.delivery.count.limit", INT, 5, Range(2, 10), MEDIUM,
        READ_ONLY,
        "The maximum number of deliveries of a record to a share group.",
    ),
    broker(
        "group.share.min.delivery.count.limit", INT, 2, Range(2, 5), MEDIUM,
        READ_ONLY,
        "The smallest delivery count limit that a share group may set.",
    ),
    broker(
        "group.share.max.delivery.count.limit", INT, 10, Range(5, 25), MEDIUM,
        READ_ONLY,
        "The largest delivery count limit that a share group may set.",
    ),
    broker(
        "group.share.record.lock.duration.ms", INT, 30_000, Range(1000, 3_600_000), MEDIUM,
        READ_ONLY,
        "How long a consumer of a share group may hold a record.",
    ),
    broker(
        "group.share.min.record.lock.duration.ms", INT, 15_000, Range(1000, 30_000), MEDIUM,
        READ_ONLY,
        "The shortest lock duration that a share group may set.",
    ),
    broker(
        "group.share.max.record.lock.duration.ms", INT, 60_000, Range(30_000, 3_600_000), MEDIUM,
        READ_ONLY,
        "The longest lock duration that a share group may set.",
    ),
    broker(
        "group.share.partition.max.record.locks", INT, 2000, Range(100, 10_000), MEDIUM,
        READ_ONLY,
        "The maximum number of records in flight in one share partition.",
    ),
    broker(
        "group.share.min.partition.max.record.locks", INT, 100, Range(100, 2000), MEDIUM,
        READ_ONLY,
        "The smallest limit of records in flight that a share group may set.",
    ),
    broker(
        "group.share.max.partition.max.record.locks", INT, 4000, Range(2000, 10_000), MEDIUM,
        READ_ONLY,
        "The largest limit of records in flight that a share group may set.",
    ),
    broker(
        "group.share.max.share.sessions", INT, 2000, AT_LEAST_1, MEDIUM,
        READ_ONLY,
        "The maximum number of share sessions of a broker.",
    ),
    broker(
        "share.coordinator.state.topic.num.partitions", INT, 50, AT_LEAST_1, HIGH,
        READ_ONLY,
        "The number of partitions of `__share_group_state`; cannot be changed once the "
        "topic exists.",
    ),
    broker(
        "share.coordinator.state.topic.replication.factor", SHORT, 3, AT_LEAST_1, HIGH,
        READ_ONLY,
        "The replication factor of `__share_group_state`. Unlike in Kafka, with fewer "
        "live brokers the topic is created with fewer replicas.",
    ),
    broker(
        "share.coordinator.state.topic.min.isr", SHORT, 2, AT_LEAST_1, HIGH,
        READ_ONLY,
        "`min.insync.replicas` of `__share_group_state`, at most its number of replicas.",
    ),
    broker(
        "share.coordinator.state.topic.segment.bytes", INT, 104_857_600, AT_LEAST_1, HIGH,
        READ_ONLY,
        "Segment size of `__share_group_state`.",
    ),
    broker(
        "share.coordinator.snapshot.update.records.per.snapshot", INT, 500, Range(0, 500), MEDIUM,
        READ_ONLY,
        "The number of updates of a share partition's state between two snapshots of it.",
    ),
    broker(
        "share.coordinator.state.topic.prune.interval.ms", INT, 300_000, AT_LEAST_1, LOW,
        READ_ONLY,
        "How often records of `__share_group_state` that no replay needs are removed.",
        internal=True,
    ),
    broker(
        "share.coordinator.cold.partition.snapshot.interval.ms", INT, 300_000, AT_LEAST_1, LOW,
        READ_ONLY,
        "A share partition that was not written for this long gets a new snapshot, so "
        "that older records can be removed.",
        internal=True,
    ),
)  # fmt: skip
