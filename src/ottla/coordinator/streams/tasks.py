"""Tasks by subtopology: what a member shall have, and what it has.

A task is one partition of a subtopology's sources. It is active on one member; standby and
warm-up tasks keep copies of its state.

Rules kept here:
1. Values are never changed in place.
2. A subtopology without tasks is not in a mapping, so that equal assignments are equal.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

Task = tuple[str, int]
"""A subtopology and a partition."""
Tasks = Mapping[str, frozenset[int]]
ActiveTasks = Mapping[str, Mapping[int, int]]
"""Active tasks with the epoch in which the member got each: offsets may be committed from it on."""


class TaskIds(Protocol):
    """Tasks of one subtopology, as messages and records have them."""

    subtopology_id: str
    partitions: list[int]


def read(found: Iterable[TaskIds] | None) -> Tasks:
    """Tasks as a message or a record lists them."""
    tasks: dict[str, set[int]] = {}
    for each in found or ():
        tasks.setdefault(each.subtopology_id, set()).update(each.partitions)
    return {name: frozenset(numbers) for name, numbers in tasks.items() if numbers}


def listed(tasks: Mapping[str, Iterable[int]]) -> Iterator[tuple[str, list[int]]]:
    """Tasks in order, to be written."""
    return ((name, sorted(tasks[name])) for name in sorted(tasks))


def each_task(tasks: Mapping[str, Iterable[int]]) -> Iterator[Task]:
    """The single tasks."""
    return ((name, number) for name, numbers in tasks.items() for number in numbers)


@dataclass(frozen=True, slots=True)
class Target:
    """What a member shall have, or says that it has."""

    active: Tasks = field(default_factory=dict)
    standby: Tasks = field(default_factory=dict)
    warmup: Tasks = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Owned:
    """What a member has, or has to give up."""

    active: ActiveTasks = field(default_factory=dict)
    standby: Tasks = field(default_factory=dict)
    warmup: Tasks = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """True where there is no task."""
        return not (self.active or self.standby or self.warmup)

    def has_any_of(self, said: Target) -> bool:
        """Whether one of these tasks is among those that the member says it has."""
        return any(
            not numbers.isdisjoint(mine.get(name, ()))
            for tasks, mine in (
                (said.active, self.active),
                (said.standby, self.standby),
                (said.warmup, self.warmup),
            )
            for name, numbers in tasks.items()
        )

    def has_all_of(self, said: Target) -> bool:
        """Whether all tasks that the member says it has are among these."""
        return all(
            name in mine and numbers <= frozenset(mine[name])
            for tasks, mine in (
                (said.active, self.active),
                (said.standby, self.standby),
                (said.warmup, self.warmup),
            )
            for name, numbers in tasks.items()
        )


NOTHING = Target()
