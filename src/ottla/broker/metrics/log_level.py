"""The log level of this process, shown and changed while it runs: Kafka's resource "broker logger".

Rules kept here:
1. There is one logger, `root`, for the whole process. Its level is not kept: a restart begins with
   INFO, as Kafka's loggers go back to their file.
2. Of the alterations in a request either all are made or none.
"""

from collections.abc import Collection, Iterable
from typing import Final

from ottla.config.describe import ConfigSource, Described
from ottla.config.dynamic import Alteration, AlterOp
from ottla.config.types import ConfigType
from ottla.wire.errors import ErrorCode, KafkaError

ROOT: Final = "root"
LEVELS: Final = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}


class _Root:
    """What is logged from which level on."""

    level = "INFO"


def is_logged(level: int) -> bool:
    """Whether a line of this level, as Python counts them, is to be written."""
    return level >= LEVELS[_Root.level]


def set_level(name: str) -> None:
    """Log from this level on."""
    _Root.level = name


def describe_loggers(names: Collection[str] | None) -> list[Described]:
    """The loggers, all or those named."""
    if names is not None and ROOT not in names:
        return []
    return [
        Described(
            name=ROOT,
            value=_Root.level,
            source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
            read_only=False,
            sensitive=False,
            type=ConfigType.UNKNOWN,
            doc="",
            synonyms=(),
        )
    ]


def alter_loggers(alterations: Iterable[Alteration], *, validate_only: bool) -> None:
    """Change levels; raises KafkaError."""
    wanted = [_checked(each) for each in alterations]
    if wanted and not validate_only:
        set_level(wanted[-1])


def _checked(alteration: Alteration) -> str:
    name, op, level = alteration.name, alteration.op, alteration.value
    if op in (AlterOp.APPEND, AlterOp.SUBTRACT):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{op.name} is not possible for the level of a logger"
        )
    if name != ROOT:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"There is no logger {name}; the only one is {ROOT}"
        )
    if op is AlterOp.DELETE:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The level of {ROOT} cannot be removed")
    if level not in LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"{level} is not a log level; valid are {', '.join(LEVELS)}"
        )
    return level
