"""What is wrong with a pipeline file, and where.

Rules kept here:
1. A problem has the line of the text that must change, and says what to do where that is known.
2. All problems are reported at once, in the order of the file.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple


class Problem(NamedTuple):
    """One mistake, in a line counted from 1."""

    line: int
    text: str


class PipelineError(Exception):
    """A pipeline that cannot run; its text stands alone, a line for each problem."""


class WrongFileError(PipelineError):
    """A pipeline file with mistakes in it."""

    def __init__(self, path: str, problems: Iterable[Problem]) -> None:
        self.path = path
        self.problems = sorted(set(problems))
        super().__init__(
            "\n".join(f"{path}:{problem.line}: {problem.text}" for problem in self.problems)
        )


def nearest(wrong: str, right: Iterable[str]) -> str:
    """What may have been meant, to be put behind the problem's text; else what there is."""
    known = list(right)
    lowered = {name.lower(): name for name in known}
    close = get_close_matches(wrong.lower(), lowered, n=1)
    if close:
        return f": did you mean {lowered[close[0]]}?"
    return f": there is {', '.join(known)}" if known else ""
