"""How a member of a streams group comes from the tasks that it has to those it shall have. Pure.

Rules kept here:
1. First give, then take: a member stays in its epoch until it has given up everything that is not
   in its target; only then it moves to the target's epoch and gets new tasks.
2. An active task is given when no member has it, and no copy of it is on the member's process. A
   copy is given when the process has the task in no form: its members share a folder of state.
3. A member that waits for a task is moved to the target's epoch all the same, with what is free.
4. What a member has given up is known from the tasks that it says it has.

| from             | to               | when                                          |
|------------------|------------------|-----------------------------------------------|
| STABLE           | UNREVOKED_TASKS  | the target lacks tasks that it has            |
| STABLE           | UNRELEASED_TASKS | the target has tasks that are not free        |
| UNREVOKED_TASKS  | UNREVOKED_TASKS  | it gave up all, but a newer target wants more |
| UNREVOKED_TASKS  | UNRELEASED_TASKS | it gave up all, others have not               |
| UNREVOKED_TASKS  | STABLE           | it gave up all and has its target             |
| UNRELEASED_TASKS | each of them     | as from STABLE, with the latest target        |
| UNKNOWN          | each of them     | as from STABLE, if it has nothing             |
"""

from collections.abc import Callable, Iterable, Mapping

from ottla.coordinator.streams.member import MemberState, StreamsMember
from ottla.coordinator.streams.owners import TaskOwners
from ottla.coordinator.streams.tasks import NOTHING, Owned, Target, Task, Tasks
from ottla.wire.errors import ErrorCode, KafkaError

IsTaken = Callable[[Task], bool]


def reconciled(
    member: StreamsMember,
    target_epoch: int,
    target: Target,
    owners: TaskOwners,
    has: Target | None,
) -> StreamsMember:
    """The member after its next step; `has`: what it says that it has."""
    match member.state:
        case MemberState.STABLE:
            if member.member_epoch == target_epoch:
                return member
            epoch = member.member_epoch
        case MemberState.UNREVOKED_TASKS:
            if has is None or member.pending.has_any_of(has):
                return member
            epoch = member.member_epoch + 1
        case MemberState.UNRELEASED_TASKS:
            epoch = member.member_epoch
        case MemberState.UNKNOWN:
            if has != NOTHING:
                raise KafkaError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The streams group member is in a unknown state. The member must abandon all "
                    "its tasks and rejoin.",
                )
            epoch = target_epoch
    kept, revoked, new, is_waiting = _difference(member, target_epoch, target, owners)
    if not revoked.is_empty and (has is None or revoked.has_any_of(has)):
        return member.moved(MemberState.UNREVOKED_TASKS, epoch, kept, revoked)
    state = MemberState.UNRELEASED_TASKS if is_waiting else MemberState.STABLE
    return member.moved(state, target_epoch, _joined(kept, new), Owned())


def _difference(
    member: StreamsMember, target_epoch: int, target: Target, owners: TaskOwners
) -> tuple[Owned, Owned, Owned, bool]:
    """What stays, what goes, what comes, and whether something cannot come yet."""
    process = member.process_id

    def is_taken(task: Task) -> bool:
        return owners.process_of(task) is not None or owners.has_copy(task, process)

    def is_here(task: Task) -> bool:
        return owners.process_of(task) == process or owners.has_copy(task, process)

    mine = member.assigned
    active, active_waits = _free(mine.active, target.active, is_taken)
    standby, standby_waits = _free(mine.standby, target.standby, is_here)
    warmup, warmup_waits = _free(mine.warmup, target.warmup, is_here)
    kept = Owned(
        _epochs(mine.active, target.active, is_in=True),
        _in(mine.standby, target.standby),
        _in(mine.warmup, target.warmup),
    )
    revoked = Owned(
        _epochs(mine.active, target.active, is_in=False),
        _not_in(mine.standby, target.standby),
        _not_in(mine.warmup, target.warmup),
    )
    new = Owned(
        {name: dict.fromkeys(sorted(numbers), target_epoch) for name, numbers in active.items()},
        standby,
        warmup,
    )
    return kept, revoked, new, active_waits or standby_waits or warmup_waits


def _free(
    mine: Mapping[str, Iterable[int]], target: Tasks, is_taken: IsTaken
) -> tuple[Tasks, bool]:
    """The tasks of the target that are new and free; whether others are not free."""
    wanted = {name: numbers.difference(mine.get(name, ())) for name, numbers in target.items()}
    free = {
        name: frozenset(number for number in numbers if not is_taken((name, number)))
        for name, numbers in wanted.items()
    }
    return _without_empty(free), free != wanted


def _epochs(
    mine: Mapping[str, Mapping[int, int]], target: Tasks, *, is_in: bool
) -> dict[str, dict[int, int]]:
    found = {
        name: {
            number: epoch
            for number, epoch in epochs.items()
            if (number in target.get(name, ())) is is_in
        }
        for name, epochs in mine.items()
    }
    return {name: epochs for name, epochs in found.items() if epochs}


def _in(mine: Tasks, target: Tasks) -> Tasks:
    return _without_empty(
        {name: numbers & target.get(name, frozenset()) for name, numbers in mine.items()}
    )


def _not_in(mine: Tasks, target: Tasks) -> Tasks:
    return _without_empty(
        {name: numbers - target.get(name, frozenset()) for name, numbers in mine.items()}
    )


def _without_empty(tasks: Tasks) -> Tasks:
    return {name: numbers for name, numbers in tasks.items() if numbers}


def _joined(kept: Owned, new: Owned) -> Owned:
    active = {name: dict(epochs) for name, epochs in kept.active.items()}
    for name, epochs in new.active.items():
        active.setdefault(name, {}).update(epochs)
    return Owned(active, _union(kept.standby, new.standby), _union(kept.warmup, new.warmup))


def _union(some: Tasks, more: Tasks) -> Tasks:
    empty: frozenset[int] = frozenset()
    return {name: some.get(name, empty) | more.get(name, empty) for name in {**some, **more}}
