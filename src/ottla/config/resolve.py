"""Effective values: which of the places that can set a value wins.

1. For a broker: its own dynamic setting, then the cluster's dynamic default, then the static one
   (file, environment, flags), then the default of the table.
2. Settings that mean the same in different units (`log.retention.ms`, `.minutes`, `.hours`) count
   in that order: the first that is set, else the one that has a default.
3. For a topic: its own setting, then the broker's synonym by the rules above.
"""

from collections.abc import Mapping

import msgspec

from ottla.config.broker_configs import BROKER_CONFIGS
from ottla.config.topic_configs import TOPIC_CONFIGS
from ottla.config.types import Value

_MILLISECONDS = {"minutes": 60_000, "hours": 3_600_000}


class BrokerSettings(msgspec.Struct, frozen=True):
    """What was set for one broker, as text, by the place it was set in."""

    static: Mapping[str, str] = {}
    dynamic_default: Mapping[str, str] = {}
    dynamic_broker: Mapping[str, str] = {}

    def text(self, name: str) -> str | None:
        """The strongest text for a name, None when it is set nowhere."""
        for layer in (self.dynamic_broker, self.dynamic_default, self.static):
            if name in layer:
                return layer[name]
        return None


def broker_values(settings: BrokerSettings) -> dict[str, Value]:
    """Every broker setting by its own name, without a look at synonyms."""
    values: dict[str, Value] = {}
    for name, definition in BROKER_CONFIGS.items():
        text = settings.text(name)
        values[name] = definition.default if text is None else definition.parse(text)
    return values


def fill_in_ids(values: dict[str, Value], settings: BrokerSettings) -> None:
    """`broker.id` is the older name of `node.id`: the one that is set counts for both."""
    if settings.text("node.id") is None and settings.text("broker.id") is not None:
        values["node.id"] = values["broker.id"]
    if settings.text("broker.id") is None:
        values["broker.id"] = values["node.id"]


def synonym_value(names: tuple[str, ...], values: Mapping[str, Value]) -> Value:
    """The first of the synonyms that has a value, in the unit of the first name."""
    for name in names:
        value = values[name]
        if value is not None:
            factor = _MILLISECONDS.get(name.rpartition(".")[2])
            return value * factor if factor and isinstance(value, int) else value
    return None


def topic_defaults(values: Mapping[str, Value]) -> dict[str, Value]:
    """What a topic without settings of its own gets from these broker values."""
    defaults: dict[str, Value] = {}
    for name, definition in TOPIC_CONFIGS.items():
        inherited = synonym_value(definition.synonyms, values)
        defaults[name] = definition.default if inherited is None else inherited
    # Any negative time means for ever in the broker's setting; a topic's knows only -1.
    retention = defaults["retention.ms"]
    if isinstance(retention, int) and retention < 0:
        defaults["retention.ms"] = -1
    return defaults


def topic_values(overrides: Mapping[str, str], defaults: Mapping[str, Value]) -> dict[str, Value]:
    """Every setting of one topic; `defaults` are those of `topic_defaults`."""
    values = dict(defaults)
    for name, text in overrides.items():
        values[name] = TOPIC_CONFIGS[name].parse(text)
    if values["internal.segment.bytes"] is not None:
        values["segment.bytes"] = values["internal.segment.bytes"]
    return values
