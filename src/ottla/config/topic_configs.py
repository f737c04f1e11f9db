"""The topic settings of Kafka 4.3: names, types, defaults, checks, and the broker settings behind.

A topic setting that is not made falls back to its broker synonyms, strongest first, and only then
to the default here. All of them can change while the broker runs.
"""

from collections.abc import Mapping

from ottla.config.definition import (
    ConfigDef,
    OneOf,
    Only,
    Range,
    RangeOr,
    Scope,
    ThrottledReplicas,
    Validator,
    table,
)
from ottla.config.errors import ConfigError, invalid_value, unknown_name
from ottla.config.types import LONG_MAX, ConfigType, Value

COMPRESSION = OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"))

BOOLEAN, DOUBLE, INT = ConfigType.BOOLEAN, ConfigType.DOUBLE, ConfigType.INT
LIST, LONG, STRING = ConfigType.LIST, ConfigType.LONG, ConfigType.STRING


def _topic(
    name: str,
    kind: ConfigType,
    default: Value,
    validator: Validator | None,
    synonyms: str,
    doc: str,
    internal: bool = False,
) -> ConfigDef:
    return ConfigDef(
        name=name,
        type=kind,
        default=default,
        doc=doc,
        validator=validator,
        scope=Scope.TOPIC,
        synonyms=tuple(synonyms.split()),
        internal=internal,
    )


TOPIC_CONFIGS: dict[str, ConfigDef] = table(
    _topic(
        "cleanup.policy",
        LIST,
        ("delete",),
        OneOf(("compact", "delete")),
        "log.cleanup.policy",
        "What happens to old segments: `delete` removes them by age and size, `compact` keeps the "
        "last record of each key. Both may be given; with neither, everything is kept.",
    ),
    _topic(
        "compression.gzip.level",
        INT,
        -1,
        RangeOr(1, 9, -1),
        "compression.gzip.level",
        "The gzip compression level, if `compression.type` is `gzip`; -1 is the default of gzip.",
    ),
    _topic(
        "compression.lz4.level",
        INT,
        9,
        Range(1, 17),
        "compression.lz4.level",
        "The lz4 compression level, if `compression.type` is `lz4`; 9 is the fastest.",
    ),
    _topic(
        "compression.type",
        STRING,
        "producer",
        COMPRESSION,
        "compression.type",
        "The compression codec of batches in the log. `producer` keeps the producer's codec; "
        "with any other value the broker recompresses batches, which costs CPU time.",
    ),
    _topic(
        "compression.zstd.level",
        INT,
        3,
        Range(-131072, 22),
        "compression.zstd.level",
        "The zstd compression level, if `compression.type` is `zstd`.",
    ),
    _topic(
        "delete.retention.ms",
        LONG,
        86_400_000,
        Range(0),
        "log.cleaner.delete.retention.ms",
        "How long a compacted topic keeps tombstones (null values), so that a consumer that "
        "starts at the beginning sees them.",
    ),
    _topic(
        "file.delete.delay.ms",
        LONG,
        60_000,
        Range(0),
        "log.segment.delete.delay.ms",
        "How long the renamed files of a deleted segment stay on disk.",
    ),
    _topic(
        "flush.messages",
        LONG,
        LONG_MAX,
        Range(1),
        "log.flush.interval.messages",
        "The number of messages after which the log is flushed to disk; the produce request that "
        "reaches it waits for the flush.",
    ),
    _topic(
        "flush.ms",
        LONG,
        LONG_MAX,
        Range(0),
        "log.flush.interval.ms log.flush.scheduler.interval.ms",
        "The longest time that appended data stays unflushed.",
    ),
    _topic(
        "follower.replication.throttled.replicas",
        LIST,
        (),
        ThrottledReplicas(),
        "",
        "Replicas whose followers take no more than the broker's "
        "`follower.replication.throttled.rate` while they are not in sync.",
    ),
    _topic(
        "index.interval.bytes",
        INT,
        4096,
        Range(0),
        "log.index.interval.bytes",
        "How many bytes of log lie between two entries of a segment's indexes.",
    ),
    _topic(
        "internal.segment.bytes",
        INT,
        None,
        None,
        "",
        "Overrides `segment.bytes` without its lower bound; for tests that need small segments.",
        internal=True,
    ),
    _topic(
        "leader.replication.throttled.replicas",
        LIST,
        (),
        ThrottledReplicas(),
        "",
        "Replicas whose leaders send no more than the broker's "
        "`leader.replication.throttled.rate` to followers that are not in sync.",
    ),
    _topic(
        "local.retention.bytes",
        LONG,
        -2,
        Range(-2),
        "log.local.retention.bytes",
        "Accepted without effect: Ottla has no tiered storage.",
    ),
    _topic(
        "local.retention.ms",
        LONG,
        -2,
        Range(-2),
        "log.local.retention.ms",
        "Accepted without effect: Ottla has no tiered storage.",
    ),
    _topic(
        "max.compaction.lag.ms",
        LONG,
        LONG_MAX,
        Range(1),
        "log.cleaner.max.compaction.lag.ms",
        "The longest time that a record of a compacted topic stays uncompacted.",
    ),
    _topic(
        "max.message.bytes",
        INT,
        1_048_588,
        Range(0),
        "message.max.bytes",
        "The largest record batch that is accepted, in bytes, after compression.",
    ),
    _topic(
        "message.timestamp.after.max.ms",
        LONG,
        3_600_000,
        Range(0),
        "log.message.timestamp.after.max.ms",
        "How far a record's timestamp may be ahead of the broker's clock. Not checked with "
        "LogAppendTime.",
    ),
    _topic(
        "message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        Range(0),
        "log.message.timestamp.before.max.ms",
        "How far a record's timestamp may be behind the broker's clock. Not checked with "
        "LogAppendTime.",
    ),
    _topic(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        OneOf(("CreateTime", "LogAppendTime")),
        "log.message.timestamp.type",
        "Whether a record keeps its producer's timestamp or gets the broker's at append.",
    ),
    _topic(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        0.5,
        Range(0, 1),
        "log.cleaner.min.cleanable.ratio",
        "The ratio of dirty (uncompacted) to all bytes of a log at which it is compacted.",
    ),
    _topic(
        "min.compaction.lag.ms",
        LONG,
        0,
        Range(0),
        "log.cleaner.min.compaction.lag.ms",
        "The shortest time that a record of a compacted topic stays uncompacted.",
    ),
    _topic(
        "min.insync.replicas",
        INT,
        1,
        Range(1),
        "min.insync.replicas",
        "The number of in-sync replicas that a write with acks=all requires; with fewer, it "
        "fails with NOT_ENOUGH_REPLICAS.",
    ),
    _topic(
        "preallocate",
        BOOLEAN,
        False,
        None,
        "log.preallocate",
        "Accepted without effect: segments are not preallocated.",
    ),
    _topic(
        "remote.log.copy.disable",
        BOOLEAN,
        False,
        None,
        "",
        "Accepted without effect: Ottla has no tiered storage.",
    ),
    _topic(
        "remote.log.delete.on.disable",
        BOOLEAN,
        False,
        None,
        "",
        "Accepted without effect: Ottla has no tiered storage.",
    ),
    _topic(
        "remote.storage.enable",
        BOOLEAN,
        False,
        Only(False, "tiered storage is not supported"),
        "",
        "Tiered storage is not supported: only false is accepted.",
    ),
    _topic(
        "retention.bytes",
        LONG,
        -1,
        None,
        "log.retention.bytes",
        "With the delete policy, the oldest segments of a partition are deleted while the others "
        "are at least this large; -1 for no limit.",
    ),
    _topic(
        "retention.ms",
        LONG,
        604_800_000,
        Range(-1),
        "log.retention.ms log.retention.minutes log.retention.hours",
        "With the delete policy, a segment is deleted when its newest record is older than this; "
        "-1 for no limit.",
    ),
    _topic(
        "segment.bytes",
        INT,
        1_073_741_824,
        Range(1_048_576),
        "log.segment.bytes",
        "The size at which a new segment is rolled.",
    ),
    _topic(
        "segment.index.bytes",
        INT,
        10_485_760,
        Range(4),
        "log.index.size.max.bytes",
        "The largest size of a segment's index; a new segment is rolled when it is full.",
    ),
    _topic(
        "segment.jitter.ms",
        LONG,
        0,
        Range(0),
        "log.roll.jitter.ms log.roll.jitter.hours",
        "The largest random jitter subtracted from `segment.ms`, so that not all partitions roll "
        "segments at once.",
    ),
    _topic(
        "segment.ms",
        LONG,
        604_800_000,
        Range(1),
        "log.roll.ms log.roll.hours",
        "The age at which a new segment is rolled even if the old one is not full, so that it "
        "can be deleted or compacted.",
    ),
    _topic(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        None,
        "unclean.leader.election.enable",
        "Allow a replica that is not in the ISR to be elected leader as a last resort; records "
        "may be lost.",
    ),
)


def check_topic_configs(configs: Mapping[str, str | None]) -> dict[str, Value]:
    """The parsed settings of one topic, or the ConfigError of the first that is wrong."""
    values: dict[str, Value] = {}
    for name, text in configs.items():
        definition = TOPIC_CONFIGS.get(name)
        if definition is None:
            known = (known for known, row in TOPIC_CONFIGS.items() if not row.internal)
            raise unknown_name("topic ", name, known)
        if text is None:
            raise ConfigError(f"Null value not supported for topic configs: {name}")
        values[name] = definition.parse(text)
    _check_compaction_lags(values)
    return values


def _check_compaction_lags(values: Mapping[str, Value]) -> None:
    least, most = values.get("min.compaction.lag.ms"), values.get("max.compaction.lag.ms")
    if isinstance(least, int) and isinstance(most, int) and least > most:
        raise invalid_value(
            "min.compaction.lag.ms", least, f"Must not be more than max.compaction.lag.ms ({most})"
        )
