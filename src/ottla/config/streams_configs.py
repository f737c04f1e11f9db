"""Broker settings of streams groups (KIP-1071)."""

from ottla.config.definition import ConfigDef
from ottla.config.rows import AT_LEAST_0, AT_LEAST_1, CLUSTER_WIDE, INT, MEDIUM, READ_ONLY, broker

STREAMS_CONFIGS: tuple[ConfigDef, ...] = (
    broker(
        "group.streams.session.timeout.ms", INT, 45_000, AT_LEAST_1, MEDIUM, READ_ONLY,
        "A member of a streams group without a heartbeat for this long is removed.",
    ),
    broker(
        "group.streams.min.session.timeout.ms", INT, 45_000, AT_LEAST_1, MEDIUM, READ_ONLY,
        "The smallest session timeout that a streams group may set.",
    ),
    broker(
        "group.streams.max.session.timeout.ms", INT, 60_000, AT_LEAST_1, MEDIUM, READ_ONLY,
        "The largest session timeout that a streams group may set.",
    ),
    broker(
        "group.streams.heartbeat.interval.ms", INT, 5000, AT_LEAST_1, MEDIUM, READ_ONLY,
        "The heartbeat interval given to members of a streams group.",
    ),
    broker(
        "group.streams.min.heartbeat.interval.ms", INT, 5000, AT_LEAST_1, MEDIUM, READ_ONLY,
        "The smallest heartbeat interval that a streams group may set.",
    ),
    broker(
        "group.streams.max.heartbeat.interval.ms", INT, 15_000, AT_LEAST_1, MEDIUM, READ_ONLY,
        "The largest heartbeat interval that a streams group may set.",
    ),
    broker(
        "group.streams.assignment.interval.ms", INT, 1000, AT_LEAST_0, MEDIUM, CLUSTER_WIDE,
        "The shortest time between two assignments of a streams group.",
    ),
    broker(
        "group.streams.min.assignment.interval.ms", INT, 0, AT_LEAST_0, MEDIUM, READ_ONLY,
        "The smallest assignment interval that a streams group may set.",
    ),
    broker(
        "group.streams.max.assignment.interval.ms", INT, 15_000, AT_LEAST_0, MEDIUM, READ_ONLY,
        "The largest assignment interval that a streams group may set.",
    ),
    broker(
        "group.streams.initial.rebalance.delay.ms", INT, 3000, AT_LEAST_0, MEDIUM, READ_ONLY,
        "How long a new streams group waits for more members before the first assignment.",
    ),
    broker(
        "group.streams.num.standby.replicas", INT, 0, AT_LEAST_0, MEDIUM, READ_ONLY,
        "The number of standby replicas of each task.",
    ),
    broker(
        "group.streams.max.standby.replicas", INT, 2, AT_LEAST_0, MEDIUM, READ_ONLY,
        "The largest number of standby replicas that a streams group may set.",
    ),
    broker(
        "group.streams.max.size", INT, 2_147_483_647, AT_LEAST_1, MEDIUM, READ_ONLY,
        "The maximum number of members of a streams group.",
    ),
)  # fmt: skip
