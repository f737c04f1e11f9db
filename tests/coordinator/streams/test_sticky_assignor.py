"""The assignor "sticky": complete, balanced, stable, and copies apart."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.streams.assignor import assign
from ottla.coordinator.streams.configured import ConfiguredSubtopology, InternalTopic
from ottla.coordinator.streams.member import StreamsMember
from ottla.coordinator.streams.schemas import Subtopology
from ottla.coordinator.streams.tasks import Target, each_task

PROCESSES = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(8)]),
    st.sampled_from(("p1", "p2", "p3", "p4")),
    min_size=1,
)
COUNTS = st.dictionaries(
    st.sampled_from("0123"), st.tuples(st.integers(1, 7), st.booleans()), min_size=1
)


def members(processes: dict[str, str]) -> dict[str, StreamsMember]:
    return {name: StreamsMember(name, process_id=each) for name, each in processes.items()}


def subtopologies(counts: dict[str, tuple[int, bool]]) -> dict[str, ConfiguredSubtopology]:
    changelog = InternalTopic("c", 1, 0, {})
    return {
        name: ConfiguredSubtopology(
            tasks, frozenset(), Subtopology(), (), (changelog,) if is_stateful else ()
        )
        for name, (tasks, is_stateful) in counts.items()
    }


def load(target: Target) -> int:
    return len([*each_task(target.active), *each_task(target.standby)])


@given(PROCESSES, PROCESSES, COUNTS, st.integers(0, 2))
def test_all_tasks_are_assigned_and_copies_are_apart(
    before: dict[str, str],
    processes: dict[str, str],
    counts: dict[str, tuple[int, bool]],
    replicas: int,
) -> None:
    parts = subtopologies(counts)
    first = assign(members(before), {}, parts, replicas)
    for targets in (first, {}):
        found = assign(members(processes), targets, parts, replicas)
        assert found == assign(members(processes), targets, parts, replicas)
        active = Counter(task for each in found.values() for task in each_task(each.active))
        wanted = {(name, number) for name, (tasks, _) in counts.items() for number in range(tasks)}
        assert active == dict.fromkeys(wanted, 1)
        forms = Counter(
            (processes[member], task)
            for member, each in found.items()
            for tasks in (each.active, each.standby)
            for task in each_task(tasks)
        )
        assert all(count == 1 for count in forms.values())
        standby = Counter(task for each in found.values() for task in each_task(each.standby))
        copies = min(replicas, len(set(processes.values())) - 1)
        stateful = {task for task in wanted if counts[task[0]][1]}
        assert standby == (dict.fromkeys(stateful, copies) if copies else {})


@given(st.integers(1, 8), COUNTS)
def test_members_of_processes_of_their_own_get_the_same_number(
    count: int, counts: dict[str, tuple[int, bool]]
) -> None:
    processes = {f"m{number}": f"p{number}" for number in range(count)}
    found = assign(members(processes), {}, subtopologies(counts), 0)
    sizes = [load(each) for each in found.values()]
    assert max(sizes) - min(sizes) <= 1


@given(PROCESSES, COUNTS)
def test_nothing_moves_where_nothing_changed(
    processes: dict[str, str], counts: dict[str, tuple[int, bool]]
) -> None:
    parts = subtopologies(counts)
    first = assign(members(processes), {}, parts, 0)
    again = assign(members(processes), first, parts, 0)
    moved = sum(
        len(set(each_task(again[name].active)) - set(each_task(first[name].active)))
        for name in first
    )
    sizes = [load(each) for each in first.values()]
    if max(sizes) - min(sizes) <= 1:
        assert moved == 0


def test_a_task_goes_to_where_its_state_is() -> None:
    parts = subtopologies({"0": (6, True)})
    three = members({"m1": "p1", "m2": "p2", "m3": "p3"})
    first = assign(three, {}, parts, 1)
    lost = dict(each_task_owner(first))
    two = {name: each for name, each in three.items() if name != "m3"}
    targets = {name: each for name, each in first.items() if name != "m3"}
    second = assign(two, targets, parts, 1)
    for name in two:
        assert set(each_task(first[name].active)) <= set(each_task(second[name].active))
    for task in each_task(first["m3"].active):
        (heir,) = (name for name in two if task in set(each_task(second[name].active)))
        assert heir == lost[task] or len([*each_task(second[lost[task]].active)]) == 3


def each_task_owner(targets: dict[str, Target]) -> list[tuple[tuple[str, int], str]]:
    """Each standby task with its member."""
    return [(task, name) for name, each in targets.items() for task in each_task(each.standby)]
