"""Denials are logged, and cannot fill the disk."""

from ottla.security.denials import MOST_KEPT, Denial, Denials, Told
from ottla.security.operations import Operation, ResourceType


def _denial(name: str) -> Denial:
    return Denial("User:a", "h", Operation.READ, ResourceType.TOPIC, name)


def test_the_first_is_reported_at_once_and_the_others_are_counted() -> None:
    denials = Denials()
    one = _denial("t")
    assert denials.note(one, 0.0) == Told(one, 0)
    assert [denials.note(one, 0.1 * n) for n in range(1, 10)] == [None] * 9
    assert denials.note(_denial("u"), 0.5) is not None
    assert denials.note(one, 1.0) == Told(one, 9)
    assert denials.note(one, 2.0) == Told(one, 0)
    assert denials.total == 13


def test_many_names_do_not_make_many_lines() -> None:
    denials = Denials()
    told = [denials.note(_denial(str(n)), 0.0) for n in range(2 * MOST_KEPT)]
    assert sum(each is not None for each in told) == MOST_KEPT
    assert denials.note(_denial("another"), 5.0) is not None


def test_a_long_name_makes_neither_a_long_line_nor_much_to_remember() -> None:
    denials = Denials()
    told = denials.note(_denial("x" * 30_000), 0.0)
    assert told is not None
    assert len(told.denial.name) <= 260
    assert denials.note(_denial("x" * 30_001), 0.0) is None
