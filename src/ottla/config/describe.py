"""What DescribeConfigs says about settings: value, source, type, documentation, synonyms.

The synonyms of a setting are all the places that set it or one of its other names, strongest first.
As in Kafka the list begins at the setting's own broker name: when `log.retention.hours` is set but
`log.retention.ms` is nowhere, `retention.ms` has no synonyms and counts as a default.
"""

from collections.abc import Collection, Mapping
from enum import IntEnum

import msgspec

from ottla.config.broker_configs import BROKER_CONFIGS
from ottla.config.client_metrics_configs import CLIENT_METRICS_CONFIGS
from ottla.config.definition import ConfigDef, DynamicMode
from ottla.config.group_configs import GROUP_CONFIGS, group_values
from ottla.config.ignored_configs import may_be_shown
from ottla.config.resolve import (
    BrokerSettings,
    broker_values,
    fill_in_ids,
    topic_defaults,
    topic_values,
)
from ottla.config.topic_configs import TOPIC_CONFIGS
from ottla.config.types import ConfigType, Value, format_value


class ConfigSource(IntEnum):
    """Where a value comes from, with DescribeConfigs' numbers."""

    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class Synonym(msgspec.Struct, frozen=True):
    """One place that sets the value, under the name used there."""

    name: str
    value: str | None
    source: ConfigSource


class Described(msgspec.Struct, frozen=True):
    """One setting as DescribeConfigs shows it."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    type: ConfigType
    doc: str
    synonyms: tuple[Synonym, ...]


def describe_topic(
    overrides: Mapping[str, str],
    settings: BrokerSettings,
    names: Collection[str] | None = None,
) -> list[Described]:
    """A topic's settings, all or those named; unknown names are left out, as in Kafka."""
    defaults = topic_defaults(broker_values(settings))
    values = topic_values(overrides, defaults)
    # The override without its lower bound is not shown, and does not show through.
    if "internal.segment.bytes" in overrides:
        plain = {name: text for name, text in overrides.items() if name != "internal.segment.bytes"}
        values = topic_values(plain, defaults)
    described = []
    for name, definition in TOPIC_CONFIGS.items():
        if definition.internal or (names is not None and name not in names):
            continue
        broker_name = definition.synonyms[0] if definition.synonyms else None
        synonyms = _broker_synonyms(broker_name, settings) if broker_name else []
        if name in overrides:
            synonyms.insert(0, Synonym(name, format_value(values[name]), ConfigSource.TOPIC_CONFIG))
        described.append(_described(definition, values[name], synonyms, read_only=False))
    return described


def describe_group(
    overrides: Mapping[str, str],
    settings: BrokerSettings,
    names: Collection[str] | None = None,
) -> list[Described]:
    """A group's settings, all or those named. A group need not exist to have some."""
    values = group_values(overrides, broker_values(settings))
    described = []
    for name, definition in GROUP_CONFIGS.items():
        if names is not None and name not in names:
            continue
        synonyms = _broker_synonyms(definition.synonyms[0], settings) if definition.synonyms else []
        if name in overrides:
            synonyms.insert(0, Synonym(name, format_value(values[name]), ConfigSource.GROUP_CONFIG))
        described.append(_described(definition, values[name], synonyms, read_only=False))
    return described


def describe_client_metrics(
    overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[Described]:
    """The settings of a subscription to clients' metrics, which need not exist."""
    described = []
    for name, definition in CLIENT_METRICS_CONFIGS.items():
        if names is not None and name not in names:
            continue
        value, synonyms = definition.default, []
        if name in overrides:
            value = definition.parse(overrides[name])
            synonyms = [Synonym(name, format_value(value), ConfigSource.CLIENT_METRICS_CONFIG)]
        described.append(_described(definition, value, synonyms, read_only=False))
    return described


def describe_broker(
    settings: BrokerSettings, names: Collection[str] | None = None
) -> list[Described]:
    """One broker's settings, all or those named."""
    values = broker_values(settings)
    fill_in_ids(values, settings)
    described = [
        _described(
            definition,
            values[name],
            _broker_synonyms(name, settings),
            read_only=definition.dynamic is DynamicMode.READ_ONLY,
        )
        for name, definition in BROKER_CONFIGS.items()
        if not definition.internal and (names is None or name in names)
    ]
    unused = {
        name: _unused(name, text, source)
        for layer, source in (
            (settings.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (settings.dynamic_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
        )
        for name, text in layer.items()
        if name not in BROKER_CONFIGS and (names is None or name in names)
    }
    return described + list(unused.values())


def describe_cluster_default(
    dynamic_default: Mapping[str, str], names: Collection[str] | None = None
) -> list[Described]:
    """The cluster-wide dynamic defaults: only those that are set."""
    described = []
    for name, text in dynamic_default.items():
        if names is not None and name not in names:
            continue
        definition = BROKER_CONFIGS.get(name)
        if definition is None:
            described.append(_unused(name, text, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG))
        else:
            value = definition.parse(text)
            shown = None if definition.sensitive else format_value(value)
            synonyms = [Synonym(name, shown, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)]
            described.append(_described(definition, value, synonyms, read_only=False))
    return described


def _unused(name: str, text: str, source: ConfigSource) -> Described:
    """A setting that was given and means nothing here; what may be a secret is not shown."""
    shown = may_be_shown(name)
    kind = ConfigType.UNKNOWN
    if shown:
        kind = ConfigType.LONG if text.lstrip("-").isdigit() else ConfigType.STRING
    value = text if shown else None
    synonyms = (Synonym(name, value, source),)
    return Described(name, value, source, False, not shown, kind, "", synonyms)


def _described(
    definition: ConfigDef, value: Value, synonyms: list[Synonym], *, read_only: bool
) -> Described:
    return Described(
        name=definition.name,
        value=None if definition.sensitive else format_value(value),
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        read_only=read_only,
        sensitive=definition.sensitive,
        type=definition.type,
        doc=definition.doc,
        synonyms=tuple(synonyms),
    )


def _broker_synonyms(name: str, settings: BrokerSettings) -> list[Synonym]:
    names = BROKER_CONFIGS[name].synonyms or (name,)
    layers = (
        (settings.dynamic_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (settings.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (settings.static, ConfigSource.STATIC_BROKER_CONFIG),
    )
    found: list[Synonym] = []
    for layer, source in layers:
        for synonym in names:
            if synonym in layer:
                hidden = BROKER_CONFIGS[synonym].sensitive
                found.append(Synonym(synonym, None if hidden else layer[synonym], source))
    for synonym in names:
        default = BROKER_CONFIGS[synonym].default
        if default is not None:
            found.append(Synonym(synonym, format_value(default), ConfigSource.DEFAULT_CONFIG))
    own = next((at for at, synonym in enumerate(found) if synonym.name == name), len(found))
    return found[own:]
