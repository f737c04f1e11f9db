"""What a topic's configuration means to its logs: Kafka's names (in snake_case) and defaults."""

from dataclasses import dataclass

FOREVER = 2**63 - 1
"""Kafka's Long.MAX_VALUE: the default of every bound that is off by default."""


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The settings one log obeys. Replaced as a whole when a topic's configuration changes."""

    segment_bytes: int = 1073741824
    segment_ms: int = 604800000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10485760
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1048588
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = FOREVER
    message_timestamp_after_max_ms: int = 3600000
    retention_ms: int = 604800000
    retention_bytes: int = -1
    flush_messages: int = FOREVER
    flush_ms: int = FOREVER
    file_delete_delay_ms: int = 60000
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    delete_retention_ms: int = 86400000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = FOREVER
    min_cleanable_dirty_ratio: float = 0.5
    preallocate: bool = False
    min_insync_replicas: int = 1
    producer_id_expiration_ms: int = 86400000

    @property
    def max_segment_ms(self) -> int:
        """How long a segment is appended to, at most.

        Only sealed segments are compacted, so `max.compaction.lag.ms` needs them sealed in time.
        """
        if "compact" in self.cleanup_policy and self.max_compaction_lag_ms > 0:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms
