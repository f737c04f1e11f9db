"""Broker settings of replication and leadership."""

from ottla.config.rows import (
    AT_LEAST_0,
    AT_LEAST_1,
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LONG,
    MEDIUM,
    READ_ONLY,
    STRING,
    broker,
)

REPLICA_CONFIGS = (
    broker(
        "min.insync.replicas", INT, 1, AT_LEAST_1, HIGH, CLUSTER_WIDE,
        "With acks=all, a write needs this many in-sync replicas, or it is refused.",
    ),
    broker(
        "unclean.leader.election.enable", BOOLEAN, False, None, HIGH, CLUSTER_WIDE,
        "Let a replica that is not in sync become leader when no other is left; records may be "
        "lost.",
    ),
    broker(
        "auto.leader.rebalance.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Move leadership back to the preferred replicas by itself.",
    ),
    broker(
        "leader.imbalance.check.interval.seconds", LONG, 300, AT_LEAST_1, HIGH, READ_ONLY,
        "How often leadership is looked at for rebalancing.",
    ),
    broker(
        "controlled.shutdown.enable", BOOLEAN, True, None, MEDIUM, READ_ONLY,
        "Hand leadership to other brokers before stopping.",
    ),
    broker(
        "broker.heartbeat.interval.ms", INT, 2000, None, MEDIUM, READ_ONLY,
        "How often a broker shows that it is alive.",
    ),
    broker(
        "broker.session.timeout.ms", INT, 9000, None, MEDIUM, READ_ONLY,
        "A broker that was silent for this long counts as dead.",
    ),
    broker(
        "replica.selector.class", STRING, None, None, MEDIUM, READ_ONLY,
        "With `org.apache.kafka.common.replica.RackAwareReplicaSelector` a consumer that names its "
        "`client.rack` is sent to an in-sync replica of that rack.",
    ),
    broker(
        "replica.lag.time.max.ms", LONG, 30_000, None, HIGH, READ_ONLY,
        "A follower that has not caught up for this long leaves the in-sync replicas.",
    ),
    broker(
        "replica.fetch.min.bytes", INT, 1, None, HIGH, READ_ONLY,
        "A follower's fetch waits for this many bytes.",
    ),
    broker(
        "replica.fetch.wait.max.ms", INT, 500, None, HIGH, READ_ONLY,
        "How long a follower's fetch waits; at most `replica.lag.time.max.ms`.",
    ),
    broker(
        "replica.fetch.max.bytes", INT, 1_048_576, AT_LEAST_0, MEDIUM, READ_ONLY,
        "How much of one partition a follower fetches at once; a larger batch still comes whole.",
    ),
    broker(
        "replica.fetch.response.max.bytes", INT, 10_485_760, AT_LEAST_0, MEDIUM, READ_ONLY,
        "How much a follower fetches at once in all.",
    ),
    broker(
        "replica.fetch.backoff.ms", INT, 1000, AT_LEAST_0, MEDIUM, READ_ONLY,
        "How long a follower waits after a failed fetch.",
    ),
    broker(
        "replica.socket.timeout.ms", INT, 30_000, None, HIGH, READ_ONLY,
        "How long a follower waits for a fetch to be answered; at least "
        "`replica.fetch.wait.max.ms`.",
    ),
    broker(
        "replica.high.watermark.checkpoint.interval.ms", LONG, 5000, None, HIGH, READ_ONLY,
        "How often the high watermarks are written down.",
    ),
)  # fmt: skip
