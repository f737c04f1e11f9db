"""Which processes have which tasks of a streams group: looked up for every task that is given away.

Rules kept here:
1. An active task has at most one owner: the member that has it, or has to give it up. A later
   record wins, so that a compacted log reads the same as a whole one.
2. Copies of a task (standby, warm-up) are on any number of processes.
"""

from collections import Counter

from ottla.coordinator.streams.member import StreamsMember
from ottla.coordinator.streams.tasks import Owned, Task, each_task


class TaskOwners:
    """The owners of one group's tasks."""

    __slots__ = ("_active", "_copies")

    def __init__(self) -> None:
        self._active: dict[Task, tuple[str, str]] = {}
        """The member that has a task active, and its process."""
        self._copies: dict[Task, Counter[str]] = {}
        """How many copies each process has."""

    def process_of(self, task: Task) -> str | None:
        """The process that has a task active."""
        owner = self._active.get(task)
        return None if owner is None else owner[1]

    def has_copy(self, task: Task, process: str) -> bool:
        """Whether a process has a copy of a task's state."""
        return process in self._copies.get(task, ())

    def replaced(self, before: StreamsMember | None, after: StreamsMember | None) -> None:
        """A member has other tasks, or came, or went."""
        if before is not None:
            for owned in (before.assigned, before.pending):
                self._remove(before, owned)
        if after is not None:
            for owned in (after.assigned, after.pending):
                self._add(after, owned)

    def _add(self, member: StreamsMember, owned: Owned) -> None:
        for task in each_task(owned.active):
            self._active[task] = member.member_id, member.process_id
        for copies in (owned.standby, owned.warmup):
            for task in each_task(copies):
                self._copies.setdefault(task, Counter())[member.process_id] += 1

    def _remove(self, member: StreamsMember, owned: Owned) -> None:
        for task in each_task(owned.active):
            owner = self._active.get(task)
            if owner is not None and owner[0] == member.member_id:
                del self._active[task]
        for copies in (owned.standby, owned.warmup):
            for task in each_task(copies):
                counts = self._copies.get(task)
                if counts is None:
                    continue
                counts[member.process_id] -= 1
                if counts[member.process_id] <= 0:
                    del counts[member.process_id]
                if not counts:
                    del self._copies[task]
