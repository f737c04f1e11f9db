"""Changes of settings while the broker runs: AlterConfigs and IncrementalAlterConfigs.

Pure: given what is set and what is asked for, the new settings, or Kafka's error for it. The result
is checked as a whole, so that a change cannot leave behind what could not have been set at once.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum

import msgspec

from ottla.config.broker_configs import BROKER_CONFIGS
from ottla.config.client_metrics_configs import (
    CLIENT_METRICS_CONFIGS,
    check_client_metrics_configs,
)
from ottla.config.definition import ConfigDef, DynamicMode, table
from ottla.config.errors import ConfigError
from ottla.config.group_configs import GROUP_CONFIGS, check_group_configs
from ottla.config.ignored_configs import dynamic_mode
from ottla.config.listener_configs import PER_LISTENER, PREFIX, is_of_logins
from ottla.config.listener_configs import definition as listener_definition
from ottla.config.rows import AT_LEAST_0, AT_LEAST_1
from ottla.config.topic_configs import TOPIC_CONFIGS, check_topic_configs
from ottla.config.types import ConfigType, Value, format_value
from ottla.wire.errors import ErrorCode, KafkaError

THREADS = table(
    *(
        ConfigDef(name, ConfigType.INT, 1, "", validator=AT_LEAST_1)
        for name in (
            "background.threads",
            "log.cleaner.threads",
            "num.io.threads",
            "num.network.threads",
            "num.recovery.threads.per.data.dir",
            "num.replica.fetchers",
        )
    )
)
"""Kafka lets none of these become 0 while it runs, also where they have no effect here."""
RATES = table(
    *(
        ConfigDef(name, ConfigType.LONG, None, "", validator=AT_LEAST_0)
        for name in (
            "follower.replication.throttled.rate",
            "leader.replication.throttled.rate",
            "replica.alter.log.dirs.io.max.bytes.per.second",
        )
    )
)
"""Kafka has these as dynamic settings alone; without one there is no limit."""
LONGEST_VALUE = 32767
"""No answer could tell a longer one."""


class AlterOp(IntEnum):
    """What IncrementalAlterConfigs does to one setting, with its numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(msgspec.Struct, frozen=True):
    """One requested change."""

    name: str
    op: AlterOp
    value: str | None


def altered_topic_configs(
    current: Mapping[str, str], alterations: Iterable[Alteration]
) -> dict[str, str]:
    """A topic's settings after the alterations, checked."""
    result = _apply(current, alterations, TOPIC_CONFIGS)
    check_topic_configs(result)
    return result


def altered_group_configs(
    current: Mapping[str, str], alterations: Iterable[Alteration], broker: Mapping[str, Value]
) -> dict[str, str]:
    """A group's settings after the alterations, checked against the broker's values."""
    result = _apply(current, alterations, GROUP_CONFIGS)
    check_group_configs(result, broker)
    return result


def altered_client_metrics_configs(
    current: Mapping[str, str], alterations: Iterable[Alteration]
) -> dict[str, str]:
    """The settings of a subscription to clients' metrics after the alterations, checked."""
    result = _apply(current, alterations, CLIENT_METRICS_CONFIGS)
    check_client_metrics_configs(result)
    return result


def altered_broker_configs(
    current: Mapping[str, str], alterations: Iterable[Alteration], *, cluster_wide: bool
) -> dict[str, str]:
    """A broker's dynamic settings, or the cluster's defaults, after the alterations, checked."""
    result = _apply(current, alterations, BROKER_CONFIGS)
    check_dynamic_broker_configs(result, cluster_wide=cluster_wide)
    return result


def check_dynamic_broker_configs(configs: Mapping[str, str], *, cluster_wide: bool) -> None:
    """Refuse settings that cannot change while the broker runs, or not for the whole cluster."""
    fixed, single, unprefixed = [], [], []
    for name, text in configs.items():
        definition = BROKER_CONFIGS.get(name)
        if name.startswith(PREFIX):
            definition = listener_definition(name)
            if is_of_logins(name):
                # Unlike Kafka's: a user that seems to be removed must not continue to log in.
                fixed.append(name)
                continue
        elif name in PER_LISTENER and PER_LISTENER[name].dynamic is DynamicMode.PER_BROKER:
            unprefixed.append(name)
            continue
        checked = THREADS.get(name) or RATES.get(name, definition)
        mode = dynamic_mode(name) if definition is None else definition.dynamic
        if mode is DynamicMode.READ_ONLY:
            fixed.append(name)
        elif mode is DynamicMode.PER_BROKER and cluster_wide:
            single.append(name)
        elif checked is not None:
            _check(checked, text)
    if fixed:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Cannot update these configs dynamically: [{', '.join(fixed)}]",
        )
    if unprefixed:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "These security configs can be dynamically updated only per-listener using the "
            f"listener prefix: [{', '.join(unprefixed)}]",
        )
    if single:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"[{', '.join(single)}]",
        )


def _check(definition: ConfigDef, text: str) -> None:
    try:
        definition.parse(text)
    except ConfigError as error:
        # INVALID_CONFIG is what a topic gets; for a broker Kafka answers INVALID_REQUEST.
        raise KafkaError(ErrorCode.INVALID_REQUEST, error.message) from None


def _apply(
    current: Mapping[str, str],
    alterations: Iterable[Alteration],
    definitions: Mapping[str, ConfigDef],
) -> dict[str, str]:
    result = dict(current)
    seen: set[str] = set()
    for alteration in alterations:
        name, op, value = alteration.name, alteration.op, alteration.value
        if name in seen:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        seen.add(name)
        if op is AlterOp.DELETE:
            result.pop(name, None)
            continue
        if value is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")
        if op is not AlterOp.SET:
            value = _changed_list(op, definitions.get(name), name, result.get(name), value)
        if len(value.encode()) > LONGEST_VALUE:
            raise ConfigError(
                "The configuration value cannot be added because it exceeds the maximum value size "
                f"of {LONGEST_VALUE} bytes."
            )
        result[name] = value
    return result


def _changed_list(
    op: AlterOp, definition: ConfigDef | None, name: str, current: str | None, value: str
) -> str:
    if definition is None or definition.type is not ConfigType.LIST:
        raise ConfigError(f"Can't {op.name} to key {name} because its type is not LIST.")
    if current is None:
        current = format_value(definition.default) or ""
    parts = [part.strip() for part in current.split(",") if part.strip()]
    for part in (part.strip() for part in value.split(",")):
        if op is AlterOp.APPEND and part not in parts:
            parts.append(part)
        elif op is AlterOp.SUBTRACT and part in parts:
            parts.remove(part)
    return ",".join(parts)
