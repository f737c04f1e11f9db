"""The assignor "sticky": which member of a streams group has which tasks. Pure.

Rules kept here:
1. Every active task has exactly one member. Members get the same number of tasks, give or take
   one, as far as what they had allows it.
2. A task stays where it was active, else where it was standby: its state is there already.
3. What is left goes to the process with the fewest tasks for each of its members.
4. A stateful task has `num.standby.replicas` standby tasks, each on another process than its other
   copies; fewer where there are not as many processes.
5. The same input gives the same output.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace

from ottla.coordinator.streams.configured import ConfiguredSubtopology
from ottla.coordinator.streams.member import StreamsMember
from ottla.coordinator.streams.tasks import Target, Task, each_task


@dataclass(slots=True)
class _Process:
    """The members of one process, and what they have been given."""

    name: str
    members: dict[str, int] = field(default_factory=dict)
    """How many tasks each has."""
    tasks: set[Task] = field(default_factory=set)
    count: int = 0

    @property
    def load(self) -> float:
        """Tasks for each member."""
        return self.count / len(self.members)

    def least_loaded(self) -> str:
        """The member with the fewest tasks."""
        return min(self.members, key=lambda member: (self.members[member], member))


class _Share:
    """How many tasks a member may have before others come first."""

    __slots__ = ("_members", "_tasks", "each")

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self._divide()

    def given(self, count: int) -> None:
        """A member has this many tasks now. One with its share leaves the rest to the others."""
        if count == self.each:
            self._members -= 1
            self._tasks -= count
            self._divide()

    def _divide(self) -> None:
        self.each = -(-self._tasks // self._members) if self._members else 0


class _Assignment:
    """One assignment in the making."""

    def __init__(
        self,
        members: Mapping[str, StreamsMember],
        targets: Mapping[str, Target],
        subtopologies: Mapping[str, ConfiguredSubtopology],
        standby_replicas: int,
    ) -> None:
        self._replicas = standby_replicas
        self._process_of: dict[str, _Process] = {}
        self._processes: dict[str, _Process] = {}
        self._was_active: dict[Task, str] = {}
        self._was_standby: dict[Task, list[str]] = {}
        for member_id in sorted(members):
            name = members[member_id].process_id
            process = self._processes.setdefault(name, _Process(name))
            process.members[member_id] = 0
            self._process_of[member_id] = process
            target = targets.get(member_id, Target())
            self._was_active.update((task, member_id) for task in each_task(target.active))
            for task in each_task(target.standby):
                self._was_standby.setdefault(task, []).append(member_id)
        active = sum(each.tasks for each in subtopologies.values())
        stateful = sum(each.tasks for each in subtopologies.values() if each.is_stateful)
        self._active_share = _Share(active, len(members))
        self._share = _Share(active + stateful * standby_replicas, len(members))
        self.active: dict[str, dict[str, set[int]]] = {member: {} for member in members}
        self.standby: dict[str, dict[str, set[int]]] = {member: {} for member in members}

    def _give(self, member: str, task: Task, *, active: bool) -> None:
        process = self._process_of[member]
        process.tasks.add(task)
        process.count += 1
        process.members[member] += 1
        if active:
            self._active_share.given(process.members[member])
        self._share.given(process.members[member])
        given = (self.active if active else self.standby)[member]
        given.setdefault(task[0], set()).add(task[1])

    def assign_active(self, tasks: Iterable[Task]) -> None:
        """Give every task to one member."""
        left = []
        for task in sorted(tasks, key=lambda task: (task[1], task[0])):
            before = self._was_active.get(task)
            if before is not None and self._has_room(before, self._active_share):
                self._give(before, task, active=True)
            else:
                left.append(task)
        nowhere = []
        for task in left:
            standby = self._least_loaded(self._was_standby.get(task, ()), None)
            if standby is not None and self._has_room(standby, self._active_share):
                self._give(standby, task, active=True)
            else:
                nowhere.append(task)
        queue = self._queue()
        for task in sorted(nowhere):
            process = queue[0][2]
            self._give(process.least_loaded(), task, active=True)
            heapreplace(queue, (process.load, process.name, process))

    def assign_standby(self, tasks: Iterable[Task]) -> None:
        """Give every task to other processes, too."""
        left: list[tuple[Task, int]] = []
        for task in sorted(tasks, key=lambda task: (task[1], task[0]), reverse=True):
            for number in range(self._replicas):
                before = self._was_active.get(task)
                if before is not None and not self._may_copy(before, task):
                    before = None
                if before is None:
                    before = self._least_loaded(self._was_standby.get(task, ()), task)
                    if before is not None and not self._has_room(before, self._share):
                        before = None
                if before is None:
                    left.append((task, self._replicas - number))
                    break
                self._give(before, task, active=False)
        queue = self._queue()
        for task, wanted in sorted(left, reverse=True):
            for _ in range(wanted):
                if not self._copy_to_least_loaded(queue, task):
                    break

    def _may_copy(self, member: str, task: Task) -> bool:
        is_there = task in self._process_of[member].tasks
        return not is_there and self._has_room(member, self._share)

    def _has_room(self, member: str, share: _Share) -> bool:
        return self._process_of[member].members[member] < share.each

    def _least_loaded(self, members: Iterable[str], task: Task | None) -> str | None:
        """The member with the least to do, of those whose process has no copy of the task."""
        able = [
            member
            for member in members
            if task is None or task not in self._process_of[member].tasks
        ]
        if not able:
            return None
        return min(
            able,
            key=lambda member: (
                self._process_of[member].load,
                self._process_of[member].members[member],
                member,
            ),
        )

    def _queue(self) -> list[tuple[float, str, _Process]]:
        queue = [(each.load, each.name, each) for each in self._processes.values()]
        heapify(queue)
        return queue

    def _copy_to_least_loaded(self, queue: list[tuple[float, str, _Process]], task: Task) -> bool:
        passed = []
        found = False
        while queue and not found:
            process = heappop(queue)[2]
            if task not in process.tasks:
                self._give(process.least_loaded(), task, active=False)
                found = True
            passed.append(process)
        for process in passed:
            heappush(queue, (process.load, process.name, process))
        return found


def assign(
    members: Mapping[str, StreamsMember],
    targets: Mapping[str, Target],
    subtopologies: Mapping[str, ConfiguredSubtopology],
    standby_replicas: int,
) -> dict[str, Target]:
    """The tasks of each member; `targets` are those of the assignment before."""
    if not members:
        return {}
    making = _Assignment(members, targets, subtopologies, standby_replicas)
    making.assign_active(_tasks(subtopologies))
    if standby_replicas:
        stateful = {name: each for name, each in subtopologies.items() if each.is_stateful}
        making.assign_standby(_tasks(stateful))
    return {
        member: Target(
            {name: frozenset(numbers) for name, numbers in making.active[member].items()},
            {name: frozenset(numbers) for name, numbers in making.standby[member].items()},
        )
        for member in members
    }


def _tasks(subtopologies: Mapping[str, ConfiguredSubtopology]) -> Iterable[Task]:
    return ((name, number) for name, each in subtopologies.items() for number in range(each.tasks))
