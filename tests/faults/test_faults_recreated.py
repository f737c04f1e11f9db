"""What a topic that was created again may hold."""

import pytest

from faults.recreated import Life, check_life
from faults.verdict import Found

WRITTEN: list[tuple[str, str | None]] = [("a", "2:0"), ("b", "2:1"), ("a", "2:2"), ("b", None)]


def found(*texts: str) -> Found:
    return list(enumerate(texts))


@pytest.mark.parametrize(
    ("texts", "is_right"),
    [
        (("a=2:0", "b=2:1", "a=2:2", "b="), True),
        (("a=2:2",), True),
        (("a=2:2", "b="), True),
        (("b=2:1", "a=2:2"), False),  # the delete marker was dropped, and the value was not
        (("a=2:0", "b="), False),
        (("a=2:2", "c=1:7"), False),
        ((), False),
    ],
)
def test_a_compacted_topic_has_the_last_value_of_each_key(
    texts: tuple[str, ...], is_right: bool
) -> None:
    life = Life(2, 1, compacted=True)
    assert bool(list(check_life(life, WRITTEN, found(*texts)))) is not is_right


@pytest.mark.parametrize(
    ("texts", "is_right"),
    [
        (("a=2:0", "b=2:1"), True),
        (("a=2:0",), False),
        (("b=2:1", "a=2:0"), False),
        (("a=2:0", "b=2:1", "b=2:1"), False),
        (("a=2:0", "b=1:1"), False),
    ],
)
def test_a_topic_has_what_was_written_in_this_life(texts: tuple[str, ...], is_right: bool) -> None:
    life = Life(2, 1, compacted=False)
    assert bool(list(check_life(life, WRITTEN[:2], found(*texts)))) is not is_right
