"""Setting values as text and as Python values, by the rules of Kafka's own parser.

1. Text is trimmed first. Whole numbers are strict: an optional sign and digits, inside the type's
   range. Booleans are `true` or `false` in any case. A list is separated by commas, spaces around
   the commas do not count, and the empty text is the empty list.
2. Formatting is what Kafka shows: `true`, `1.0E7`, `compact,delete`.
3. NaN and Infinity, which Java parses as doubles, are refused: no setting has a use for them.
"""

import re
from decimal import Decimal
from enum import IntEnum

Value = bool | int | float | str | tuple[str, ...] | None


class ConfigType(IntEnum):
    """A setting's type, with the number that DescribeConfigs carries."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

_BITS = {ConfigType.INT: 31, ConfigType.SHORT: 15, ConfigType.LONG: 63}
_WHOLE = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_COMMA = re.compile(r"\s*,\s*")
# Java's trim() cuts everything up to and including the space.
_TRIMMED = "".join(map(chr, range(33)))


def parse_value(kind: ConfigType, text: str) -> Value:
    """The value of `text`; ValueError with what was expected when it has none."""
    text = text.strip(_TRIMMED)
    if kind is ConfigType.BOOLEAN:
        lowered = text.lower()
        if lowered not in ("true", "false"):
            raise ValueError("Expected value to be either true or false")
        return lowered == "true"
    if kind in _BITS:
        return _parse_whole(kind, text)
    if kind is ConfigType.DOUBLE:
        if not _DECIMAL.fullmatch(text):
            raise ValueError("Not a number of type DOUBLE")
        return float(text)
    if kind is ConfigType.LIST:
        parts = tuple(_COMMA.split(text)) if text else ()
        if "" in parts:
            raise ValueError("The list has an empty element")
        return parts
    return text


def _parse_whole(kind: ConfigType, text: str) -> int:
    # Twenty characters hold every long; more would only make int() slow on hostile input.
    if _WHOLE.fullmatch(text) and len(text.lstrip("+-").lstrip("0")) <= 20:
        number = int(text)
        bound = 1 << _BITS[kind]
        if -bound <= number < bound:
            return number
    raise ValueError(f"Not a number of type {kind.name}")


def format_value(value: Value) -> str | None:
    """The text that Kafka shows for a value; None stays None."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return _format_double(value)
    return str(value)


def _format_double(number: float) -> str:
    # Java writes plain decimals from 0.001 up to ten million, and an exponent outside of that.
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int)
    figures = "".join(map(str, digits))
    power = exponent + len(figures) - 1
    return f"{'-' if sign else ''}{figures[0]}.{figures[1:] or '0'}E{power}"
