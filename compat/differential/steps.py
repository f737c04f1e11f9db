"""What a differential run is made of: steps, the rounds they belong to, and what draws them.

Rules kept here:
1. A step holds canonical values: names with the prefix PREFIX, ids as `names` makes them. The same
   steps can be played in any round, on any broker.
2. Steps are numbered in a round, and ids are named for the step that made them. So steps can be
   left out without changing what the others mean.
"""

from dataclasses import dataclass
from random import Random
from typing import Protocol

from ottla.wire.message import Message

PREFIX = "@00000."
"""Of names of topics, groups and transactional ids; each round has a real one of equal length."""
MAIN = "main"
"""The connection of requests whose reply does not wait for other requests."""


def named(name: str) -> str:
    """The canonical form of a name."""
    return PREFIX + name


@dataclass(frozen=True)
class Step:
    """One request."""

    number: int
    request: Message
    version: int
    connection: str = MAIN
    may_wait: bool = False
    """The reply may wait for what other steps do."""

    def __str__(self) -> str:
        shown = f"{self.number:4} {self.connection} v{self.version} "
        return shown + brief(self.request)


@dataclass(frozen=True)
class Draft:
    """A step before it has its number."""

    request: Message
    version: int
    connection: str = MAIN
    may_wait: bool = False

    def numbered(self, number: int) -> Step:
        """The step."""
        return Step(number, self.request, self.version, self.connection, self.may_wait)


class Family(Protocol):
    """Draws the steps of one round, and learns from Kafka's canonical replies."""

    def __init__(self, chance: Random, now: int) -> None: ...

    def opening(self) -> list[Draft]:
        """Steps that every round begins with."""

    def draw(self) -> Draft:
        """The next step."""

    def learn(self, step: Step, reply: Message) -> None:
        """Take notice of a reply."""

    def closing(self) -> list[Draft]:
        """Steps that leave nothing behind."""


LONGEST_BYTES = 40


def brief(value: object) -> str:
    """A value for people: without what is default, and long bytes cut."""
    if isinstance(value, bytes):
        shown = value[:LONGEST_BYTES].hex()
        return f"<{len(value)} bytes {shown}{'..' if len(value) > LONGEST_BYTES else ''}>"
    if isinstance(value, list):
        return "[" + ", ".join(brief(item) for item in value) + "]"
    if hasattr(value, "__struct_fields__"):
        plain = type(value)()
        fields = [
            f"{name}={brief(getattr(value, name))}"
            for name in value.__struct_fields__
            if getattr(value, name) != getattr(plain, name)
        ]
        return f"{type(value).__name__}({', '.join(fields)})"
    return repr(value)
