"""Checks of broker settings against each other: each is right alone, together they are not."""

from collections.abc import Mapping

from ottla.config.errors import invalid_value
from ottla.config.types import Value

_MEGABYTE = 1024 * 1024

# (smaller, larger): the first must not be more than the second.
ASSIGNORS = frozenset({"range", "uniform"})
_ORDERED = (
    ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
    ("broker.heartbeat.interval.ms", "broker.session.timeout.ms"),
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.min.assignment.interval.ms", "group.consumer.assignment.interval.ms"),
    ("group.consumer.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"),
    ("group.share.min.session.timeout.ms", "group.share.session.timeout.ms"),
    ("group.share.session.timeout.ms", "group.share.max.session.timeout.ms"),
    ("group.share.min.heartbeat.interval.ms", "group.share.heartbeat.interval.ms"),
    ("group.share.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"),
    ("group.share.heartbeat.interval.ms", "group.share.session.timeout.ms"),
    ("group.share.min.assignment.interval.ms", "group.share.assignment.interval.ms"),
    ("group.share.assignment.interval.ms", "group.share.max.assignment.interval.ms"),
    ("group.share.min.delivery.count.limit", "group.share.delivery.count.limit"),
    ("group.share.delivery.count.limit", "group.share.max.delivery.count.limit"),
    ("group.share.min.record.lock.duration.ms", "group.share.record.lock.duration.ms"),
    ("group.share.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"),
    ("group.share.min.partition.max.record.locks", "group.share.partition.max.record.locks"),
    ("group.share.partition.max.record.locks", "group.share.max.partition.max.record.locks"),
    ("group.share.max.size", "group.share.max.share.sessions"),
    ("group.streams.min.session.timeout.ms", "group.streams.session.timeout.ms"),
    ("group.streams.session.timeout.ms", "group.streams.max.session.timeout.ms"),
    ("group.streams.min.heartbeat.interval.ms", "group.streams.heartbeat.interval.ms"),
    ("group.streams.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"),
    ("group.streams.heartbeat.interval.ms", "group.streams.session.timeout.ms"),
    ("group.streams.min.assignment.interval.ms", "group.streams.assignment.interval.ms"),
    ("group.streams.assignment.interval.ms", "group.streams.max.assignment.interval.ms"),
    ("group.streams.num.standby.replicas", "group.streams.max.standby.replicas"),
)


def check_consistency(values: Mapping[str, Value]) -> None:
    """Raise ConfigError for the first combination that cannot work; `values` are effective."""
    node, broker = _number(values, "node.id"), _number(values, "broker.id")
    if node < 0:
        raise invalid_value("broker.id", broker, "Value must be at least 0")
    if broker != node:
        raise invalid_value("broker.id", broker, f"Must be equal to node.id ({node})")
    assignors = values["group.consumer.assignors"]
    assert isinstance(assignors, tuple)
    if not assignors or not set(assignors) <= ASSIGNORS:
        raise invalid_value(
            "group.consumer.assignors",
            ",".join(assignors),
            f"Must be a subset of {', '.join(sorted(ASSIGNORS))}",
        )
    share = values["group.share.assignors"]
    assert isinstance(share, tuple)
    if share != ("simple",):
        raise invalid_value("group.share.assignors", ",".join(share), "Must be simple")
    protocols = values["group.coordinator.rebalance.protocols"]
    assert isinstance(protocols, tuple)
    if "classic" not in protocols:
        raise invalid_value(
            "group.coordinator.rebalance.protocols",
            ",".join(protocols),
            "Disabling the 'classic' protocol is not supported.",
        )
    folders = values["log.dirs"]
    assert isinstance(folders, tuple)
    if len(folders) != 1:
        raise invalid_value("log.dirs", ",".join(folders), "Exactly one folder is supported")
    cordoned = values["cordoned.log.dirs"]
    assert isinstance(cordoned, tuple)
    if cordoned != ("*",) and (missing := [each for each in cordoned if each not in folders]):
        raise invalid_value(
            "cordoned.log.dirs",
            ",".join(cordoned),
            "All entries must be present in log.dirs or log.dir. Missing entries: "
            f"{', '.join(missing)}",
        )
    _check_times(values)
    for smaller, larger in _ORDERED:
        if _number(values, smaller) > _number(values, larger):
            raise invalid_value(
                smaller, values[smaller], f"Must not be more than {larger} ({values[larger]})"
            )
    _check_limits(values)


def _check_times(values: Mapping[str, Value]) -> None:
    if _number(values, "log.roll.ms") < 1:
        raise invalid_value("log.roll.ms", values["log.roll.ms"], "Value must be at least 1")
    if _number(values, "log.roll.jitter.ms") < 0:
        raise invalid_value(
            "log.roll.jitter.ms", values["log.roll.jitter.ms"], "Value must be at least 0"
        )
    if _number(values, "log.retention.ms") == 0:
        raise invalid_value("log.retention.ms", 0, "Value must be at least 1, or -1 for no limit")


def _check_limits(values: Mapping[str, Value]) -> None:
    for name in ("max.connections", "max.connection.creation.rate"):
        if values[name] == 0:  # no client could connect, not even to undo it
            raise invalid_value(name, 0, "Value must be at least 1")
    overrides = values["max.connections.per.ip.overrides"]
    if values["max.connections.per.ip"] == 0 and not overrides:
        raise invalid_value(
            "max.connections.per.ip",
            0,
            "May be 0 only when max.connections.per.ip.overrides names the allowed addresses",
        )
    buffer, cleaners = (
        _number(values, "log.cleaner.dedupe.buffer.size"),
        _number(values, "log.cleaner.threads"),
    )
    if cleaners and buffer // cleaners <= _MEGABYTE:
        raise invalid_value(
            "log.cleaner.dedupe.buffer.size", buffer, "Must be more than 1 MB per cleaner thread"
        )


def _number(values: Mapping[str, Value], name: str) -> int:
    value = values[name]
    assert isinstance(value, int)
    return value
