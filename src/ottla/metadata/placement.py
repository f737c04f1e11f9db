"""Which brokers get the replicas of new partitions. Pure.

1. Leaders are assigned round-robin, so that brokers differ by at most one.
2. Followers are shifted with every round: those of one broker's partitions differ, and its work is
   shared by several others when it dies.
3. No rack gets a second replica of a partition while another rack has none (`broker.rack`). When a
   broker has no rack, racks are ignored: each broker counts as its own rack.
4. Replicas that somebody chooses may be on a broker that is cordoned, as in Kafka.
"""

from collections.abc import Iterable, Mapping

from ottla.metadata.image import BrokerImage, Image
from ottla.wire.errors import ErrorCode, KafkaError

CORDONED = "cordoned.log.dirs"


def usable(image: Image) -> dict[int, str | None]:
    """The brokers that may get new replicas, with their racks.

    Not those that are about to stop, nor those whose folder is cordoned (KIP-1066).
    """
    return {
        broker.id: broker.rack
        for broker in image.brokers.values()
        if not broker.shutting_down and not is_cordoned(image, broker)
    }


def is_cordoned(image: Image, broker: BrokerImage) -> bool:
    """Whether a broker takes no new replicas: `cordoned.log.dirs` names its one folder, or `*`.

    A dynamic setting counts before what the broker was started with.
    """
    own = image.broker_configs.get(broker.id)
    if own is not None and CORDONED in own.configs:
        return bool(own.configs[CORDONED].strip())
    return broker.cordoned


def spread(
    brokers: Iterable[int] | Mapping[int, str | None], partitions: int, factor: int, start: int
) -> list[list[int]]:
    """Replicas of each partition, the leader first; `brokers` may map ids to racks."""
    racks = dict(brokers) if isinstance(brokers, Mapping) else dict.fromkeys(brokers)
    ring = _ring(racks)
    if factor > len(ring):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): The target replication factor "
            f"of {factor} cannot be reached because only {len(ring)} broker(s) are registered.",
        )
    others = max(1, len(ring) - 1)
    assignment = []
    for index in range(partitions):
        leader = start + index
        shift = index // len(ring)
        places = (leader + 1 + (shift + number) % others for number in range(len(ring) - 1))
        candidates = [ring[place % len(ring)] for place in places]
        assignment.append(_over_racks(ring[leader % len(ring)], candidates, factor))
    return [[broker for broker, _ in replicas] for replicas in assignment]


# A broker and its rack; where racks are ignored, each broker is its own.
_Placed = tuple[int, str | int]


def _ring(racks: Mapping[int, str | None]) -> list[_Placed]:
    """Brokers in an order that changes the rack with each step as long as it can."""
    if None in racks.values():
        return [(broker, broker) for broker in sorted(racks)]
    seats: dict[str, int] = {}
    ordered: list[tuple[int, str, int]] = []
    for broker in sorted(racks):
        rack = racks[broker] or ""
        ordered.append((seats.setdefault(rack, 0), rack, broker))
        seats[rack] += 1
    return [(broker, rack) for _, rack, broker in sorted(ordered)]


def _over_racks(leader: _Placed, candidates: list[_Placed], factor: int) -> list[_Placed]:
    chosen, used = [leader], {leader[1]}
    while len(chosen) < factor:
        following = next((one for one in candidates if one[1] not in used), None)
        if following is None:  # every rack has one: the next round begins
            used.clear()
            following = candidates[0]
        candidates.remove(following)
        chosen.append(following)
        used.add(following[1])
    return chosen
