"""The broker's settings as plain typed attributes, recreated when a dynamic setting changes.

1. An attribute has its setting's name with underscores: `socket.request.max.bytes` is
   `config.socket_request_max_bytes`. A test holds the annotations here to the table.
2. Values are effective: where other names or units stand behind a setting (`log.retention.ms`,
   `log.dirs`, `node.id`) the attribute has what counts, and is never None.
3. Making one checks all settings against each other, so a wrong combination never takes effect.
"""

from collections.abc import Mapping, Sequence
from typing import Self

from ottla.config.broker_configs import BROKER_CONFIGS, broker_definition
from ottla.config.consistency import check_consistency
from ottla.config.errors import invalid_value
from ottla.config.listener_configs import PER_LISTENER, names
from ottla.config.listeners import (
    Listener,
    advertised_listeners,
    connections_per_ip,
    inter_broker_listener,
    parse_advertised,
    parse_listeners,
    protocol_map,
)
from ottla.config.resolve import (
    BrokerSettings,
    broker_values,
    fill_in_ids,
    synonym_value,
    topic_defaults,
)
from ottla.config.types import Value


class BrokerConfig:
    """Typed, effective, immutable by habit: a change makes a new one."""

    node_id: int
    broker_id: int
    broker_rack: str | None
    listeners: tuple[str, ...]
    advertised_listeners: tuple[str, ...] | None
    listener_security_protocol_map: str
    inter_broker_listener_name: str | None
    security_inter_broker_protocol: str
    controller_listener_names: tuple[str, ...]
    authorizer_class_name: str
    super_users: str
    allow_everyone_if_no_acl_found: bool
    quota_window_num: int
    quota_window_size_seconds: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    delegation_token_secret_key: str | None
    delegation_token_max_lifetime_ms: int
    delegation_token_expiry_time_ms: int
    delegation_token_expiry_check_interval_ms: int
    create_topic_policy_class_name: str | None
    alter_config_policy_class_name: str | None
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    socket_receive_buffer_bytes: int
    socket_listen_backlog_size: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: str
    max_connection_creation_rate: int
    connections_max_idle_ms: int
    queued_max_request_bytes: int
    request_timeout_ms: int
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    auto_create_topics_enable: bool
    delete_topic_enable: bool
    num_partitions: int
    default_replication_factor: int
    ottla_store: str
    ottla_zookeeper_auth: str
    zookeeper_set_acl: bool
    zookeeper_ssl_client_enable: bool
    zookeeper_ssl_keystore_location: str
    zookeeper_ssl_keystore_password: str
    zookeeper_ssl_truststore_location: str
    zookeeper_ssl_endpoint_identification_algorithm: str
    ottla_metrics_port: int
    ottla_metrics_host: str
    ssl_keystore_type: str
    ssl_keystore_location: str | None
    ottla_ssl_key_location: str | None
    ssl_keystore_password: str | None
    ssl_key_password: str | None
    ssl_keystore_key: str | None
    ssl_keystore_certificate_chain: str | None
    ssl_truststore_type: str
    ssl_truststore_location: str | None
    ssl_truststore_password: str | None
    ssl_truststore_certificates: str | None
    ssl_client_auth: str
    ssl_principal_mapping_rules: str
    ssl_enabled_protocols: tuple[str, ...]
    ssl_protocol: str
    ssl_cipher_suites: tuple[str, ...]
    ssl_endpoint_identification_algorithm: str
    ssl_allow_dn_changes: bool
    ssl_allow_san_changes: bool
    ssl_provider: str | None
    ssl_engine_factory_class: str | None
    ssl_keymanager_algorithm: str
    ssl_trustmanager_algorithm: str
    ssl_secure_random_implementation: str | None
    sasl_enabled_mechanisms: tuple[str, ...]
    sasl_jaas_config: str | None
    sasl_mechanism_inter_broker_protocol: str
    sasl_server_max_receive_size: int
    sasl_server_callback_handler_class: str | None
    connections_max_reauth_ms: int
    connection_failed_authentication_delay_ms: int
    sasl_oauthbearer_jwks_endpoint_url: str | None
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int
    sasl_oauthbearer_expected_audience: tuple[str, ...]
    sasl_oauthbearer_expected_issuer: str | None
    sasl_oauthbearer_clock_skew_seconds: int
    sasl_oauthbearer_scope_claim_name: str
    sasl_oauthbearer_sub_claim_name: str
    ottla_allow_unsecured_jwt: bool
    ottla_handshake_timeout_ms: int
    ottla_tls_offload: str
    ottla_registry_password: str
    ottla_worker_password: str
    principal_builder_class: str
    sasl_client_callback_handler_class: str | None
    sasl_login_callback_handler_class: str | None
    sasl_login_class: str | None
    sasl_login_connect_timeout_ms: int | None
    sasl_login_read_timeout_ms: int | None
    sasl_login_refresh_buffer_seconds: int
    sasl_login_refresh_min_period_seconds: int
    sasl_login_refresh_window_factor: float
    sasl_login_refresh_window_jitter: float
    sasl_login_retry_backoff_max_ms: int
    sasl_login_retry_backoff_ms: int
    sasl_kerberos_kinit_cmd: str
    sasl_kerberos_min_time_before_relogin: int
    sasl_kerberos_principal_to_local_rules: tuple[str, ...]
    sasl_kerberos_service_name: str | None
    sasl_kerberos_ticket_renew_jitter: float
    sasl_kerberos_ticket_renew_window_factor: float
    sasl_oauthbearer_assertion_algorithm: str
    sasl_oauthbearer_assertion_claim_aud: str | None
    sasl_oauthbearer_assertion_claim_exp_seconds: int
    sasl_oauthbearer_assertion_claim_iss: str | None
    sasl_oauthbearer_assertion_claim_jti_include: bool
    sasl_oauthbearer_assertion_claim_nbf_seconds: int
    sasl_oauthbearer_assertion_claim_sub: str | None
    sasl_oauthbearer_assertion_file: str | None
    sasl_oauthbearer_assertion_private_key_file: str | None
    sasl_oauthbearer_assertion_private_key_passphrase: str | None
    sasl_oauthbearer_assertion_template_file: str | None
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: str | None
    sasl_oauthbearer_jwt_retriever_class: str
    sasl_oauthbearer_jwt_validator_class: str
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_token_endpoint_url: str | None
    log_dir: tuple[str, ...]
    log_dirs: tuple[str, ...]
    log_segment_bytes: int
    log_roll_ms: int
    log_roll_hours: int
    log_roll_jitter_ms: int
    log_roll_jitter_hours: int
    log_retention_ms: int
    log_retention_minutes: int | None
    log_retention_hours: int
    log_retention_bytes: int
    log_retention_check_interval_ms: int
    log_cleanup_policy: tuple[str, ...]
    log_segment_delete_delay_ms: int
    log_index_interval_bytes: int
    log_index_size_max_bytes: int
    log_preallocate: bool
    log_message_timestamp_type: str
    log_message_timestamp_before_max_ms: int
    log_message_timestamp_after_max_ms: int
    log_local_retention_ms: int
    log_local_retention_bytes: int
    message_max_bytes: int
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    log_flush_interval_messages: int
    log_flush_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_cleaner_enable: bool
    log_cleaner_threads: int
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_backoff_ms: int
    log_cleaner_min_cleanable_ratio: float
    log_cleaner_delete_retention_ms: int
    log_cleaner_min_compaction_lag_ms: int
    log_cleaner_max_compaction_lag_ms: int
    producer_id_expiration_ms: int
    min_insync_replicas: int
    unclean_leader_election_enable: bool
    auto_leader_rebalance_enable: bool
    leader_imbalance_check_interval_seconds: int
    controlled_shutdown_enable: bool
    broker_heartbeat_interval_ms: int
    broker_session_timeout_ms: int
    initial_broker_registration_timeout_ms: int
    replica_selector_class: str | None
    replica_lag_time_max_ms: int
    replica_fetch_min_bytes: int
    replica_fetch_wait_max_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_backoff_ms: int
    replica_socket_timeout_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_size: int
    group_consumer_session_timeout_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_heartbeat_interval_ms: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_max_size: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_migration_policy: str
    group_consumer_regex_refresh_interval_ms: int
    group_consumer_assignment_interval_ms: int
    group_consumer_min_assignment_interval_ms: int
    group_consumer_max_assignment_interval_ms: int
    group_share_session_timeout_ms: int
    group_share_min_session_timeout_ms: int
    group_share_max_session_timeout_ms: int
    group_share_heartbeat_interval_ms: int
    group_share_min_heartbeat_interval_ms: int
    group_share_max_heartbeat_interval_ms: int
    group_share_max_size: int
    group_share_assignors: tuple[str, ...]
    group_share_assignment_interval_ms: int
    group_share_min_assignment_interval_ms: int
    group_share_max_assignment_interval_ms: int
    group_share_initialize_retry_interval_ms: int
    group_share_delivery_count_limit: int
    group_share_min_delivery_count_limit: int
    group_share_max_delivery_count_limit: int
    group_share_record_lock_duration_ms: int
    group_share_min_record_lock_duration_ms: int
    group_share_max_record_lock_duration_ms: int
    group_share_partition_max_record_locks: int
    group_share_min_partition_max_record_locks: int
    group_share_max_partition_max_record_locks: int
    group_share_max_share_sessions: int
    group_streams_session_timeout_ms: int
    group_streams_min_session_timeout_ms: int
    group_streams_max_session_timeout_ms: int
    group_streams_heartbeat_interval_ms: int
    group_streams_min_heartbeat_interval_ms: int
    group_streams_max_heartbeat_interval_ms: int
    group_streams_assignment_interval_ms: int
    group_streams_min_assignment_interval_ms: int
    group_streams_max_assignment_interval_ms: int
    group_streams_initial_rebalance_delay_ms: int
    group_streams_num_standby_replicas: int
    group_streams_max_standby_replicas: int
    group_streams_max_size: int
    group_coordinator_rebalance_protocols: tuple[str, ...]
    cordoned_log_dirs: tuple[str, ...]
    share_coordinator_state_topic_num_partitions: int
    share_coordinator_state_topic_replication_factor: int
    share_coordinator_state_topic_min_isr: int
    share_coordinator_state_topic_segment_bytes: int
    share_coordinator_snapshot_update_records_per_snapshot: int
    share_coordinator_state_topic_prune_interval_ms: int
    share_coordinator_cold_partition_snapshot_interval_ms: int
    offset_metadata_max_bytes: int
    offsets_commit_timeout_ms: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    transactional_id_expiration_ms: int
    transaction_max_timeout_ms: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_min_isr: int
    transaction_state_log_segment_bytes: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_partition_verification_enable: bool
    ottla_audit_enable: bool
    ottla_audit_topics: str
    ottla_audit_window_ms: int
    ottla_audit_interval_ms: int

    def __init__(self, settings: BrokerSettings) -> None:
        values = broker_values(settings)
        _fill_in(values, settings)
        check_consistency(values)
        for name, definition in BROKER_CONFIGS.items():
            setattr(self, definition.attribute, values[name])
        self.settings = settings
        self.topic_defaults: dict[str, Value] = topic_defaults(values)
        self.connections_per_ip_overrides = connections_per_ip(
            self.max_connections_per_ip_overrides
        )
        self.super_user_names = principals(self.super_users)
        self._protocols = protocol_map(self.listener_security_protocol_map)
        self.bound_listeners: tuple[Listener, ...] = parse_listeners(
            self.listeners, self._protocols, self.controller_listener_names
        )
        if self.advertised_listeners is not None:
            parse_advertised(
                self.advertised_listeners,
                self._protocols,
                self.bound_listeners,
                self.controller_listener_names,
            )
        self.inter_broker = inter_broker_listener(
            self.bound_listeners,
            self.inter_broker_listener_name,
            self.security_inter_broker_protocol,
            settings.text("security.inter.broker.protocol") is not None,
        )

    @classmethod
    def from_static(cls, static: Mapping[str, str]) -> Self:
        """From static settings alone; a wrong name raises, one without effect here is dropped."""
        known = {n: text for n, text in static.items() if broker_definition(n)}
        if "node.id" in known:
            known.setdefault("broker.id", known["node.id"])  # its older name, as Kafka shows it
        return cls(BrokerSettings(known))

    def advertised(self, bound_ports: Mapping[str, int], hostname: str) -> Sequence[Listener]:
        """The advertised listeners, once the listeners are bound."""
        return advertised_listeners(
            self.bound_listeners,
            bound_ports,
            hostname,
            self.advertised_listeners,
            self._protocols,
            self.controller_listener_names,
        )

    def listener_value(self, listener: str, setting: str, mechanism: str | None = None) -> Value:
        """A setting as it counts for a listener, and for a mechanism of it."""
        for name in names(listener, setting, mechanism):
            text = self.settings.text(name)
            if text is not None:
                return PER_LISTENER[setting].parse(text)
        value: Value = getattr(self, PER_LISTENER[setting].attribute)
        return value

    def with_dynamic(
        self, dynamic_default: Mapping[str, str], dynamic_broker: Mapping[str, str]
    ) -> "BrokerConfig":
        """The same static settings under other dynamic ones; ConfigError when they do not fit."""
        return BrokerConfig(
            BrokerSettings(self.settings.static, dynamic_default, dynamic_broker),
        )


def principals(text: str) -> frozenset[str]:
    """The principals of `super.users`: `User:admin;User:CN=x,O=y`."""
    found = frozenset(part.strip() for part in text.split(";") if part.strip())
    for each in found:
        if ":" not in each:
            raise invalid_value("super.users", each, "a principal has the form User:name")
    return found


def _fill_in(values: dict[str, Value], settings: BrokerSettings) -> None:
    """Replace values that other names stand behind by the ones that count."""
    for name in (
        "log.retention.ms",
        "log.roll.ms",
        "log.roll.jitter.ms",
        "log.flush.interval.ms",
    ):
        values[name] = synonym_value(BROKER_CONFIGS[name].synonyms, values)
    fill_in_ids(values, settings)
    if values["log.dirs"] is None:
        values["log.dirs"] = values["log.dir"]
