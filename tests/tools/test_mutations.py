"""Mutants: one change each, where tests can notice it."""

import ast

from tools.mutations import mutants

SOURCE = '''
"""A module."""

import logging

_log = logging.getLogger(__name__)


def step(self: object, count: int = 3) -> int:
    """Do it."""
    assert count > 0
    if count < 5 and count:
        _log.info("%d", count + 1)
        self.count = count + 1
        raise ValueError
    return count
'''


def changes() -> list[tuple[int, str]]:
    return sorted((each.line, each.what) for each in mutants("step.py", SOURCE))


def test_conditions_operators_numbers_and_statements_are_changed() -> None:
    assert changes() == [
        (9, "3 becomes 4"),
        (12, "5 becomes 6"),
        (12, "And becomes Or"),
        (12, "Lt becomes LtE"),
        (12, "negate condition"),
        (14, "1 becomes 2"),
        (14, "Add becomes Sub"),
        (14, "drop assignment"),
        (15, "drop raise"),
    ]


def test_each_mutant_differs_from_the_source_in_one_line_and_compiles() -> None:
    plain = ast.unparse(ast.parse(SOURCE)).splitlines()
    for mutant in mutants("step.py", SOURCE):
        lines = mutant.source.splitlines()
        compile(mutant.source, "step.py", "exec")
        assert len(lines) == len(plain)
        assert sum(one != other for one, other in zip(plain, lines, strict=True)) == 1
