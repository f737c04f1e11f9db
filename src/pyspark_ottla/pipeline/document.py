"""A YAML document in which every text knows its line.

Rules kept here:
1. A wrong value is a problem and is then treated as missing, so that one reading finds them all.
2. A key that nobody asked for is a problem: `finish` reports it with the nearest right one.
3. `${NAME}` in a text is the environment variable NAME; one that is not set is a problem.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Self

import yaml

from pyspark_ottla.pipeline.problems import Problem, nearest

VARIABLE = re.compile(r"\$\{(\w+)\}")
TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class Text(str):
    """A text of the file, with the line that it begins in."""

    line: int
    __slots__ = ("line",)

    def __new__(cls, text: str, line: int) -> Self:
        """`line` counts from 1."""
        made = super().__new__(cls, text)
        made.line = line
        return made

    def __reduce__(self) -> tuple[type[Self], tuple[str, int]]:
        """For copies and pickles."""
        return type(self), (str(self), self.line)


class Section:
    """A mapping of the file: asks for its keys, and remembers which ones it knows."""

    def __init__(
        self,
        node: yaml.MappingNode,
        where: str,
        problems: list[Problem],
        environment: Mapping[str, str],
    ) -> None:
        self.line = _line(node)
        self.where = where
        """What it is, as in "source clicks"."""
        self._problems = problems
        self._environment = environment
        self._known: list[str] = []
        self._values: dict[str, yaml.Node] = {}
        self._keys: dict[str, Text] = {}
        for key, value in node.value:
            name = Text(str(key.value), _line(key))
            if name in self._values:
                self.wrong(f"{where}: {name} is a duplicate", name.line)
            self._values[name] = value
            self._keys[name] = name

    def wrong(self, text: str, line: int | None = None) -> None:
        """Report a problem, by default in the section's first line."""
        self._problems.append(Problem(self.line if line is None else line, text))

    def names(self) -> list[Text]:
        """All keys, where each is the name of something; none of them is unknown then."""
        self._known.extend(self._keys)
        return list(self._keys.values())

    def has(self, name: str) -> bool:
        """Whether the key is there; asking makes it a known one."""
        self._known.append(name)
        return name in self._values

    def line_of(self, name: str) -> int:
        """Where a key is; the section's own line if it is not there."""
        return self._keys[name].line if name in self._keys else self.line

    def text(
        self, name: str, choices: Iterable[str] = (), *, required: bool = False
    ) -> Text | None:
        """The text under a key."""
        node = self._take(name, required)
        if node is None:
            return None
        found = self._scalar(node, name)
        allowed = list(choices)
        if found is not None and allowed and found not in allowed:
            self.wrong(
                f"{self.where}: {name} cannot be {found}{nearest(found, allowed)}", found.line
            )
            return None
        return found

    def texts(self, name: str) -> tuple[Text, ...]:
        """One text or a list of them."""
        node = self._take(name)
        if node is None:
            return ()
        items = node.value if isinstance(node, yaml.SequenceNode) else [node]
        return tuple(text for item in items if (text := self._scalar(item, name)) is not None)

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false."""
        found = self.text(name, TRUTHS)
        return default if found is None else TRUTHS[found]

    def number(self, name: str) -> int | None:
        """A whole number above 0."""
        found = self.text(name)
        if found is None:
            return None
        plain = found.replace("_", "")
        if not (plain.isascii() and plain.isdigit() and int(plain)):
            self.wrong(f"{self.where}: {name} must be a whole number above 0", found.line)
            return None
        return int(plain)

    def section(self, name: str, where: str = "", *, required: bool = False) -> "Section | None":
        """The mapping under a key."""
        node = self._take(name, required)
        if node is None:
            return None
        if not isinstance(node, yaml.MappingNode):
            self.wrong(f"{self.where}: {name} must be a list of `key: value` lines", _line(node))
            return None
        inner = Section(node, where or f"{self.where}: {name}", self._problems, self._environment)
        inner.line = self.line_of(name)
        return inner

    def is_text(self, name: str) -> bool:
        """Whether there is a plain text under a key."""
        return isinstance(self._values.get(name), yaml.ScalarNode)

    def pairs(self, name: str) -> dict[str, Text]:
        """A mapping of texts to texts."""
        section = self.section(name)
        if section is None:
            return {}
        found = {key: section.text(key) for key in section.names()}
        return {key: text for key, text in found.items() if text is not None}

    def finish(self) -> None:
        """Report the keys that nobody asked for."""
        for name, key in self._keys.items():
            if name not in self._known:
                missing = [known for known in self._known if known not in self._values]
                self.wrong(f"{self.where}: unknown key {name}{nearest(name, missing)}", key.line)

    def _take(self, name: str, required: bool = False) -> yaml.Node | None:
        self._known.append(name)
        node = self._values.get(name)
        is_empty = isinstance(node, yaml.ScalarNode) and node.value == "" and node.style is None
        if node is None or is_empty:
            if required:
                self.wrong(f"{self.where}: {name} is missing", self.line_of(name))
            elif is_empty:
                self.wrong(f"{self.where}: {name} is empty", self.line_of(name))
            return None
        return node

    def _scalar(self, node: yaml.Node, name: str) -> Text | None:
        line = _line(node)
        if not isinstance(node, yaml.ScalarNode):
            self.wrong(f"{self.where}: {name} must be a text", line)
            return None
        for variable in VARIABLE.findall(node.value):
            if variable not in self._environment:
                self.wrong(f"{self.where}: the environment variable {variable} is not set", line)
        text = VARIABLE.sub(lambda found: self._environment.get(found[1], found[0]), node.value)
        # The text of a block (`sql: |`) begins in the line after the sign.
        return Text(text, line + 1 if node.style in ("|", ">") else line)


def read_document(
    text: str, problems: list[Problem], environment: Mapping[str, str]
) -> Section | None:
    """The file's outermost mapping; None, with the problem reported, where there is none."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as wrong:
        mark = wrong.problem_mark or wrong.context_mark
        line = mark.line + 1 if mark else 1
        problems.append(Problem(line, f"not YAML: {wrong.problem or wrong.context}"))
        return None
    except yaml.YAMLError as wrong:
        problems.append(Problem(1, f"not YAML: {' '.join(str(wrong).split())}"))
        return None
    if not isinstance(node, yaml.MappingNode):
        problems.append(Problem(1, "a pipeline file has `sources:`, `steps:` and `sinks:`"))
        return None
    return Section(node, "the pipeline", problems, environment)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
