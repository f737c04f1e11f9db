"""A short way to write a row of the broker's table."""

from ottla.config.definition import ConfigDef, DynamicMode, Importance, Range, Validator
from ottla.config.types import ConfigType, Value

BOOLEAN, DOUBLE, INT = ConfigType.BOOLEAN, ConfigType.DOUBLE, ConfigType.INT
LIST, LONG, STRING = ConfigType.LIST, ConfigType.LONG, ConfigType.STRING
SHORT, CLASS, PASSWORD = ConfigType.SHORT, ConfigType.CLASS, ConfigType.PASSWORD
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
READ_ONLY, CLUSTER_WIDE = DynamicMode.READ_ONLY, DynamicMode.CLUSTER_WIDE
PER_BROKER = DynamicMode.PER_BROKER

AT_LEAST_0 = Range(0)
AT_LEAST_1 = Range(1)


def broker(
    name: str,
    kind: ConfigType,
    default: Value,
    validator: Validator | None,
    importance: Importance,
    dynamic: DynamicMode,
    doc: str,
    synonyms: str = "",
    *,
    internal: bool = False,
) -> ConfigDef:
    """One broker setting; `synonyms` are names separated by spaces."""
    return ConfigDef(
        name=name,
        type=kind,
        default=default,
        doc=doc,
        importance=importance,
        validator=validator,
        dynamic=dynamic,
        synonyms=tuple(synonyms.split()),
        internal=internal,
    )
