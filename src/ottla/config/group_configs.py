"""The settings that a consumer, share or streams group can have of its own, and their checks.

Rules kept here:
1. A group without a value of its own has the broker's: its synonym in the broker's table. Four
   settings of share groups have none: there the default of this table counts.
2. The broker's `group.consumer.min.*`, `group.share.min.*` and so on, and `.max.*`, bound what a
   group may be given; a value that they have come to exclude counts as the nearest that they allow.
"""

import re
from collections.abc import Mapping

from ottla.config.definition import ConfigDef, OneOf, Range, Scope, Syntax, Validator, table
from ottla.config.errors import ConfigError, unknown_name
from ottla.config.types import ConfigType, Value

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"
SHARE_SESSION_TIMEOUT = "share.session.timeout.ms"
SHARE_HEARTBEAT_INTERVAL = "share.heartbeat.interval.ms"
SHARE_ASSIGNMENT_INTERVAL = "share.assignment.interval.ms"
SHARE_RECORD_LOCK_DURATION = "share.record.lock.duration.ms"
SHARE_DELIVERY_COUNT_LIMIT = "share.delivery.count.limit"
SHARE_PARTITION_MAX_RECORD_LOCKS = "share.partition.max.record.locks"
SHARE_AUTO_OFFSET_RESET = "share.auto.offset.reset"
SHARE_ISOLATION_LEVEL = "share.isolation.level"
SHARE_RENEW_ACKNOWLEDGE = "share.renew.acknowledge.enable"
STREAMS_SESSION_TIMEOUT = "streams.session.timeout.ms"
STREAMS_HEARTBEAT_INTERVAL = "streams.heartbeat.interval.ms"
STREAMS_ASSIGNMENT_INTERVAL = "streams.assignment.interval.ms"
STREAMS_INITIAL_REBALANCE_DELAY = "streams.initial.rebalance.delay.ms"
STREAMS_NUM_STANDBY_REPLICAS = "streams.num.standby.replicas"
SHARE_REDELIVERY_DELAY = "ottla.share.redelivery.delay.ms"

_LARGEST = 2**31 - 1
BY_DURATION = "by_duration:"
_DURATION = re.compile(
    r"P(?=[0-9T])(?:(?P<days>[0-9]+)D)?"
    r"(?:T(?=[0-9])(?:(?P<hours>[0-9]+)H)?(?:(?P<minutes>[0-9]+)M)?"
    r"(?:(?P<seconds>[0-9]+)(?:\.(?P<fraction>[0-9]{1,9}))?S)?)?",
    re.IGNORECASE,
)


def duration_ms(text: str) -> int:
    """The length of an ISO 8601 duration of days to seconds, such as P1DT2H; raises ValueError."""
    found = _DURATION.fullmatch(text)
    if found is None or len(text) > 40:
        raise ValueError(f"Not a duration of the form PnDTnHnMn.nS: {text!r}")
    hours = int(found["days"] or 0) * 24 + int(found["hours"] or 0)
    seconds = (hours * 60 + int(found["minutes"] or 0)) * 60 + int(found["seconds"] or 0)
    return seconds * 1000 + int((found["fraction"] or "0").ljust(9, "0")[:3])


def check_offset_reset(text: str) -> None:
    """Refuse what is not a value of `share.auto.offset.reset`; raises ValueError."""
    if text in ("latest", "earliest"):
        return
    if not text.startswith(BY_DURATION):
        raise ValueError(
            "The value must be either 'earliest', 'latest' or of the format "
            "'by_duration:<PnDTnHnMn.nS>'"
        )
    duration_ms(text.removeprefix(BY_DURATION))


def _number(name: str, default: int, least: int, doc: str) -> ConfigDef:
    return ConfigDef(
        name=name,
        type=ConfigType.INT,
        default=default,
        doc=doc,
        validator=Range(least),
        scope=Scope.GROUP,
        synonyms=(f"group.{name}",),
    )


def _own(
    name: str, kind: ConfigType, default: Value, validator: Validator | None, doc: str
) -> ConfigDef:
    """A setting that the broker has none of."""
    return ConfigDef(
        name=name, type=kind, default=default, doc=doc, validator=validator, scope=Scope.GROUP
    )


GROUP_CONFIGS = table(
    _number(
        SESSION_TIMEOUT,
        45_000,
        1,
        "A member without a heartbeat for this long is removed from the group.",
    ),
    _number(HEARTBEAT_INTERVAL, 5_000, 1, "The heartbeat interval given to members."),
    _number(ASSIGNMENT_INTERVAL, 1_000, 0, "The shortest time between two assignments."),
    _number(
        SHARE_SESSION_TIMEOUT,
        45_000,
        1,
        "A member without a heartbeat for this long is removed from the share group.",
    ),
    _number(
        SHARE_HEARTBEAT_INTERVAL, 5_000, 1, "The heartbeat interval given to members of the group."
    ),
    _number(
        SHARE_ASSIGNMENT_INTERVAL,
        1_000,
        0,
        "The shortest time between two assignments of the share group.",
    ),
    _number(
        SHARE_RECORD_LOCK_DURATION,
        30_000,
        1_000,
        "How long a consumer may hold a record before the record becomes available again.",
    ),
    _number(
        SHARE_DELIVERY_COUNT_LIMIT,
        5,
        2,
        "The maximum number of deliveries of a record before it is archived.",
    ),
    _number(
        SHARE_PARTITION_MAX_RECORD_LOCKS,
        2_000,
        100,
        "The maximum number of records in flight in one share partition.",
    ),
    _own(
        SHARE_AUTO_OFFSET_RESET,
        ConfigType.STRING,
        "latest",
        Syntax(check_offset_reset, "[latest, earliest, by_duration:PnDTnHnMn.nS]"),
        "Where the share group starts in a partition that it has not read before: `latest`, "
        "`earliest`, or `by_duration:` with an ISO 8601 duration before now.",
    ),
    _own(
        SHARE_ISOLATION_LEVEL,
        ConfigType.STRING,
        "read_uncommitted",
        OneOf(("read_committed", "read_uncommitted")),
        "Whether the share group reads records of transactions that are not committed.",
    ),
    _own(
        SHARE_RENEW_ACKNOWLEDGE,
        ConfigType.BOOLEAN,
        True,
        None,
        "Whether consumers may renew the lock of a record (KIP-1222).",
    ),
    _own(
        SHARE_REDELIVERY_DELAY,
        ConfigType.INT,
        0,
        Range(0),
        "How long a record that was released, or whose acquisition lock expired, is held back "
        "before it is delivered again. Kafka has no such setting.",
    ),
    _number(
        STREAMS_SESSION_TIMEOUT,
        45_000,
        1,
        "A member without a heartbeat for this long is removed from the streams group.",
    ),
    _number(
        STREAMS_HEARTBEAT_INTERVAL,
        5_000,
        1,
        "The heartbeat interval given to members.",
    ),
    _number(
        STREAMS_ASSIGNMENT_INTERVAL,
        1_000,
        0,
        "The shortest time between two assignments of the streams group.",
    ),
    _number(
        STREAMS_INITIAL_REBALANCE_DELAY,
        3_000,
        0,
        "How long a new streams group waits for more members before the first assignment.",
    ),
    _number(STREAMS_NUM_STANDBY_REPLICAS, 0, 0, "The number of standby replicas of each task."),
)


_UNBOUNDED = frozenset((STREAMS_INITIAL_REBALANCE_DELAY,))
"""Those whose broker setting is no more than a default."""
_MOST_REPLICAS = "group.streams.max.standby.replicas"


def _bound(name: str, which: str) -> str:
    """The broker setting that bounds a group's: group.consumer.min.session.timeout.ms."""
    if name == STREAMS_NUM_STANDBY_REPLICAS:
        return _MOST_REPLICAS
    kind, _, rest = name.partition(".")
    return f"group.{kind}.{which}.{rest}"


BROKER_SETTINGS = tuple(
    setting
    for name, definition in GROUP_CONFIGS.items()
    if definition.synonyms
    for setting in (
        definition.synonyms[0],
        *(() if name in _UNBOUNDED else (_bound(name, "min"), _bound(name, "max"))),
    )
)
"""The broker settings that groups inherit, and those that bound what a group may be given."""


def group_values(overrides: Mapping[str, str], broker: Mapping[str, Value]) -> dict[str, Value]:
    """Every setting of one group; `broker` has the values of BROKER_SETTINGS."""
    values: dict[str, Value] = {}
    for name, definition in GROUP_CONFIGS.items():
        text = overrides.get(name)
        if text is not None:
            value = definition.parse(text)
            if definition.synonyms:
                least, most = _bounds(name, broker)
                value = min(max(_int(value), least), most)
        elif definition.synonyms:
            value = broker[definition.synonyms[0]]
        else:
            value = definition.default
        values[name] = value
    return values


def check_group_configs(configs: Mapping[str, str], broker: Mapping[str, Value]) -> None:
    """Raise the ConfigError of the first setting that is wrong."""
    for name, text in configs.items():
        definition = GROUP_CONFIGS.get(name)
        if definition is None:
            raise unknown_name("group ", name, GROUP_CONFIGS)
        value = definition.parse(text)
        if not definition.synonyms:
            continue
        least, most = _bounds(name, broker)
        if _int(value) < least:
            raise ConfigError(f"{name} must be greater than or equal to {_bound(name, 'min')}")
        if _int(value) > most:
            raise ConfigError(f"{name} must be less than or equal to {_bound(name, 'max')}")
    values = group_values(configs, broker)
    for session, heartbeat in (
        (SESSION_TIMEOUT, HEARTBEAT_INTERVAL),
        (SHARE_SESSION_TIMEOUT, SHARE_HEARTBEAT_INTERVAL),
        (STREAMS_SESSION_TIMEOUT, STREAMS_HEARTBEAT_INTERVAL),
    ):
        if _int(values[session]) <= _int(values[heartbeat]):
            raise ConfigError(f"{session} must be greater than {heartbeat}")


def _bounds(name: str, broker: Mapping[str, Value]) -> tuple[int, int]:
    if name in _UNBOUNDED:
        return 0, _LARGEST
    most = _int(broker[_bound(name, "max")])
    if name == STREAMS_NUM_STANDBY_REPLICAS:
        return 0, most
    return _int(broker[_bound(name, "min")]), most


def _int(value: Value) -> int:
    assert isinstance(value, int)
    return value
