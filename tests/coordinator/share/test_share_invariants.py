"""Share groups under any order of events: replay gives the live group, and all is assigned."""

from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinator.shard import Deferred
from ottla.coordinator.share.assignor import assign
from ottla.coordinator.share.group import ShareGroup

from .share_world import ShareMemberClient, ShareWorld

MEMBERS = ("m1", "m2", "m3")
EVENTS = st.one_of(
    st.tuples(
        st.just("join"), st.sampled_from(MEMBERS), st.sampled_from((["a"], ["b"], ["a", "b"]))
    ),
    st.tuples(st.just("beat"), st.sampled_from(MEMBERS)),
    st.tuples(st.just("leave"), st.sampled_from(MEMBERS)),
    st.tuples(st.just("initialize"), st.booleans()),
    st.tuples(st.just("advance"), st.sampled_from((10, 1_000, 20_000))),
    st.tuples(st.just("grow")),
    st.tuples(st.just("restart")),
)


def written(group: ShareGroup) -> tuple[Any, ...]:
    """What a group has in its records."""
    noted = group.partitions
    return (
        group.epoch,
        group.metadata_hash,
        group.assignment_epoch,
        group.assignment_timestamp,
        group.members,
        group.targets,
        noted.initializing,
        noted.initialized,
        noted.deleting,
    )


@settings(max_examples=150, deadline=None)
@given(st.lists(EVENTS, max_size=25))
def test_a_replay_gives_the_live_group(events: list[Any]) -> None:
    world = ShareWorld()
    clients = {name: ShareMemberClient(world, name) for name in MEMBERS}
    size = 4
    for name, *args in events:
        if name == "join":
            client = clients[args[0]]
            client.epoch = 0
            client.beat(subscribed_topic_names=args[1])
        elif name == "beat":
            clients[args[0]].beat()
        elif name == "leave":
            clients[args[0]].epoch = -1
            clients[args[0]].beat()
        elif name == "initialize":
            world.initialize({world.topics.id_of("a"): frozenset({0})} if args[0] else None)
        elif name == "advance":
            world.advance(args[0])
        elif name == "grow":
            size += 1
            world.topics.grow("a", size)
        else:
            world.effects.clear()
            world.restart()
        live = world.shard._state.groups.get("g")
        again = world.loaded_anew()._state.groups.get("g")
        assert (live is None) == (again is None)
        if isinstance(live, ShareGroup) and isinstance(again, ShareGroup):
            assert written(live) == written(again)
            waiting = {token for tokens in live.waiting.values() for token in tokens}
            assert waiting == world.parked


def test_everything_is_assigned_in_the_end() -> None:
    world = ShareWorld()
    clients = [ShareMemberClient(world, name, ["a", "b"]) for name in MEMBERS]
    for client in clients:
        assert not isinstance(client.join(), Deferred)
        world.advance(1_000)
    for client in clients:
        client.beat()
    read = {(topic, each) for client in clients for topic in client.partitions
            for each in client.partitions[topic]}  # fmt: skip
    wanted = {(world.topics.id_of("a"), each) for each in range(4)}
    assert read == wanted | {(world.topics.id_of("b"), each) for each in range(2)}


@given(
    st.dictionaries(st.sampled_from("abcdefg"), st.frozensets(st.integers(1, 3), min_size=1)),
    st.dictionaries(st.integers(1, 3), st.integers(1, 5)),
)
def test_the_assignor_leaves_no_partition_and_no_member_out(
    subscriptions: dict[str, frozenset[int]], counts: dict[int, int]
) -> None:
    topics = {
        member: frozenset(UUID(int=each) for each in has) for member, has in subscriptions.items()
    }
    assignable = {UUID(int=each): frozenset(range(count)) for each, count in counts.items()}
    first = assign(topics, {}, assignable)
    for found in (first, assign(topics, first, assignable)):
        read = {
            (topic, each) for parts in found.values() for topic in parts for each in parts[topic]
        }
        used = frozenset[UUID]().union(*topics.values())
        assert read == {
            (topic, each) for topic in assignable if topic in used for each in assignable[topic]
        }
        for member, has in found.items():
            assert has.keys() <= topics[member]
            assert bool(has) == bool(topics[member] & assignable.keys())
    if len(set(topics.values())) == 1:
        sizes = {sum(map(len, parts.values())) for parts in first.values()}
        assert max(sizes) - min(sizes) <= 1
