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
        "The number of in-sync replicas that a write with acks=all requires; with fewer, it "
        "fails with NOT_ENOUGH_REPLICAS.",
    ),
    broker(
        "unclean.leader.election.enable", BOOLEAN, False, None, HIGH, CLUSTER_WIDE,
        "Allow a replica that is not in the ISR to be elected leader as a last resort; records "
        "may be lost.",
    ),
    broker(
        "auto.leader.rebalance.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Move leadership back to the preferred replicas automatically.",
    ),
    broker(
        "leader.imbalance.check.interval.seconds", LONG, 300, AT_LEAST_1, HIGH, READ_ONLY,
        "How often leaders are checked for automatic rebalancing.",
    ),
    broker(
        "controlled.shutdown.enable", BOOLEAN, True, None, MEDIUM, READ_ONLY,
        "Move leadership to other brokers before shutdown.",
    ),
    broker(
        "broker.heartbeat.interval.ms", INT, 2000, None, MEDIUM, READ_ONLY,
        "The interval between the heartbeats of a broker.",
    ),
    broker(
        "broker.session.timeout.ms", INT, 9000, None, MEDIUM, READ_ONLY,
        "A broker without a heartbeat for this long is considered dead.",
    ),
    broker(
        "initial.broker.registration.timeout.ms", INT, 60_000, None, MEDIUM, READ_ONLY,
        "How long a broker waits for ZooKeeper when it starts.",
    ),
    broker(
        "replica.selector.class", STRING, None, None, MEDIUM, READ_ONLY,
        "With `org.apache.kafka.common.replica.RackAwareReplicaSelector`, a consumer with a "
        "`client.rack` fetches from an in-sync replica in that rack.",
    ),
    broker(
        "replica.lag.time.max.ms", LONG, 30_000, None, HIGH, READ_ONLY,
        "A follower that has not caught up for this long is removed from the ISR.",
    ),
    broker(
        "replica.fetch.min.bytes", INT, 1, None, HIGH, READ_ONLY,
        "The minimum bytes that a follower's fetch waits for.",
    ),
    broker(
        "replica.fetch.wait.max.ms", INT, 500, None, HIGH, READ_ONLY,
        "The maximum wait of a follower's fetch; at most `replica.lag.time.max.ms`.",
    ),
    broker(
        "replica.fetch.max.bytes", INT, 1_048_576, AT_LEAST_0, MEDIUM, READ_ONLY,
        "The maximum bytes of one partition in a follower's fetch; a larger batch is still "
        "returned whole.",
    ),
    broker(
        "replica.fetch.response.max.bytes", INT, 10_485_760, AT_LEAST_0, MEDIUM, READ_ONLY,
        "The maximum bytes of a follower's fetch.",
    ),
    broker(
        "replica.fetch.backoff.ms", INT, 1000, AT_LEAST_0, MEDIUM, READ_ONLY,
        "How long a follower backs off after a failed fetch.",
    ),
    broker(
        "replica.socket.timeout.ms", INT, 30_000, None, HIGH, READ_ONLY,
        "How long a follower waits for a fetch response; at least `replica.fetch.wait.max.ms`.",
    ),
    broker(
        "replica.high.watermark.checkpoint.interval.ms", LONG, 5000, None, HIGH, READ_ONLY,
        "How often the high watermarks are checkpointed.",
    ),
)  # fmt: skip
