"""Broker settings of the coordinators: consumer groups, committed offsets, transactions."""

from ottla.config.definition import OneOf, Range
from ottla.config.rows import (
    AT_LEAST_0,
    AT_LEAST_1,
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    READ_ONLY,
    SHORT,
    STRING,
    broker,
)
from ottla.config.types import INT_MAX

COORDINATOR_CONFIGS = (
    broker(
        "group.min.session.timeout.ms", INT, 6000, None, MEDIUM, READ_ONLY,
        "The shortest session timeout that a member of a classic group may request.",
    ),
    broker(
        "group.max.session.timeout.ms", INT, 1_800_000, None, MEDIUM, READ_ONLY,
        "The longest session timeout that a member of a classic group may request.",
    ),
    broker(
        "group.initial.rebalance.delay.ms", INT, 3000, None, MEDIUM, READ_ONLY,
        "How long a new classic group waits for more members before its first rebalance.",
    ),
    broker(
        "group.max.size", INT, INT_MAX, AT_LEAST_1, MEDIUM, READ_ONLY,
        "The maximum number of members of a classic group.",
    ),
    broker(
        "group.consumer.session.timeout.ms", INT, 45_000, AT_LEAST_1, MEDIUM, READ_ONLY,
        "A member of a consumer group without a heartbeat for this long is removed.",
    ),
    broker(
        "group.consumer.min.session.timeout.ms", INT, 45_000, AT_LEAST_1, MEDIUM, READ_ONLY,
        "The smallest session timeout that a group may set.",
    ),
    broker(
        "group.consumer.max.session.timeout.ms", INT, 60_000, AT_LEAST_1, MEDIUM, READ_ONLY,
        "The largest session timeout that a group may set.",
    ),
    broker(
        "group.consumer.heartbeat.interval.ms", INT, 5000, AT_LEAST_1, MEDIUM, READ_ONLY,
        "The heartbeat interval given to members of a consumer group.",
    ),
    broker(
        "group.consumer.min.heartbeat.interval.ms", INT, 5000, AT_LEAST_1, MEDIUM, READ_ONLY,
        "The smallest heartbeat interval that a group may set.",
    ),
    broker(
        "group.consumer.max.heartbeat.interval.ms", INT, 15_000, AT_LEAST_1, MEDIUM, READ_ONLY,
        "The largest heartbeat interval that a group may set.",
    ),
    broker(
        "group.consumer.max.size", INT, INT_MAX, AT_LEAST_1, MEDIUM, READ_ONLY,
        "The maximum number of members of a consumer group.",
    ),
    broker(
        "group.consumer.assignors", LIST, ("uniform", "range"), None, MEDIUM, READ_ONLY,
        "The assignors that the broker offers to consumer groups; the first is the default.",
    ),
    broker(
        "group.coordinator.rebalance.protocols", LIST, ("classic", "consumer", "streams"),
        OneOf(("consumer", "classic", "share", "streams")), MEDIUM, READ_ONLY,
        "The protocols that groups may use. Without `consumer` or `streams` its requests are "
        "refused with UNSUPPORTED_VERSION; `classic` is always there, and share groups are too.",
    ),
    broker(
        "group.consumer.migration.policy", STRING, "bidirectional",
        OneOf(("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"), case_insensitive=True), MEDIUM,
        READ_ONLY,
        "Whether a group may change between the classic and the consumer protocol while it has "
        "members.",
    ),
    broker(
        "group.consumer.regex.refresh.interval.ms", INT, 600_000, Range(10_000), MEDIUM, READ_ONLY,
        "How often regular expression subscriptions are resolved again.",
    ),
    broker(
        "group.consumer.assignment.interval.ms", INT, 1000, AT_LEAST_0, MEDIUM, CLUSTER_WIDE,
        "The shortest time between two assignments of a consumer group.",
    ),
    broker(
        "group.consumer.min.assignment.interval.ms", INT, 0, AT_LEAST_0, MEDIUM, READ_ONLY,
        "The smallest assignment interval that a group may set.",
    ),
    broker(
        "group.consumer.max.assignment.interval.ms", INT, 15_000, AT_LEAST_0, MEDIUM, READ_ONLY,
        "The largest assignment interval that a group may set.",
    ),
    broker(
        "offset.metadata.max.bytes", INT, 4096, None, HIGH, READ_ONLY,
        "The maximum size of the metadata of a committed offset.",
    ),
    broker(
        "offsets.commit.timeout.ms", INT, 5000, AT_LEAST_1, HIGH, READ_ONLY,
        "How long an offset commit waits for its replicas.",
    ),
    broker(
        "offsets.retention.minutes", INT, 10_080, AT_LEAST_1, HIGH, READ_ONLY,
        "How long the offsets of an empty group are kept.",
    ),
    broker(
        "offsets.retention.check.interval.ms", LONG, 600_000, AT_LEAST_1, HIGH, READ_ONLY,
        "How often expired offsets are removed.",
    ),
    broker(
        "offsets.topic.num.partitions", INT, 50, AT_LEAST_1, HIGH, READ_ONLY,
        "The number of partitions of `__consumer_offsets`; cannot be changed once the topic "
        "exists.",
    ),
    broker(
        "offsets.topic.replication.factor", SHORT, 3, AT_LEAST_1, HIGH, READ_ONLY,
        "The replication factor of `__consumer_offsets`. Unlike in Kafka, with fewer live "
        "brokers the topic is created with fewer replicas.",
    ),
    broker(
        "offsets.topic.segment.bytes", INT, 104_857_600, AT_LEAST_1, HIGH, READ_ONLY,
        "Segment size of `__consumer_offsets`.",
    ),
    broker(
        "transactional.id.expiration.ms", INT, 604_800_000, AT_LEAST_1, HIGH, READ_ONLY,
        "A transactional id expires after this long without a transaction.",
    ),
    broker(
        "transaction.max.timeout.ms", INT, 900_000, AT_LEAST_1, HIGH, READ_ONLY,
        "The longest transaction timeout that a producer may request.",
    ),
    broker(
        "transaction.state.log.num.partitions", INT, 50, AT_LEAST_1, HIGH, READ_ONLY,
        "The number of partitions of `__transaction_state`; cannot be changed once the topic "
        "exists.",
    ),
    broker(
        "transaction.state.log.replication.factor", SHORT, 3, AT_LEAST_1, HIGH, READ_ONLY,
        "The replication factor of `__transaction_state`. Unlike in Kafka, with fewer live "
        "brokers the topic is created with fewer replicas.",
    ),
    broker(
        "transaction.state.log.min.isr", INT, 2, AT_LEAST_1, HIGH, READ_ONLY,
        "`min.insync.replicas` of `__transaction_state`, at most its number of replicas.",
    ),
    broker(
        "transaction.state.log.segment.bytes", INT, 104_857_600, AT_LEAST_1, HIGH, READ_ONLY,
        "Segment size of `__transaction_state`.",
    ),
    broker(
        "transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3_600_000, AT_LEAST_1,
        LOW, READ_ONLY,
        "How often expired transactional ids are removed.",
    ),
    broker(
        "transaction.partition.verification.enable", BOOLEAN, True, None, LOW, CLUSTER_WIDE,
        "Verify with the transaction coordinator that a partition was added to the transaction, "
        "before the first transactional write to it.",
    ),
)  # fmt: skip
