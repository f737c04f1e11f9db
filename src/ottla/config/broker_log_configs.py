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
        "log.segment.bytes", INT, 1_073_741_824, Range(1_048_576), HIGH, CLUSTER_WIDE,
        "The size at which a segment is closed and a new one begun.",
    ),
    broker(
        "log.roll.ms", LONG, None, None, HIGH, CLUSTER_WIDE,
        "The age at which a segment is closed even when it is not full; without it, "
        "`log.roll.hours` counts.",
        _ROLL,
    ),
    broker(
        "log.roll.hours", INT, 168, AT_LEAST_1, HIGH, READ_ONLY,
        "`log.roll.ms` in hours; the one in milliseconds is stronger.",
        _ROLL,
    ),
    broker(
        "log.roll.jitter.ms", LONG, None, None, HIGH, CLUSTER_WIDE,
        "The most that is subtracted at random from a segment's age limit.",
        _JITTER,
    ),
    broker(
        "log.roll.jitter.hours", INT, 0, AT_LEAST_0, HIGH, READ_ONLY,
        "`log.roll.jitter.ms` in hours; the one in milliseconds is stronger.",
        _JITTER,
    ),
    broker(
        "log.retention.ms", LONG, None, None, HIGH, CLUSTER_WIDE,
        "How long records are kept; -1 for ever. Without it, `log.retention.minutes` counts.",
        _RETENTION,
    ),
    broker(
        "log.retention.minutes", INT, None, None, HIGH, READ_ONLY,
        "`log.retention.ms` in minutes; without it, `log.retention.hours` counts.",
        _RETENTION,
    ),
    broker(
        "log.retention.hours", INT, 168, None, HIGH, READ_ONLY,
        "`log.retention.ms` in hours; milliseconds and minutes are stronger.",
        _RETENTION,
    ),
    broker(
        "log.retention.bytes", LONG, -1, None, HIGH, CLUSTER_WIDE,
        "The size past which a partition's oldest segments are deleted; -1 for no limit.",
    ),
    broker(
        "log.retention.check.interval.ms", LONG, 300_000, AT_LEAST_1, MEDIUM, READ_ONLY,
        "How often the logs are looked through for segments to delete.",
    ),
    broker(
        "log.cleanup.policy", LIST, ("delete",), OneOf(("compact", "delete")), MEDIUM, CLUSTER_WIDE,
        "What happens to old segments: delete, compact, or both.",
    ),
    broker(
        "log.segment.delete.delay.ms", LONG, 60_000, AT_LEAST_0, HIGH, CLUSTER_WIDE,
        "How long a removed segment's renamed files stay on disk.",
    ),
    broker(
        "log.index.interval.bytes", INT, 4096, AT_LEAST_0, MEDIUM, CLUSTER_WIDE,
        "A segment's indexes get an entry about every so many bytes of log.",
    ),
    broker(
        "log.index.size.max.bytes", INT, 10_485_760, Range(4), MEDIUM, CLUSTER_WIDE,
        "The largest size of a segment's index.",
    ),
    broker(
        "log.preallocate", BOOLEAN, False, None, MEDIUM, CLUSTER_WIDE,
        "Kept and shown, without effect: a segment takes room as it grows.",
    ),
    broker(
        "log.message.timestamp.type", STRING, "CreateTime", OneOf(("CreateTime", "LogAppendTime")),
        MEDIUM, CLUSTER_WIDE,
        "Whether a record keeps its producer's timestamp or gets the broker's at append.",
    ),
    broker(
        "log.message.timestamp.before.max.ms", LONG, LONG_MAX, AT_LEAST_0, MEDIUM, CLUSTER_WIDE,
        "How far a record's timestamp may lie behind the broker's clock.",
    ),
    broker(
        "log.message.timestamp.after.max.ms", LONG, 3_600_000, AT_LEAST_0, MEDIUM, CLUSTER_WIDE,
        "How far a record's timestamp may lie ahead of the broker's clock.",
    ),
    broker(
        "log.local.retention.ms", LONG, -2, Range(-2), MEDIUM, CLUSTER_WIDE,
        "Part of tiered storage, which Ottla does not have: kept and shown, without effect.",
    ),
    broker(
        "log.local.retention.bytes", LONG, -2, Range(-2), MEDIUM, CLUSTER_WIDE,
        "Part of tiered storage, which Ottla does not have: kept and shown, without effect.",
    ),
    broker(
        "message.max.bytes", INT, 1_048_588, AT_LEAST_0, HIGH, CLUSTER_WIDE,
        "The largest record batch that is accepted, in bytes, after compression.",
    ),
    broker(
        "compression.type", STRING, "producer", COMPRESSION, HIGH, CLUSTER_WIDE,
        "The codec of batches in the log; `producer` keeps each in its producer's.",
    ),
    broker(
        "compression.gzip.level", INT, -1, RangeOr(1, 9, -1), MEDIUM, CLUSTER_WIDE,
        "The level of gzip, where `compression.type` is `gzip`; -1 is its default.",
    ),
    broker(
        "compression.lz4.level", INT, 9, Range(1, 17), MEDIUM, CLUSTER_WIDE,
        "The level of lz4, where `compression.type` is `lz4`; 9 is the fast one.",
    ),
    broker(
        "compression.zstd.level", INT, 3, Range(-131072, 22), MEDIUM, CLUSTER_WIDE,
        "The level of zstd, where `compression.type` is `zstd`.",
    ),
    broker(
        "log.flush.interval.messages", LONG, LONG_MAX, AT_LEAST_1, HIGH, CLUSTER_WIDE,
        "After this many unflushed messages a partition's log is forced to disk.",
    ),
    broker(
        "log.flush.interval.ms", LONG, None, None, HIGH, CLUSTER_WIDE,
        "The longest time that appended data stays unflushed; without it, "
        "`log.flush.scheduler.interval.ms` counts.",
        "log.flush.interval.ms log.flush.scheduler.interval.ms",
    ),
    broker(
        "log.flush.scheduler.interval.ms", LONG, LONG_MAX, None, HIGH, READ_ONLY,
        "How often the logs are looked through for data that is due to be flushed.",
    ),
    broker(
        "log.flush.offset.checkpoint.interval.ms", INT, 60_000, AT_LEAST_0, HIGH, READ_ONLY,
        "How often the recovery points are written down.",
    ),
    broker(
        "log.cleaner.enable", BOOLEAN, True, None, MEDIUM, READ_ONLY,
        "Whether compacted topics are cleaned at all.",
    ),
    broker(
        "log.cleaner.threads", INT, 1, AT_LEAST_0, MEDIUM, CLUSTER_WIDE,
        "How many logs are cleaned at one time.",
    ),
    broker(
        "log.cleaner.io.max.bytes.per.second", DOUBLE, 1.7976931348623157e308, None, MEDIUM,
        CLUSTER_WIDE,
        "The most bytes that cleaning reads and writes in a second.",
    ),
    broker(
        "log.cleaner.dedupe.buffer.size", LONG, 134_217_728, None, MEDIUM, CLUSTER_WIDE,
        "Memory for the keys of one cleaning, all cleaners together.",
    ),
    broker(
        "log.cleaner.backoff.ms", LONG, 15_000, AT_LEAST_0, MEDIUM, CLUSTER_WIDE,
        "How long to wait when there is nothing to clean.",
    ),
    broker(
        "log.cleaner.min.cleanable.ratio", DOUBLE, 0.5, Range(0, 1), MEDIUM, CLUSTER_WIDE,
        "The share of a log that must be uncleaned before it is cleaned again.",
    ),
    broker(
        "log.cleaner.delete.retention.ms", LONG, 86_400_000, AT_LEAST_0, MEDIUM, CLUSTER_WIDE,
        "How long delete markers stay in compacted topics.",
    ),
    broker(
        "log.cleaner.min.compaction.lag.ms", LONG, 0, AT_LEAST_0, MEDIUM, CLUSTER_WIDE,
        "A record stays uncleaned for at least this time.",
    ),
    broker(
        "log.cleaner.max.compaction.lag.ms", LONG, LONG_MAX, AT_LEAST_1, MEDIUM, CLUSTER_WIDE,
        "A record is cleaned at the latest after this time.",
    ),
    broker(
        "producer.id.expiration.ms", INT, 86_400_000, AT_LEAST_1, LOW, CLUSTER_WIDE,
        "A producer id without a write for this long is forgotten by the partition.",
    ),
)  # fmt: skip
