"""Regular expressions from clients: what they match, and that none of them hangs the broker."""

import pytest

from ottla.broker.patterns import full_matcher


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("orders", "orders", True),
        ("orders", "my-orders", False),
        ("orders", "orders-2", False),
        ("orders|sales", "sales", True),
        ("a.*", "abc", True),
        ("", "", True),
        ("(?i)ORDERS", "orders", True),
    ],
)
def test_a_pattern_matches_a_whole_name(pattern: str, text: str, matches: bool) -> None:
    assert full_matcher(pattern)(text) is matches


@pytest.mark.parametrize("pattern", ["(", "[a", "a**b{", "(?=a)", r"(a)\1", "x{1001}" * 3])
def test_what_is_no_pattern_is_said(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        full_matcher(pattern)


def test_a_pattern_that_would_hang_others_takes_no_time() -> None:
    assert not full_matcher("(a+)+$")("a" * 100_000 + "b")


def test_a_pattern_that_would_take_much_memory_is_refused() -> None:
    with pytest.raises(ValueError, match=r"."):
        full_matcher("((a{1,100}){1,100}){1,100}")
