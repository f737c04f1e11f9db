"""How members leave a share group: by their own word, or because their session ended.

A member that leaves takes its records with it, and the group gets a new epoch; others get its
partitions with the next target assignment. A heartbeat of it that still waits is answered with
UNKNOWN_MEMBER_ID.
"""

from ottla.coordinator.consumer.subscriptions import metadata_hash
from ottla.coordinator.group_state import GroupState
from ottla.coordinator.group_timers import GroupTimer
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.share.group import ShareGroup
from ottla.coordinator.share.member import ShareMember
from ottla.coordinator.share.records import epoch_record, member_tombstones
from ottla.coordinator.share.targets import topic_names
from ottla.coordinator.share.timers import ShareTimer
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatResponse


def remove_member(
    state: GroupState, group: ShareGroup, member: ShareMember, draft: ResultDraft
) -> None:
    """Let a member go."""
    member_id = member.member_id
    staying = [each for each in group.members.values() if each.member_id != member_id]
    now_hash = metadata_hash(topic_names(staying), state.topics)
    draft.records.extend(member_tombstones(group.group_id, member_id))
    draft.records.append(epoch_record(group.group_id, group.epoch + 1, now_hash))
    draft.check_fits()
    draft.cancel_timer(GroupTimer(ShareTimer.SESSION, group.group_id, member_id))
    for token in group.waiting.pop(member_id, ()):
        draft.complete(token, ShareGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
