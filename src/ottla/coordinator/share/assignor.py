"""The assignor "simple": which member of a share group reads which partitions.

Rules kept here:
1. Every partition is read by at least one member that subscribes to its topic, if there is one.
2. Every member that subscribes to a topic with partitions reads at least one of them: where there
   are more members than partitions, members share partitions.
3. Where all members subscribe to the same topics they get the same number of partitions, give or
   take one, and keep what they had as far as that allows.
4. The same input gives the same output.
"""

from collections.abc import Mapping
from math import ceil
from uuid import UUID

from ottla.coordinator.share.member import Partitions

Partition = tuple[UUID, int]


def assign(
    topics_of: Mapping[str, frozenset[UUID]],
    targets: Mapping[str, Partitions],
    assignable: Partitions,
) -> dict[str, dict[UUID, frozenset[int]]]:
    """The partitions of each member; `targets` are those of the assignment before."""
    members = sorted(topics_of)
    partitions = sorted((topic, number) for topic in assignable for number in assignable[topic])
    has: dict[str, set[Partition]] = {member: set() for member in members}
    readers = dict.fromkeys(partitions, 0)
    if members and partitions and len(set(topics_of.values())) == 1:
        _keep(has, readers, targets, topics_of)
    for partition in partitions:
        able = [member for member in members if partition[0] in topics_of[member]]
        if able and not readers[partition]:
            chosen = min(able, key=lambda member: (len(has[member]), member))
            has[chosen].add(partition)
            readers[partition] += 1
    for member in members:
        able_partitions = [each for each in partitions if each[0] in topics_of[member]]
        if able_partitions and not has[member]:
            fewest = min(able_partitions, key=lambda each: (readers[each], each))
            has[member].add(fewest)
            readers[fewest] += 1
    return {member: _by_topic(has[member]) for member in members}


def _keep(
    has: dict[str, set[Partition]],
    readers: dict[Partition, int],
    targets: Mapping[str, Partitions],
    topics_of: Mapping[str, frozenset[UUID]],
) -> None:
    """Let members keep what they had, up to their share."""
    subscribed = next(iter(topics_of.values()))
    usable = [each for each in readers if each[0] in subscribed]
    if not usable:
        return
    most_partitions = max(1, ceil(len(usable) / len(has)))
    most_readers = max(1, ceil(len(has) / len(usable)))
    for member, kept in has.items():
        for topic, numbers in sorted(targets.get(member, {}).items()):
            for number in sorted(numbers):
                partition = (topic, number)
                if (
                    topic in subscribed
                    and len(kept) < most_partitions
                    and readers.get(partition, most_readers) < most_readers
                ):
                    kept.add(partition)
                    readers[partition] += 1


def _by_topic(partitions: set[Partition]) -> dict[UUID, frozenset[int]]:
    found: dict[UUID, set[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, set()).add(number)
    return {topic: frozenset(numbers) for topic, numbers in found.items()}
