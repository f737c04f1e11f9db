"""How members leave a consumer group: by request, or after their session timeout.

Rules kept here:
1. A member that leaves takes its records with it, and the patterns that only it used; the group
   gets a new epoch, and its partitions go to others with the next target assignment.
2. A static member that says it will be back (epoch -2) keeps its place and partitions until its
   session ends; the same instance takes them over under a new member id.
"""

from collections.abc import Iterable
from dataclasses import replace

from ottla.coordinator.batch_sizes import fits
from ottla.coordinator.classic.group import ClassicGroup
from ottla.coordinator.classic.rebalance import start_rebalance
from ottla.coordinator.consumer.downgrade import downgraded
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import LEAVING_STATIC_EPOCH, ConsumerMember
from ottla.coordinator.consumer.records import (
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    regex_tombstone,
    target_record,
)
from ottla.coordinator.consumer.subscriptions import metadata_hash, topic_names
from ottla.coordinator.consumer.timers import MEMBER_TIMERS, ConsumerTimer
from ottla.coordinator.group_state import GroupState
from ottla.coordinator.group_timers import GroupTimer
from ottla.coordinator.result_draft import ResultDraft


def remove_members(
    state: GroupState, group: ConsumerGroup, member_ids: Iterable[str], draft: ResultDraft
) -> None:
    """Let members go. Where only classic members stay, the group becomes a classic one."""
    leaving = set(member_ids)
    if not leaving:
        return
    classic = downgraded(state.config, group, leaving, state.topics, draft.now)
    if classic is not None and turn_back(state, group, classic, draft):
        return
    for member_id in leaving:
        draft.records.extend(member_tombstones(group.group_id, member_id))
        cancel_timers(group, member_id, draft)
    staying = [member for member in group.members.values() if member.member_id not in leaving]
    used = {member.subscribed_regex for member in staying}
    regexes = {regex: found for regex, found in group.regexes.items() if regex in used}
    draft.records.extend(
        regex_tombstone(group.group_id, regex) for regex in group.regexes if regex not in used
    )
    now_hash = metadata_hash(topic_names(staying, regexes), state.topics)
    draft.records.append(epoch_record(group.group_id, group.epoch + 1, now_hash))
    draft.check_fits()


def turn_back(
    state: GroupState, group: ConsumerGroup, classic: ClassicGroup, draft: ResultDraft
) -> bool:
    """Put a classic group in the place of a consumer group, and let it rebalance.

    This is all that is written then. False where it does not fit into a batch: nothing has changed.
    """
    records = [*group.tombstones(), classic.record()]
    if not fits(records, draft.limit):
        return False
    draft.records = records
    state.groups[group.group_id] = classic
    for member_id in group.members:
        cancel_timers(group, member_id, draft)
    for member in classic.members.values():
        classic.expect_heartbeat(member, draft)
    start_rebalance(state.config, classic, draft)
    return True


def leave_for_now(group: ConsumerGroup, member: ConsumerMember, draft: ResultDraft) -> None:
    """A static member goes, and will be back."""
    leaving = replace(
        member,
        member_epoch=LEAVING_STATIC_EPOCH,
        pending_revocation={},
        # What it commits under its old id from now on is refused.
        assigned={
            topic_id: dict.fromkeys(numbers, 0) for topic_id, numbers in member.assigned.items()
        },
    )
    draft.records.append(current_record(group.group_id, leaving))
    draft.check_fits()
    # It has nothing left to give up; only its session ends its absence.
    draft.cancel_timer(GroupTimer(ConsumerTimer.REBALANCE, group.group_id, member.member_id))


def take_over(
    group: ConsumerGroup, old: ConsumerMember, new_id: str, draft: ResultDraft
) -> ConsumerMember:
    """A static member is back under a new id, and has what it had."""
    member = replace(old, member_id=new_id, member_epoch=0, previous_member_epoch=0)
    draft.records.extend(member_tombstones(group.group_id, old.member_id))
    draft.records.append(member_record(group.group_id, member))
    draft.records.append(
        target_record(group.group_id, new_id, group.targets.get(old.member_id, {}))
    )
    draft.records.append(current_record(group.group_id, member))
    cancel_timers(group, old.member_id, draft)
    return member


def cancel_timers(group: ConsumerGroup, member_id: str, draft: ResultDraft) -> None:
    """Forget all timers of a member."""
    for kind in MEMBER_TIMERS:
        draft.cancel_timer(GroupTimer(kind, group.group_id, member_id))
