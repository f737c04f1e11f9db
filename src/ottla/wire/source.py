"""Python source under construction: the lines, names and constants of one compiled codec.

Readers and writers are compiled from field specs: one flat function for each message and
version, in which nothing is looked up or decided that is known beforehand.
"""

from collections.abc import Callable
from typing import Any


class Source:
    """Collects the lines of a function, and the objects that it uses."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._indent = 1
        self._names = 0
        self._constants: dict[str, object] = {}

    def line(self, text: str) -> None:
        """Add a line in the present block."""
        self._lines.append("    " * self._indent + text)

    def block(self, head: str) -> "Source":
        """Open a block; use as `with source.block("if x:"):`."""
        self.line(head)
        return self

    def __enter__(self) -> None:
        self._indent += 1

    def __exit__(self, *_: object) -> None:
        self._indent -= 1

    def name(self, hint: str) -> str:
        """Return a variable name that is not used yet."""
        self._names += 1
        return f"{hint}_{self._names}"

    def constant(self, name: str, value: object) -> str:
        """Make an object known to the function, and return its name."""
        known = self._constants.setdefault(name, value)
        assert known is value or not isinstance(value, type), f"two classes are called {name}"
        return name

    def compile(self, signature: str, filename: str) -> Callable[..., Any]:
        """Return the function. What it takes and gives is the caller's to know."""
        text = "\n".join([f"def compiled({signature}):", *self._lines])
        namespace = dict(self._constants)
        exec(compile(text, filename, "exec"), namespace)
        compiled: Callable[..., Any] = namespace["compiled"]  # type: ignore[assignment]  # from exec
        return compiled
