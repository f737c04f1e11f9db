"""Regular expressions from clients. RE2 needs linear time; Python's `re` can be made to hang."""

from collections.abc import Callable

import re2  # type: ignore[import-untyped]  # the package ships no types

MOST_MEMORY = 1 << 20


def full_matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a pattern matches the whole of a text; raises ValueError with what is wrong."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MOST_MEMORY
    try:
        compiled = re2.compile(pattern, options=options)
    except re2.error as problem:
        raise ValueError(str(problem)) from None
    return lambda text: compiled.fullmatch(text) is not None
