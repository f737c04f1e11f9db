"""Which partition of an internal topic an id belongs to."""

import pytest

from ottla.broker import coordinators
from ottla.broker.coordinators import java_hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("group", 98629247),
        ("console-consumer-1", 35782224),
        ("\N{GREEK SMALL LETTER ALPHA}", 945),
        ("\N{GRINNING FACE}", 1772899),
        ("polygenelubricants", 0),
    ],
)
def test_an_id_has_the_hash_that_kafka_gives_it(text: str, expected: int) -> None:
    """Java's hashCode; what is negative is negated, and the smallest number is 0."""
    assert java_hash(text) == expected


def test_long_ids_are_hashed_and_not_remembered() -> None:
    long = "x" * (coordinators.LONGEST_REMEMBERED + 1)
    before = coordinators._remembered_hash.cache_info().currsize
    assert java_hash(long) == coordinators._hash(long)
    assert coordinators._remembered_hash.cache_info().currsize == before
