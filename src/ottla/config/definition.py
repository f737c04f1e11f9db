"""What the table says about one setting, and the checks a value can be given.

A validator answers two questions: what is wrong with this value (None: nothing), and how is the
allowed set written. The written form is Kafka's: `[0,...]`, `[0,...,1]`, `[compact, delete]`.
"""

import re
from collections.abc import Callable
from enum import Enum, IntEnum
from typing import Protocol

import msgspec

from ottla.config.errors import invalid_value
from ottla.config.types import ConfigType, Value, format_value, parse_value


class Scope(Enum):
    """Where a setting is made."""

    BROKER = "broker"
    TOPIC = "topic"
    GROUP = "group"
    CLIENT_METRICS = "client-metrics"


class DynamicMode(Enum):
    """How a broker setting may change while the broker runs.

    Those of topics, groups and subscriptions to clients' metrics always may.
    """

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Importance(IntEnum):
    """How likely it is that someone sets it; orders the documentation."""

    HIGH = 0
    MEDIUM = 1
    LOW = 2


class Validator(Protocol):
    """A check of one parsed value."""

    def problem(self, value: Value) -> str | None:
        """What is wrong with the value, or None."""

    def __str__(self) -> str:
        """The allowed values, as documentation writes them."""


class Range(msgspec.Struct, frozen=True):
    """A number between two bounds, both included; either may be open."""

    low: float | None = None
    high: float | None = None

    def problem(self, value: Value) -> str | None:
        assert isinstance(value, int | float)
        if self.low is not None and value < self.low:
            return f"Value must be at least {self.low}"
        if self.high is not None and value > self.high:
            return f"Value must be no more than {self.high}"
        return None

    def __str__(self) -> str:
        ends = [str(end) for end in (self.low, self.high) if end is not None]
        return f"[{',...,'.join(ends)}]" if self.high is not None else f"[{ends[0]},...]"


class RangeOr(msgspec.Struct, frozen=True):
    """A number between two bounds, or one special number outside of them."""

    low: int
    high: int
    special: int

    def problem(self, value: Value) -> str | None:
        assert isinstance(value, int)
        if value == self.special or self.low <= value <= self.high:
            return None
        return f"Value must be between {self.low} and {self.high} or equal to {self.special}"

    def __str__(self) -> str:
        return f"[{self.low},...,{self.high}] or {self.special}"


class OneOf(msgspec.Struct, frozen=True):
    """A string, or every element of a list, from a closed set."""

    allowed: tuple[str, ...]
    case_insensitive: bool = False

    def problem(self, value: Value) -> str | None:
        for part in value if isinstance(value, tuple) else (value,):
            assert isinstance(part, str)
            if (part.upper() if self.case_insensitive else part) not in self.allowed:
                return f"String must be one of: {', '.join(self.allowed)} (it is {part!r})"
        return None

    def __str__(self) -> str:
        prefix = "(case insensitive) " if self.case_insensitive else ""
        return f"{prefix}[{', '.join(self.allowed)}]"


class Only(msgspec.Struct, frozen=True):
    """Kafka allows more than Ottla does today: what works, and why the rest is refused."""

    works: Value
    reason: str
    kafka_allows: tuple[str, ...] = ()

    def problem(self, value: Value) -> str | None:
        # Set to nothing is the same as not set.
        if (value or None) == (self.works or None):
            return None
        if self.kafka_allows and value not in self.kafka_allows:
            return f"String must be one of: {self.works}"
        return self.reason

    def __str__(self) -> str:
        return f"[{format_value(self.works)}]" if self.works not in ("", None) else "nothing yet"


class ThrottledReplicas(msgspec.Struct, frozen=True):
    """`*` alone, or partition:broker pairs."""

    def problem(self, value: Value) -> str | None:
        assert isinstance(value, tuple)
        pairs = (re.fullmatch(r"[0-9]+:[0-9]+", part) for part in value)
        if value == ("*",) or all(pairs):
            return None
        return f"Must be the literal '*' or a list like {self}"

    def __str__(self) -> str:
        return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


class Syntax(msgspec.Struct, frozen=True):
    """Text with a syntax of its own: `check` raises ValueError with what is wrong."""

    check: Callable[[str], object]
    described: str

    def problem(self, value: Value) -> str | None:
        assert isinstance(value, str)
        try:
            self.check(value)
        except ValueError as error:
            return str(error)
        return None

    def __str__(self) -> str:
        return self.described


class ConfigDef(msgspec.Struct, frozen=True):
    """One row of the table. `default` None means: unset, or taken from a synonym.

    `synonyms` are broker settings, strongest first: those that a setting of a topic or group falls
    back to, or those that share one meaning in different units (`log.retention.ms`, `.minutes`,
    `.hours`).
    """

    name: str
    type: ConfigType
    default: Value
    doc: str
    importance: Importance = Importance.MEDIUM
    validator: Validator | None = None
    scope: Scope = Scope.BROKER
    dynamic: DynamicMode = DynamicMode.READ_ONLY
    synonyms: tuple[str, ...] = ()
    # Accepted and obeyed, but not shown by DescribeConfigs: for tests.
    internal: bool = False

    @property
    def sensitive(self) -> bool:
        """True when the value must not be shown."""
        return self.type is ConfigType.PASSWORD

    @property
    def attribute(self) -> str:
        """The setting's name in Python."""
        return self.name.replace(".", "_")

    def parse(self, text: str) -> Value:
        """The checked value of `text`, or ConfigError."""
        try:
            value = parse_value(self.type, text)
        except ValueError as error:
            allowed = f" (allowed: {self.validator})" if self.validator else ""
            raise self._invalid(text, f"{error}{allowed}") from None
        problem = self.validator.problem(value) if self.validator else None
        if problem:
            raise self._invalid(text, problem)
        return value

    def _invalid(self, text: str, problem: str) -> Exception:
        return invalid_value(self.name, "[hidden]" if self.sensitive else text, problem)


def table(*definitions: ConfigDef) -> dict[str, ConfigDef]:
    """Definitions by name; a name given twice is a mistake in the table."""
    by_name = {definition.name: definition for definition in definitions}
    assert len(by_name) == len(definitions)
    return by_name
