"""The `range` assignor: each topic is cut into ranges, one for each of its subscribers.

Rules kept here:
1. Each topic is divided by itself; subscribers get ranges whose sizes differ by one at most, the
   first ones the larger. So topics with the same subscribers and number of partitions are cut
   alike, and a member has the same partitions of each.
2. Static members come first, by instance id, so that a restart under a new member id changes
   nothing; the others follow by member id.
"""

from collections.abc import Mapping
from uuid import UUID

from ottla.coordinator.consumer.assignment import Assignment, MemberSpec


def assign_ranges(
    members: Mapping[str, MemberSpec], partitions: Mapping[UUID, int]
) -> dict[str, Assignment]:
    """Divide the partitions."""
    subscribers: dict[UUID, list[str]] = {}
    for member_id in sorted(members, key=lambda member_id: _rank(member_id, members[member_id])):
        for topic_id in members[member_id].topics:
            subscribers.setdefault(topic_id, []).append(member_id)
    result: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in members}
    for topic_id, member_ids in subscribers.items():
        size, larger = divmod(partitions[topic_id], len(member_ids))
        start = 0
        for index, member_id in enumerate(member_ids):
            end = start + size + (index < larger)
            if start < end:
                result[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(result)


def _rank(member_id: str, member: MemberSpec) -> tuple[bool, str]:
    return (member.instance_id is None, member.instance_id or member_id)
