"""What a heartbeat of a consumer group member changes: its subscription, or just its session.

Rules kept here:
1. In this order: the member is written where it changed; its group gets a new epoch where
   subscriptions or topics changed; a new target assignment is made where the epoch is ahead of the
   last one; the member is moved towards its target.
2. Target assignments are at least `group.consumer.assignment.interval.ms` apart, so that members
   that come together are assigned together; the heartbeat after that makes up for it.
3. The assignor is the one that most members ask for, else the first that the broker has.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from uuid import UUID

from ottla.coordinator.consumer.assignment import Assignment, MemberSpec
from ottla.coordinator.consumer.assignors import ASSIGNORS
from ottla.coordinator.consumer.group import NO_TIME, ConsumerGroup
from ottla.coordinator.consumer.member import ConsumerMember, MemberState
from ottla.coordinator.consumer.reconcile import Reconciliation
from ottla.coordinator.consumer.records import (
    ResolvedRegex,
    current_record,
    epoch_record,
    member_record,
    target_epoch_record,
    target_record,
    topics_tombstone,
)
from ottla.coordinator.consumer.subscriptions import (
    check_regex,
    look_up_regexes,
    metadata_hash,
    regexes_are_due,
    topic_ids,
    topic_names,
)
from ottla.coordinator.consumer.timers import ConsumerTimer
from ottla.coordinator.group_config import GroupConfig
from ottla.coordinator.group_state import GroupState
from ottla.coordinator.group_timers import GroupTimer, has_passed
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.topics import TopicView
from ottla.wire.messages.consumer_group_heartbeat import TopicPartitions


class MemberUpdate:
    """One member's word to one group."""

    def __init__(
        self,
        state: GroupState,
        group: ConsumerGroup,
        before: ConsumerMember,
        after: ConsumerMember,
        draft: ResultDraft,
        sees_topic: Callable[[str], bool] | None = None,
    ) -> None:
        self._sees_topic = sees_topic
        self._state = state
        self._group = group
        self._before = before
        self._after = after
        self._draft = draft
        self._regexes: Mapping[str, ResolvedRegex] = group.regexes
        self._subscription_changed = (
            before.subscribed_topics != after.subscribed_topics
            or before.subscribed_regex != after.subscribed_regex
        )
        self._regexes_were_due = regexes_are_due(state.config, group, state.topics, draft.now)

    def apply(self, owned: Iterable[TopicPartitions] | None) -> ConsumerMember:
        """Write what follows; return the member after it. `owned` is what it says it owns."""
        after, group, draft = self._after, self._group, self._draft
        if after.subscribed_regex and after.subscribed_regex != self._before.subscribed_regex:
            check_regex(self._state.matching_topics, after.subscribed_regex)
        if after != self._before:
            draft.records.append(member_record(group.group_id, after))
        epoch = self._update_epoch()
        target_epoch, target = self._update_target(epoch)
        if self._subscription_changed or not after.is_reconciled_to(target_epoch):
            moved = Reconciliation(
                target_epoch,
                target,
                topic_ids(after, self._regexes, self._state.topics),
                self._subscription_changed,
                owned,
                group.owner_of,
            ).advance(after)
            if moved != after:
                draft.records.append(current_record(group.group_id, moved))
                self._watch_revocation(moved)
            after = moved
        draft.check_fits()
        # Only now: nothing can be refused from here on.
        group.seen_topics = self._state.topics.version
        if self._regexes_were_due:
            group.seen_regexes = (self._state.topics.version, draft.now)
        return after

    def _members(self) -> dict[str, ConsumerMember]:
        """The group's members as they will be."""
        members = {**self._group.members, self._after.member_id: self._after}
        replaced = self._group.static_member(self._after.instance_id)
        if replaced is not None and replaced.member_id != self._after.member_id:
            del members[replaced.member_id]
        return members

    def _matching_topics(self, regex: str) -> Set[str]:
        """As in Kafka a pattern matches what the member that has it looked up may describe."""
        found, sees = self._state.matching_topics(regex), self._sees_topic
        return found if sees is None else {name for name in found if sees(name)}

    def _update_epoch(self) -> int:
        group, topics, draft = self._group, self._state.topics, self._draft
        due = self._regexes_were_due
        if not due and not self._subscription_changed and group.seen_topics == topics.version:
            return group.epoch
        members = self._members().values()
        self._regexes = look_up_regexes(
            group, members, self._matching_topics, topics.version, draft, all_of_them=due
        )
        now_hash = metadata_hash(topic_names(members, self._regexes), topics)
        epoch = group.epoch
        if (
            self._subscription_changed
            or self._regexes != group.regexes
            or now_hash != group.metadata_hash
        ):
            epoch += 1
            draft.records.append(epoch_record(group.group_id, epoch, now_hash))
        if group.has_topic_records:
            draft.records.append(topics_tombstone(group.group_id))
        return epoch

    def _update_target(self, epoch: int) -> tuple[int, Assignment]:
        group, draft = self._group, self._draft
        config = self._state.config_of(group.group_id)
        if group.assignment_epoch >= epoch or not may_assign(config, group, draft.now):
            return group.assignment_epoch, group.target_of(self._after)
        members = self._members()
        targets = _assign(
            self._state.config,
            {
                member_id: group.target_of(self._after)
                if member_id == self._after.member_id
                else group.targets.get(member_id, {})
                for member_id in members
            },
            members,
            self._regexes,
            self._state.topics,
        )
        draft.records.extend(
            target_record(group.group_id, member_id, target)
            for member_id, target in targets.items()
            if target != group.targets.get(member_id)
        )
        draft.records.append(target_epoch_record(group.group_id, epoch, draft.now))
        return epoch, targets[self._after.member_id]

    def _watch_revocation(self, member: ConsumerMember) -> None:
        """A member gets its rebalance timeout to give up partitions. Classic ones join for it."""
        if member.classic is not None:
            return
        timer = GroupTimer(ConsumerTimer.REBALANCE, self._group.group_id, member.member_id)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self._draft.set_timer(timer, member.rebalance_timeout_ms)
        else:
            self._draft.cancel_timer(timer)


def may_assign(config: GroupConfig, group: ConsumerGroup, now: int) -> bool:
    """Whether the last target assignment is old enough for the next one."""
    interval = config.group_consumer_assignment_interval_ms
    return (
        group.assignment_timestamp == NO_TIME
        or interval == 0
        or has_passed(interval, group.assignment_timestamp, now)
    )


def preferred_assignor(config: GroupConfig, members: Iterable[ConsumerMember]) -> str:
    """The assignor's name."""
    votes = Counter(
        member.server_assignor for member in members if member.server_assignor in ASSIGNORS
    )
    for name, _ in votes.most_common(1):
        if name is not None:
            return name
    return config.group_consumer_assignors[0]


def _assign(
    config: GroupConfig,
    targets: Mapping[str, Assignment],
    members: Mapping[str, ConsumerMember],
    regexes: Mapping[str, ResolvedRegex],
    topics: TopicView,
) -> dict[str, Assignment]:
    # Most members of a group subscribe to the same.
    subscriptions: dict[tuple[frozenset[str], str], frozenset[UUID]] = {}
    specs = {}
    for member_id, member in members.items():
        key = (member.subscribed_topics, member.subscribed_regex)
        if key not in subscriptions:
            subscriptions[key] = topic_ids(member, regexes, topics)
        specs[member_id] = MemberSpec(member.instance_id, subscriptions[key], targets[member_id])
    partitions = {
        topic_id: topic.partitions
        for topic_id in frozenset[UUID]().union(*subscriptions.values())
        if (topic := topics.by_id(topic_id)) is not None
    }
    assignor = ASSIGNORS[preferred_assignor(config, members.values())]
    return assignor(specs, partitions)
