"""The `uniform` assignor: all members get as many partitions as each other, and keep what they had.

Rules kept here:
1. Balance first: where all members subscribe to the same topics their numbers of partitions differ
   by one at most. Where they do not, no partition can be moved to a subscriber that has two fewer
   than its owner.
2. Then stickiness: a member loses a partition only where balance asks for it. The members that had
   most are the ones that keep one more than others.
"""

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from uuid import UUID

from ottla.coordinator.consumer.assignment import Assignment, MemberSpec

MOST_ROUNDS = 16
"""Overlapping subscriptions can make balancing slow to settle; each round about halves what is
left of the imbalance."""

Partition = tuple[UUID, int]


def assign_uniformly(
    members: Mapping[str, MemberSpec], partitions: Mapping[UUID, int]
) -> dict[str, Assignment]:
    """Divide the partitions."""
    if not members:
        return {}
    kept, unassigned = _keep(members, partitions)
    first = next(iter(members.values())).topics
    if all(member.topics == first for member in members.values()):
        _share_equally(kept, unassigned)
    else:
        balancer = _Balancer(members, kept)
        balancer.give(unassigned, partitions)
        balancer.balance()
    return {member_id: _by_topic(owned) for member_id, owned in kept.items()}


def _keep(
    members: Mapping[str, MemberSpec], partitions: Mapping[UUID, int]
) -> tuple[dict[str, list[Partition]], list[Partition]]:
    """What each member may keep of what it had, and what nobody has."""
    taken: set[Partition] = set()
    kept: dict[str, list[Partition]] = {}
    for member_id, member in members.items():
        owned = [
            (topic_id, number)
            for topic_id, numbers in member.target.items()
            if topic_id in member.topics
            for number in sorted(numbers)
            if number < partitions[topic_id] and (topic_id, number) not in taken
        ]
        taken.update(owned)
        kept[member_id] = owned
    subscribed = {topic_id: None for member in members.values() for topic_id in member.topics}
    unassigned = [
        (topic_id, number)
        for topic_id in subscribed
        for number in range(partitions[topic_id])
        if (topic_id, number) not in taken
    ]
    return kept, unassigned


def _share_equally(kept: dict[str, list[Partition]], unassigned: list[Partition]) -> None:
    total = len(unassigned) + sum(map(len, kept.values()))
    quota, larger = divmod(total, len(kept))
    by_load = sorted(kept.values(), key=len, reverse=True)
    quotas = [quota + (index < larger) for index in range(len(by_load))]
    for owned, limit in zip(by_load, quotas, strict=True):
        unassigned.extend(owned[limit:])
        del owned[limit:]
    for owned, limit in zip(by_load, quotas, strict=True):
        missing = limit - len(owned)
        owned.extend(unassigned[:missing])
        del unassigned[:missing]


def _by_topic(owned: Iterable[Partition]) -> Assignment:
    topics: dict[UUID, set[int]] = {}
    for topic_id, number in owned:
        topics.setdefault(topic_id, set()).add(number)
    return {topic_id: frozenset(numbers) for topic_id, numbers in topics.items()}


class _Balancer:
    """Members with different subscriptions, and what they have so far."""

    def __init__(self, members: Mapping[str, MemberSpec], kept: dict[str, list[Partition]]) -> None:
        self._kept = kept
        self._load = {member_id: len(owned) for member_id, owned in kept.items()}
        self._subscribers: dict[UUID, list[str]] = {}
        for member_id, member in members.items():
            for topic_id in member.topics:
                self._subscribers.setdefault(topic_id, []).append(member_id)

    def give(self, unassigned: Iterable[Partition], partitions: Mapping[UUID, int]) -> None:
        """Give each partition to the subscriber with the fewest, crowded topics first."""
        by_topic: dict[UUID, list[int]] = {}
        for topic_id, number in unassigned:
            by_topic.setdefault(topic_id, []).append(number)

        def crowding(topic_id: UUID) -> tuple[float, int, UUID]:
            subscribers = len(self._subscribers[topic_id])
            return (-partitions[topic_id] / subscribers, subscribers, topic_id)

        for topic_id in sorted(by_topic, key=crowding):
            fewest = [(self._load[member], member) for member in self._subscribers[topic_id]]
            heapify(fewest)
            for number in by_topic[topic_id]:
                member_id = fewest[0][1]
                self._kept[member_id].append((topic_id, number))
                self._load[member_id] += 1
                heapreplace(fewest, (self._load[member_id], member_id))

    def balance(self) -> None:
        """Move partitions from those that have most until no move helps."""
        shared = sorted(topic for topic, members in self._subscribers.items() if len(members) > 1)
        for _ in range(MOST_ROUNDS):
            if not sum(self._balance_topic(topic_id) for topic_id in shared):
                return

    def _balance_topic(self, topic_id: UUID) -> int:
        """Move partitions of one topic; return how many."""
        subscribers = self._subscribers[topic_id]
        loads = [self._load[member_id] for member_id in subscribers]
        if max(loads) - min(loads) <= 1:
            return 0
        movable: dict[str, list[Partition]] = {}
        for member_id in subscribers:
            owned = [partition for partition in self._kept[member_id] if partition[0] == topic_id]
            if owned:
                movable[member_id] = owned
        fewest = [(self._load[member_id], member_id) for member_id in subscribers]
        most = [(-self._load[member_id], member_id) for member_id in movable]
        heapify(fewest)
        heapify(most)
        moved = 0
        while most:
            giver, taker = most[0][1], fewest[0][1]
            if -most[0][0] != self._load[giver]:
                heapreplace(most, (-self._load[giver], giver))
            elif fewest[0][0] != self._load[taker]:
                heapreplace(fewest, (self._load[taker], taker))
            elif self._load[giver] - self._load[taker] <= 1:
                break
            else:
                self._move(movable[giver].pop(), giver, taker)
                moved += 1
                heappop(most)
                if movable[giver]:
                    heappush(most, (-self._load[giver], giver))
        return moved

    def _move(self, partition: Partition, giver: str, taker: str) -> None:
        self._kept[giver].remove(partition)
        self._kept[taker].append(partition)
        self._load[giver] -= 1
        self._load[taker] += 1
