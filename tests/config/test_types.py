"""Parsing and formatting of values; the expectations were seen on Apache Kafka 4.3.0."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.types import LONG_MAX, ConfigType, Value, format_value, parse_value


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.LONG, "5", 5),
        (ConfigType.LONG, " 5 ", 5),
        (ConfigType.LONG, "+7", 7),
        (ConfigType.LONG, "-1", -1),
        (ConfigType.LONG, "9223372036854775807", LONG_MAX),
        (ConfigType.LONG, "0000000000000000000000000000001", 1),
        (ConfigType.INT, "2147483647", 2147483647),
        (ConfigType.SHORT, "-32768", -32768),
        (ConfigType.BOOLEAN, " TRUE ", True),
        (ConfigType.BOOLEAN, "False", False),
        (ConfigType.DOUBLE, "1e-1", 0.1),
        (ConfigType.DOUBLE, ".5", 0.5),
        (ConfigType.DOUBLE, "1", 1.0),
        (ConfigType.LIST, "", ()),
        (ConfigType.LIST, " compact , delete", ("compact", "delete")),
        (ConfigType.STRING, " producer ", "producer"),
        (ConfigType.CLASS, "org.example.Policy", "org.example.Policy"),
    ],
)
def test_text_has_kafkas_value(kind: ConfigType, text: str, value: Value) -> None:
    assert parse_value(kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ConfigType.LONG, ""),
        (ConfigType.LONG, "abc"),
        (ConfigType.LONG, "1_000"),
        (ConfigType.LONG, "1.0"),
        (ConfigType.LONG, "0x10"),
        (ConfigType.LONG, "- 1"),
        (ConfigType.LONG, "9223372036854775808"),
        (ConfigType.LONG, "9" * 100_000),
        (ConfigType.INT, "2147483648"),
        (ConfigType.SHORT, "32768"),
        (ConfigType.BOOLEAN, "yes"),
        (ConfigType.BOOLEAN, "1"),
        (ConfigType.BOOLEAN, ""),
        (ConfigType.DOUBLE, ""),
        (ConfigType.DOUBLE, "1_0"),
        (ConfigType.DOUBLE, "NaN"),
        (ConfigType.DOUBLE, "Infinity"),
        (ConfigType.LIST, ",delete"),
        (ConfigType.LIST, "a,,b"),
    ],
)
def test_text_without_a_value_is_refused(kind: ConfigType, text: str) -> None:
    with pytest.raises(ValueError, match=r"number|true|empty"):
        parse_value(kind, text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (-1, "-1"),
        (("compact", "delete"), "compact,delete"),
        ((), ""),
        (0.5, "0.5"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (1.5e-5, "1.5E-5"),
        (-2e-9, "-2.0E-9"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
    ],
)
def test_a_value_is_shown_as_kafka_shows_it(value: Value, text: str | None) -> None:
    assert format_value(value) == text


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_long_survives_a_round_trip(number: int) -> None:
    assert parse_value(ConfigType.LONG, format_value(number) or "") == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_survives_a_round_trip(number: float) -> None:
    assert parse_value(ConfigType.DOUBLE, format_value(number) or "") == number


@given(st.sampled_from(ConfigType), st.text())
def test_any_text_is_parsed_or_refused(kind: ConfigType, text: str) -> None:
    try:
        value = parse_value(kind, text)
    except ValueError:
        return
    assert parse_value(kind, format_value(value) or "") == value
