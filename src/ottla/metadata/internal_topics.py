"""Internal topics get their replicas when there are brokers for them. Pure.

A topic that was made while few brokers were up has few replicas. Kafka refuses to make it then;
here it is made, so that one broker can begin, and it grows with the cluster.

1. A partition with fewer replicas than the setting says, and fewer than live brokers that are not
   shutting down, gets the rest by a reassignment. It keeps the replicas that it has, and its
   leader.
2. New replicas go to racks that have none of the partition, then to the brokers with the fewest
   replicas of the topic.
3. The preferred leader of such a partition is chosen again, so that leaders get spread: a topic
   that was created with one broker has that broker as leader of every partition.
4. A partition that is being reassigned, or that has a replica on a dead broker, waits.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from ottla.metadata.image import Image, PartitionKey, TopicImage
from ottla.metadata.placement import usable
from ottla.metadata.reassignments import alter_reassignments, reassignments
from ottla.metadata.store import Op


def raise_replicas(image: Image, wanted: Mapping[str, int], limit: int) -> list[Op]:
    """Begin the reassignments that bring topics to the wanted number of replicas.

    At most `limit` partitions at once; the next call continues with the others.
    """
    brokers = usable(image)
    targets: dict[PartitionKey, Sequence[int] | None] = {}
    for name, factor in wanted.items():
        topic = image.topics.get(name)
        if topic is not None:
            targets.update(_targets(image, topic, brokers, min(factor, len(brokers))))
    some = dict(list(targets.items())[:limit])
    return alter_reassignments(image, some)[1] if some else []


def _targets(
    image: Image, topic: TopicImage, brokers: Mapping[int, str | None], factor: int
) -> dict[PartitionKey, Sequence[int]]:
    replicas = [list(each) for each in topic.assignment]
    lacking = [
        index
        for index, have in enumerate(replicas)
        if len(have) < factor and all(one in image.brokers for one in have)
    ]
    moving = reassignments(image, [(topic.name, index) for index in lacking])
    load = Counter(one for have in replicas for one in have)
    chosen: dict[PartitionKey, Sequence[int]] = {}
    for index in lacking:
        if (topic.name, index) in moving or (topic.name, index) not in image.partitions:
            continue
        while len(replicas[index]) < factor:
            one = _next(replicas[index], brokers, load, index)
            replicas[index].append(one)
            load[one] += 1
        chosen[topic.name, index] = replicas[index]
    _spread_leaders(chosen, replicas)
    return chosen


def _next(
    have: Sequence[int], brokers: Mapping[int, str | None], load: Mapping[int, int], turn: int
) -> int:
    """The broker that gets the next replica of a partition."""
    racks = [brokers[one] for one in have]
    ring = sorted(brokers)
    turned = ring[turn % len(ring) :] + ring[: turn % len(ring)]

    def order(one: int) -> tuple[bool, int]:
        rack = brokers[one]
        return rack is not None and rack in racks, load[one]

    return min((one for one in turned if one not in have), key=order)


def _spread_leaders(
    chosen: dict[PartitionKey, Sequence[int]], replicas: Sequence[Sequence[int]]
) -> None:
    """Put first, in each chosen partition, the replica that is preferred in the fewest others."""
    kept = set(range(len(replicas))) - {index for _, index in chosen}
    preferred = Counter(replicas[index][0] for index in kept)
    for key, have in chosen.items():
        first = min(have, key=lambda one: preferred[one])
        preferred[first] += 1
        chosen[key] = [first, *(one for one in have if one != first)]
