"""Streams groups under any order of events: replay gives the live group, no task has two owners."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinator.group_config import GroupConfig
from ottla.coordinator.streams.group import StreamsGroup
from ottla.coordinator.streams.tasks import each_task

from .streams_world import StreamsClient, StreamsWorld, counting, simple

NAMES = ("m1", "m2", "m3", "m4")
EVENTS = st.one_of(
    st.tuples(st.just("join"), st.sampled_from(NAMES)),
    st.tuples(st.just("beat"), st.sampled_from(NAMES)),
    st.tuples(st.just("keep"), st.sampled_from(NAMES)),
    st.tuples(st.just("leave"), st.sampled_from(NAMES)),
    st.tuples(st.just("replicas"), st.integers(0, 2)),
    st.tuples(st.just("advance"), st.sampled_from((10, 1_000, 20_000))),
    st.tuples(st.just("topics")),
    st.tuples(st.just("restart")),
)


def written(group: StreamsGroup) -> tuple[Any, ...]:
    """What a group has in its records."""
    return (
        group.epoch,
        group.metadata_hash,
        group.validated_topology_epoch,
        group.assignment_configs,
        group.assignment_epoch,
        group.assignment_timestamp,
        group.topology,
        group.members,
        group.targets,
    )


def check_owners(group: StreamsGroup) -> None:
    """An active task has one member; a process has a task in one form only, once it is assigned."""
    owners = Counter(
        task
        for member in group.members.values()
        for owned in (member.assigned, member.pending)
        for task in each_task(owned.active)
    )
    assert all(count == 1 for count in owners.values())
    forms = Counter(
        (member.process_id, task)
        for member in group.members.values()
        for tasks in (member.assigned.active, member.assigned.standby)
        for task in each_task(tasks)
    )
    assert all(count == 1 for count in forms.values())
    for member in group.members.values():
        for task in each_task(member.assigned.active):
            assert group.owners.process_of(task) == member.process_id


@settings(max_examples=150, deadline=None)
@given(st.lists(EVENTS, max_size=30))
def test_a_replay_gives_the_live_group(events: list[Any]) -> None:
    config = GroupConfig(
        group_streams_initial_rebalance_delay_ms=500, group_streams_assignment_interval_ms=100
    )
    world = StreamsWorld(config=config)
    clients = {
        name: StreamsClient(world, name, process, counting())
        for name, process in zip(NAMES, ("p1", "p1", "p2", "p3"), strict=True)
    }
    for name, *args in events:
        if name == "join":
            clients[args[0]].join()
        elif name == "beat":
            clients[args[0]].beat()
        elif name == "keep":
            clients[args[0]].beat(active_tasks=None, standby_tasks=None, warmup_tasks=None)
        elif name == "leave":
            clients[args[0]].leave()
        elif name == "replicas":
            world.own_configs["g"] = GroupConfig(
                group_streams_num_standby_replicas=args[0],
                group_streams_assignment_interval_ms=100,
            )
        elif name == "advance":
            world.advance(args[0])
        elif name == "topics":
            world.create_internal_topics()
        else:
            world.restart()
        live = world.shard._state.groups.get("g")
        again = world.loaded_anew()._state.groups.get("g")
        assert (live is None) == (again is None)
        if isinstance(live, StreamsGroup) and isinstance(again, StreamsGroup):
            assert written(live) == written(again)
            check_owners(live)
            check_owners(again)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True), st.integers(0, 2))
def test_members_that_stay_have_all_tasks_in_the_end(names: list[str], replicas: int) -> None:
    config = GroupConfig(
        group_streams_initial_rebalance_delay_ms=0,
        group_streams_assignment_interval_ms=0,
        group_streams_num_standby_replicas=replicas,
    )
    world = StreamsWorld(config=config)
    world.topics.create("c", 4)
    clients = [StreamsClient(world, each, topology=simple("a", changelog="c")) for each in NAMES]
    for client in clients:
        client.join()
    for client in clients:
        if client.member_id not in names:
            client.leave()
    staying = [client for client in clients if client.member_id in names]
    for _ in range(6):
        for client in staying:
            client.beat()
    active = Counter(each for client in staying for each in client.active.get("0", ()))
    assert active == dict.fromkeys(range(4), 1)
    copies = min(replicas, len(staying) - 1)
    standby = Counter(each for client in staying for each in client.standby.get("0", ()))
    assert standby == (dict.fromkeys(range(4), copies) if copies else {})
    assert world.group().state_name == "Stable"
