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
        "The level of gzip, where `compression.type` is `gzip`; -1 is its default.",
    ),
    _topic(
        "compression.lz4.level",
        INT,
        9,
        Range(1, 17),
        "compression.lz4.level",
        "The level of lz4, where `compression.type` is `lz4`; 9 is the fast one.",
    ),
    _topic(
        "compression.type",
        STRING,
        "producer",
        COMPRESSION,
        "compression.type",
        "The codec of batches in the log. `producer` keeps each in the one its producer chose; "
        "with another value the broker brings each into that form, which costs it CPU time.",
    ),
    _topic(
        "compression.zstd.level",
        INT,
        3,
        Range(-131072, 22),
        "compression.zstd.level",
        "The level of zstd, where `compression.type` is `zstd`.",
    ),
    _topic(
        "delete.retention.ms",
        LONG,
        86_400_000,
        Range(0),
        "log.cleaner.delete.retention.ms",
        "How long a compacted topic keeps a delete marker (a null value), so that a reader which "
        "starts at the beginning can still see it.",
    ),
    _topic(
        "file.delete.delay.ms",
        LONG,
        60_000,
        Range(0),
        "log.segment.delete.delay.ms",
        "How long a removed segment's renamed files stay on disk.",
    ),
    _topic(
        "flush.messages",
        LONG,
        LONG_MAX,
        Range(1),
        "log.flush.interval.messages",
        "After this many unflushed messages the log is forced to disk, and the produce request "
        "that reached the number waits for it.",
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
        "Replicas whose copying is throttled on the follower's side. Ottla throttles none: kept "
        "and shown, without effect.",
    ),
    _topic(
        "index.interval.bytes",
        INT,
        4096,
        Range(0),
        "log.index.interval.bytes",
        "A segment's indexes get an entry about every so many bytes of log.",
    ),
    _topic(
        "internal.segment.bytes",
        INT,
        None,
        None,
        "",
        "Overrules `segment.bytes` without its lower bound; for tests that need small segments.",
        internal=True,
    ),
    _topic(
        "leader.replication.throttled.replicas",
        LIST,
        (),
        ThrottledReplicas(),
        "",
        "Replicas whose copying is throttled on the leader's side. Ottla throttles none: kept "
        "and shown, without effect.",
    ),
    _topic(
        "local.retention.bytes",
        LONG,
        -2,
        Range(-2),
        "log.local.retention.bytes",
        "Part of tiered storage, which Ottla does not have: kept and shown, without effect.",
    ),
    _topic(
        "local.retention.ms",
        LONG,
        -2,
        Range(-2),
        "log.local.retention.ms",
        "Part of tiered storage, which Ottla does not have: kept and shown, without effect.",
    ),
    _topic(
        "max.compaction.lag.ms",
        LONG,
        LONG_MAX,
        Range(1),
        "log.cleaner.max.compaction.lag.ms",
        "A compacted topic's record is cleaned at the latest after this time.",
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
        "How far a record's timestamp may lie ahead of the broker's clock. Not checked with "
        "LogAppendTime.",
    ),
    _topic(
        "message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        Range(0),
        "log.message.timestamp.before.max.ms",
        "How far a record's timestamp may lie behind the broker's clock. Not checked with "
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
        "The share of a compacted log that must be uncleaned before it is cleaned again.",
    ),
    _topic(
        "min.compaction.lag.ms",
        LONG,
        0,
        Range(0),
        "log.cleaner.min.compaction.lag.ms",
        "A compacted topic's record stays uncleaned for at least this time.",
    ),
    _topic(
        "min.insync.replicas",
        INT,
        1,
        Range(1),
        "min.insync.replicas",
        "With acks=all, a write needs this many in-sync replicas, or it is refused.",
    ),
    _topic(
        "preallocate",
        BOOLEAN,
        False,
        None,
        "log.preallocate",
        "Kept and shown, without effect: a segment takes space as it is written.",
    ),
    _topic(
        "remote.log.copy.disable",
        BOOLEAN,
        False,
        None,
        "",
        "Part of tiered storage, which Ottla does not have: kept and shown, without effect.",
    ),
    _topic(
        "remote.log.delete.on.disable",
        BOOLEAN,
        False,
        None,
        "",
        "Part of tiered storage, which Ottla does not have: kept and shown, without effect.",
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
        "With the delete policy, a partition's oldest segments go when the rest is at least this "
        "large; -1 for no limit.",
    ),
    _topic(
        "retention.ms",
        LONG,
        604_800_000,
        Range(-1),
        "log.retention.ms log.retention.minutes log.retention.hours",
        "With the delete policy, a segment goes when its newest record is older than this; -1 for "
        "no limit.",
    ),
    _topic(
        "segment.bytes",
        INT,
        1_073_741_824,
        Range(1_048_576),
        "log.segment.bytes",
        "The size at which a segment is closed and a new one begun.",
    ),
    _topic(
        "segment.index.bytes",
        INT,
        10_485_760,
        Range(4),
        "log.index.size.max.bytes",
        "The largest size of a segment's index; a full index begins a new segment.",
    ),
    _topic(
        "segment.jitter.ms",
        LONG,
        0,
        Range(0),
        "log.roll.jitter.ms log.roll.jitter.hours",
        "The most that is subtracted at random from `segment.ms`, so that not all partitions "
        "begin new segments at once.",
    ),
    _topic(
        "segment.ms",
        LONG,
        604_800_000,
        Range(1),
        "log.roll.ms log.roll.hours",
        "The age at which a segment is closed even when it is not full, so that retention and "
        "compaction can reach it.",
    ),
    _topic(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        None,
        "unclean.leader.election.enable",
        "Let a replica that is not in sync become leader when no other is left; records may be "
        "lost.",
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
            "min.compaction.lag.ms", least, f"It is more than max.compaction.lag.ms ({most})"
        )
