"""The broker settings that groups and committed offsets depend on, by Kafka's names.

A group can have some of its own; those are asked for by the group's id whenever they are needed.
"""

from collections.abc import Callable
from dataclasses import dataclass

INT_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The defaults are Kafka's."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = INT_MAX
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_size: int = INT_MAX
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_upgrade: bool = True
    """True where `group.consumer.migration.policy` is `upgrade` or `bidirectional`."""
    group_consumer_downgrade: bool = True
    """True where it is `downgrade` or `bidirectional`."""
    group_share_session_timeout_ms: int = 45_000
    group_share_heartbeat_interval_ms: int = 5_000
    group_share_assignment_interval_ms: int = 1_000
    group_share_max_size: int = 200
    group_share_initialize_retry_interval_ms: int = 30_000
    group_streams_session_timeout_ms: int = 45_000
    group_streams_heartbeat_interval_ms: int = 5_000
    group_streams_assignment_interval_ms: int = 1_000
    group_streams_initial_rebalance_delay_ms: int = 3_000
    group_streams_num_standby_replicas: int = 0
    group_streams_max_size: int = INT_MAX
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000
    """`offsets.retention.minutes`, in milliseconds."""
    offsets_retention_check_interval_ms: int = 600_000


ConfigOf = Callable[[str], GroupConfig]
"""The settings of one group as they are now: what it has set for itself, else the broker's."""
