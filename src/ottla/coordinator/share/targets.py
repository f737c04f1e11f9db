"""Group epochs and target assignments of a share group.

Rules kept here:
1. The group gets a new epoch where subscriptions or topics changed, and where share partitions
   were initialized that no target has yet.
2. Only initialized share partitions are assigned.
3. Target assignments are at least `group.share.assignment.interval.ms` apart; the heartbeat after
   that makes up for it.
"""

from collections.abc import Iterable, Mapping
from uuid import UUID

from ottla.coordinator.consumer.subscriptions import metadata_hash
from ottla.coordinator.group_state import GroupState
from ottla.coordinator.group_timers import has_passed
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.share.assignor import assign
from ottla.coordinator.share.group import NO_TIME, ShareGroup
from ottla.coordinator.share.member import Partitions, ShareMember
from ottla.coordinator.share.records import epoch_record, target_epoch_record, target_record
from ottla.coordinator.topics import TopicView

Members = Mapping[str, ShareMember]


def topic_names(members: Iterable[ShareMember]) -> frozenset[str]:
    """All topics that members use, whether they exist or not."""
    return frozenset[str]().union(*(member.subscribed_topics for member in members))


def topic_ids(member: ShareMember, topics: TopicView) -> frozenset[UUID]:
    """The topics of a member that exist."""
    found = (topics.by_name(name) for name in member.subscribed_topics)
    return frozenset(topic.topic_id for topic in found if topic is not None)


def updated_epoch(
    state: GroupState,
    group: ShareGroup,
    members: Members,
    initialized: Partitions,
    draft: ResultDraft,
    *,
    changed: bool,
) -> int:
    """The group's epoch; a new one is written where it needs one. `changed`: a subscription has."""
    bump = changed or (
        group.assignment_epoch >= group.epoch
        and _waits_for_assignment(state, group, members, initialized)
    )
    if not bump and group.seen_topics == state.topics.version:
        return group.epoch
    now_hash = metadata_hash(topic_names(members.values()), state.topics)
    if not bump and now_hash == group.metadata_hash:
        return group.epoch
    draft.records.append(epoch_record(group.group_id, group.epoch + 1, now_hash))
    return group.epoch + 1


def _waits_for_assignment(
    state: GroupState, group: ShareGroup, members: Members, initialized: Partitions
) -> bool:
    """True if a subscribed topic has initialized partitions that no member's target has."""
    if not members:
        return False
    used = topic_names(members.values())
    assigned: dict[UUID, set[int]] = {}
    for target in group.targets.values():
        for topic_id, numbers in target.items():
            assigned.setdefault(topic_id, set()).update(numbers)
    for topic_id, numbers in initialized.items():
        topic = state.topics.by_id(topic_id)
        if topic is not None and topic.name in used and assigned.get(topic_id, set()) != numbers:
            return True
    return False


def updated_targets(
    state: GroupState,
    group: ShareGroup,
    members: Members,
    initialized: Partitions,
    epoch: int,
    draft: ResultDraft,
) -> tuple[int, Mapping[str, Partitions]]:
    """The epoch of the target assignment, and what each member shall read; written where new."""
    if group.assignment_epoch >= epoch or not _may_assign(state, group, draft.now):
        return group.assignment_epoch, group.targets
    topics = {member_id: topic_ids(each, state.topics) for member_id, each in members.items()}
    assignable = {
        topic_id: frozenset(number for number in numbers if number < topic.partitions)
        for topic_id, numbers in initialized.items()
        if (topic := state.topics.by_id(topic_id)) is not None
    }
    targets = assign(topics, group.targets, assignable)
    draft.records.extend(
        target_record(group.group_id, member_id, target)
        for member_id, target in targets.items()
        if target != group.targets.get(member_id)
    )
    draft.records.append(target_epoch_record(group.group_id, epoch, draft.now))
    return epoch, targets


def _may_assign(state: GroupState, group: ShareGroup, now: int) -> bool:
    interval = state.config_of(group.group_id).group_share_assignment_interval_ms
    return (
        group.assignment_timestamp == NO_TIME
        or interval == 0
        or has_passed(interval, group.assignment_timestamp, now)
    )
