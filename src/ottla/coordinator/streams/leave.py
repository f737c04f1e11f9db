"""How members leave a streams group: by their own word, or because their time was over.

A member that leaves takes its records with it, and the group gets a new epoch; others get its
tasks with the next target assignment.
"""

from ottla.coordinator.group_timers import GroupTimer
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.streams.group import StreamsGroup
from ottla.coordinator.streams.member import StreamsMember
from ottla.coordinator.streams.records import epoch_record, member_tombstones
from ottla.coordinator.streams.timers import StreamsTimer


def remove_member(group: StreamsGroup, member: StreamsMember, draft: ResultDraft) -> None:
    """Let a member go."""
    draft.records.extend(member_tombstones(group.group_id, member.member_id))
    draft.records.append(
        epoch_record(
            group.group_id,
            group.epoch + 1,
            group.metadata_hash,
            group.validated_topology_epoch,
            group.assignment_configs,
        )
    )
    draft.check_fits()
    for kind in (StreamsTimer.SESSION, StreamsTimer.REBALANCE):
        draft.cancel_timer(GroupTimer(kind, group.group_id, member.member_id))
