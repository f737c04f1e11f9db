"""Broker settings of the logs: the defaults behind the topic settings, flushing and cleaning."""

from ottla.config.definition import OneOf, Range, RangeOr
from ottla.config.rows import (
    AT_LEAST_0,
    AT_LEAST_1,
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PER_BROKER,
    READ_ONLY,
    STRING,
    broker,
)
from ottla.config.topic_configs import COMPRESSION
from ottla.config.types import LONG_MAX

_RETENTION = "log.retention.ms log.retention.minutes log.retention.hours"
_ROLL = "log.roll.ms log.roll.hours"
_JITTER = "log.roll.jitter.ms log.roll.jitter.hours"

LOG_CONFIGS = (
    broker(
        "log.dir", LIST, ("ottla-data",), None, HIGH, READ_ONLY,
        "The data folder, used when `log.dirs` is not set. Kafka's default is /tmp/kafka-logs; "
        "here it is `ottla-data` in the current folder.",
    ),
    broker(
        "log.dirs", LIST, None, None, HIGH, READ_ONLY,
        "The data folder. Kafka takes several; Ottla keeps everything in one.",
    ),
    broker(
        "cordoned.log.dirs", LIST, (), None, MEDIUM, PER_BROKER,
        "With the data folder, or `*`, this broker gets no new replicas, except those that are "
        "assigned to it by name (KIP-1066). Nothing that is there is moved.",
    ),
    broker(
        "log.segment.bytes", INT, 1_073_741_824, Range(1_048_576), HIGH, CLUSTER_WIDE,
        "The size at which a new segment is rolled.",
    ),
    broker(
        "log.roll.ms", LONG, None, None, HIGH, CLUSTER_WIDE,
        "The age at which a new segment is rolled even if the old one is not full. If not set, "
        "`log.roll.hours` is used.",
        _ROLL,
    ),
    broker(
        "log.roll.hours", INT, 168, AT_LEAST_1, HIGH, READ_ONLY,
        "`log.roll.ms` in hours; `log.roll.ms` takes precedence.",
        _ROLL,
    ),
    broker(
        "log.roll.jitter.ms", LONG, None, None, HIGH, CLUSTER_WIDE,
        "The largest random jitter subtracted from `log.roll.ms`.",
        _JITTER,
    ),
    broker(
        "log.roll.jitter.hours", INT, 0, AT_LEAST_0, HIGH, READ_ONLY,
        "`log.roll.jitter.ms` in hours; `log.roll.jitter.ms` takes precedence.",
        _JITTER,
    ),
    broker(
        "log.retention.ms", LONG, None, None, HIGH, CLUSTER_WIDE,
        "How long records are kept; -1 for no limit. If not set, `log.retention.minutes` is used.",
        _RETENTION,
    ),
    broker(
        "log.retention.minutes", INT, None, None, HIGH, READ_ONLY,
        "`log.retention.ms` in minutes. If not set, `log.retention.hours` is used.",
        _RETENTION,
    ),
    broker(
        "log.retention.hours", INT, 168, None, HIGH, READ_ONLY,
        "`log.retention.ms` in hours; `log.retention.ms` and `log.retention.minutes` take "
        "precedence.",
        _RETENTION,
    ),
    broker(
        "log.retention.bytes", LONG, -1, None, HIGH, CLUSTER_WIDE,
        "The size past which a partition's oldest segments are deleted; -1 for no limit.",
    ),
    broker(
        "log.retention.check.interval.ms", LONG, 300_000, AT_LEAST_1, MEDIUM, READ_ONLY,
        "How often logs are checked for segments to delete.",
    ),
    broker(
        "log.cleanup.policy", LIST, ("delete",), OneOf(("compact", "delete")), MEDIUM, CLUSTER_WIDE,
        "What happens to old segments: delete, compact, or both.",
    ),
    broker(
        "log.segment.delete.delay.ms", LONG, 60_000, AT_LEAST_0, HIGH, CLUSTER_WIDE,
        "How long the renamed files of a deleted segment stay on disk.",
    ),
    broker(
        "log.index.interval.bytes", INT, 4096, AT_LEAST_0, MEDIUM, CLUSTER_WIDE,
        "How many bytes of log lie between two entries of a segment's indexes.",
    ),
    broker(
        "log.index.size.max.bytes", INT, 10_485_760, Range(4), MEDIUM, CLUSTER_WIDE,
        "The largest size of a segment's index.",
    ),
    broker(
        "log.preallocate", BOOLEAN, False, None, MEDIUM, CLUSTER_WIDE,
        "Accepted without effect: segments are not preallocated.",
    ),
    broker(
        "log.message.timestamp.type", STRING, "CreateTime", OneOf(("CreateTime", "LogAppendTime")),
        MEDIUM, CLUSTER_WIDE,
        "Whether a record keeps its producer's timestamp or gets the broker's at append.",
    ),
    broker(
        "log.message.timestamp.before.max.ms", LONG, LONG_MAX, AT_LEAST_0, MEDIUM, CLUSTER_WIDE,
        "How far a record's timestamp may be behind the broker's clock.",
    ),
    broker(
        "log.message.timestamp.after.max.ms", LONG, 3_600_000, AT_LEAST_0, MEDIUM, CLUSTER_WIDE,
        "How far a record's timestamp may be ahead of the broker's clock.",
    ),
    broker(
        "log.local.retention.ms", LONG, -2, Range(-2), MEDIUM, CLUSTER_WIDE,
        "Accepted without effect: Ottla has no tiered storage.",
    ),
    broker(
        "log.local.retention.bytes", LONG, -2, Range(-2), MEDIUM, CLUSTER_WIDE,
        "Accepted without effect: Ottla has no tiered storage.",
    ),
    broker(
        "message.max.bytes", INT, 1_048_588, AT_LEAST_0, HIGH, CLUSTER_WIDE,
        "The largest record batch that is accepted, in bytes, after compression.",
    ),
    broker(
        "compression.type", STRING, "producer", COMPRESSION, HIGH, CLUSTER_WIDE,
        "The compression codec of batches in the log; `producer` keeps the producer's codec.",
    ),
    broker(
        "compression.gzip.level", INT, -1, RangeOr(1, 9, -1), MEDIUM, CLUSTER_WIDE,
        "The gzip compression level, if `compression.type` is `gzip`; -1 is the default of gzip.",
    ),
    broker(
        "compression.lz4.level", INT, 9, Range(1, 17), MEDIUM, CLUSTER_WIDE,
        "The lz4 compression level, if `compression.type` is `lz4`; 9 is the fastest.",
    ),
    broker(
        "compression.zstd.level", INT, 3, Range(-131072, 22), MEDIUM, CLUSTER_WIDE,
        "The zstd compression level, if `compression.type` is `zstd`.",
    ),
    broker(
        "log.flush.interval.messages", LONG, LONG_MAX, AT_LEAST_1, HIGH, CLUSTER_WIDE,
        "The number of messages after which a partition's log is flushed to disk.",
    ),
    broker(
        "log.flush.interval.ms", LONG, None, None, HIGH, CLUSTER_WIDE,
        "The longest time that appended data stays unflushed. If not set, "
        "`log.flush.scheduler.interval.ms` is used.",
        "log.flush.interval.ms log.flush.scheduler.interval.ms",
    ),
    broker(
        "log.flush.scheduler.interval.ms", LONG, LONG_MAX, None, HIGH, READ_ONLY,
        "How often the flusher checks whether a log needs to be flushed.",
    ),
    broker(
        "log.flush.offset.checkpoint.interval.ms", INT, 60_000, AT_LEAST_0, HIGH, READ_ONLY,
        "How often the recovery points are checkpointed.",
    ),
    broker(
        "log.cleaner.enable", BOOLEAN, True, None, MEDIUM, READ_ONLY,
        "Whether the log cleaner runs.",
    ),
    broker(
        "log.cleaner.threads", INT, 1, AT_LEAST_0, MEDIUM, CLUSTER_WIDE,
        "The number of logs that are compacted at the same time.",
    ),
    broker(
        "log.cleaner.io.max.bytes.per.second", DOUBLE, 1.7976931348623157e308, None, MEDIUM,
        CLUSTER_WIDE,
        "The maximum bytes per second that the cleaner reads and writes.",
    ),
    broker(
        "log.cleaner.dedupe.buffer.size", LONG, 134_217_728, None, MEDIUM, CLUSTER_WIDE,
        "Memory for the deduplication of keys, of all cleaner threads together.",
    ),
    broker(
        "log.cleaner.backoff.ms", LONG, 15_000, AT_LEAST_0, MEDIUM, CLUSTER_WIDE,
        "How long the cleaner sleeps when there is nothing to compact.",
    ),
    broker(
        "log.cleaner.min.cleanable.ratio", DOUBLE, 0.5, Range(0, 1), MEDIUM, CLUSTER_WIDE,
        "The ratio of dirty (uncompacted) to all bytes of a log at which it is compacted.",
    ),
    broker(
        "log.cleaner.delete.retention.ms", LONG, 86_400_000, AT_LEAST_0, MEDIUM, CLUSTER_WIDE,
        "How long tombstones are kept in compacted topics.",
    ),
    broker(
        "log.cleaner.min.compaction.lag.ms", LONG, 0, AT_LEAST_0, MEDIUM, CLUSTER_WIDE,
        "The shortest time that a record stays uncompacted.",
    ),
    broker(
        "log.cleaner.max.compaction.lag.ms", LONG, LONG_MAX, AT_LEAST_1, MEDIUM, CLUSTER_WIDE,
        "The longest time that a record stays uncompacted.",
    ),
    broker(
        "producer.id.expiration.ms", INT, 86_400_000, AT_LEAST_1, LOW, CLUSTER_WIDE,
        "A partition expires the state of a producer id after this long without a write.",
    ),
)  # fmt: skip
