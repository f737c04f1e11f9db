"""The settings that a consumer group can have of its own (KIP-848), and their checks.

Rules kept here:
1. A group without a value of its own has the broker's: its synonym in the broker's table.
2. The broker's `group.consumer.min.*` and `.max.*` bound what a group may be given; a value that
   they have come to exclude counts as the nearest that they allow.
3. Settings of share groups and of streams groups are unknown names: there are no such groups here.
"""

from collections.abc import Mapping

from ottla.config.definition import ConfigDef, Range, Scope, table
from ottla.config.errors import ConfigError, unknown_name
from ottla.config.types import ConfigType, Value

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"


def _group(name: str, default: int, least: int, doc: str) -> ConfigDef:
    return ConfigDef(
        name=name,
        type=ConfigType.INT,
        default=default,
        doc=doc,
        validator=Range(least),
        scope=Scope.GROUP,
        synonyms=(f"group.{name}",),
    )


GROUP_CONFIGS = table(
    _group(
        SESSION_TIMEOUT,
        45_000,
        1,
        ("A member without a heartbeat for this long is removed from the group."),
    ),
    _group(HEARTBEAT_INTERVAL, 5_000, 1, "The heartbeat interval given to members."),
    _group(ASSIGNMENT_INTERVAL, 1_000, 0, "The shortest time between two assignments."),
)

BROKER_SETTINGS = tuple(
    f"group.{name.replace('consumer.', f'consumer.{which}', 1)}"
    for name in GROUP_CONFIGS
    for which in ("", "min.", "max.")
)
"""The broker settings that groups inherit, and those that bound what a group may be given."""


def group_values(overrides: Mapping[str, str], broker: Mapping[str, Value]) -> dict[str, int]:
    """Every setting of one group; `broker` has the values of BROKER_SETTINGS."""
    values: dict[str, int] = {}
    for name, definition in GROUP_CONFIGS.items():
        text = overrides.get(name)
        value = broker[definition.synonyms[0]] if text is None else definition.parse(text)
        assert isinstance(value, int)
        if text is not None:
            least, most = _bounds(name, broker)
            value = min(max(value, least), most)
        values[name] = value
    return values


def check_group_configs(configs: Mapping[str, str], broker: Mapping[str, Value]) -> None:
    """Raise the ConfigError of the first setting that is wrong."""
    for name, text in configs.items():
        definition = GROUP_CONFIGS.get(name)
        if definition is None:
            raise unknown_name("group ", name, GROUP_CONFIGS)
        value = definition.parse(text)
        assert isinstance(value, int)
        least, most = _bounds(name, broker)
        if value < least:
            raise ConfigError(f"{name} must be greater than or equal to {_bound(name, 'min')}")
        if value > most:
            raise ConfigError(f"{name} must be less than or equal to {_bound(name, 'max')}")
    values = group_values(configs, broker)
    if values[SESSION_TIMEOUT] <= values[HEARTBEAT_INTERVAL]:
        raise ConfigError(f"{SESSION_TIMEOUT} must be greater than {HEARTBEAT_INTERVAL}")


def _bound(name: str, which: str) -> str:
    """The broker setting that bounds a group's: group.consumer.min.session.timeout.ms."""
    return f"group.{name.replace('consumer.', f'consumer.{which}.', 1)}"


def _bounds(name: str, broker: Mapping[str, Value]) -> tuple[int, int]:
    least, most = broker[_bound(name, "min")], broker[_bound(name, "max")]
    assert isinstance(least, int)
    assert isinstance(most, int)
    return least, most
