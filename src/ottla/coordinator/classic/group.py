"""A classic group: members that elect a leader, which divides the partitions among them.

Rules kept here:
1. The group moves between its states by the table below; any other move raises and changes
   nothing.
2. All of this is soft, and lost with the shard, except what was last written as the group's
   record (`stored`): the members, protocol and assignments of a generation, or an empty group.
   A group that is loaded is therefore Stable, or Empty where it has no members.
3. A member waits for at most one join and one sync reply; removing a member answers both.
4. The first member leads until it goes; then any other does. A leader that did not join again in
   time loses the role to one that did.
5. The protocol of a generation is one that all members know: the one most of them prefer.

| from                | to                  | when                                             |
|---------------------|---------------------|--------------------------------------------------|
| Empty               | PreparingRebalance  | a member joins                                   |
| PreparingRebalance  | CompletingRebalance | the members have joined                          |
| PreparingRebalance  | Empty               | all members have left                            |
| CompletingRebalance | Stable              | the leader has brought the assignments           |
| CompletingRebalance | PreparingRebalance  | a member joins, changes or goes                  |
| Stable              | PreparingRebalance  | a member joins, changes or goes                  |
| each of them        | Dead                | it becomes a consumer group; Empty also: deleted |
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Final

from ottla.coordinator.classic.member import ClassicMember, Protocols
from ottla.coordinator.classic.schemas import (
    CLASSIC_GROUP_VALUE_VERSION,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from ottla.coordinator.classic.timers import session_timer
from ottla.coordinator.consumer.protocol import PROTOCOL_TYPE, read_subscribed_topics
from ottla.coordinator.group import BaseTimestamp, Committer, CommitTopic, Group, GroupType
from ottla.coordinator.offsets.store import commit_time
from ottla.coordinator.record_codec import write_record, write_tombstone
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.shard import CoordinatorRecord
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.fields import DecodeError


class ClassicState(Enum):
    """Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"

    __hash__ = object.__hash__  # Enum's own is a function in Python, and every join needs it


# By these names, where it counts: to look a member up in its class costs more than the rest.
EMPTY: Final = ClassicState.EMPTY
PREPARING_REBALANCE: Final = ClassicState.PREPARING_REBALANCE
COMPLETING_REBALANCE: Final = ClassicState.COMPLETING_REBALANCE
STABLE: Final = ClassicState.STABLE
DEAD: Final = ClassicState.DEAD
NO_ERROR: Final = ErrorCode.NONE

_NEXT = {
    EMPTY: {PREPARING_REBALANCE, DEAD},
    PREPARING_REBALANCE: {
        EMPTY,
        COMPLETING_REBALANCE,
        DEAD,
    },
    COMPLETING_REBALANCE: {
        PREPARING_REBALANCE,
        STABLE,
        DEAD,
    },
    STABLE: {PREPARING_REBALANCE, DEAD},
    DEAD: set[ClassicState](),
}


class IllegalMoveError(RuntimeError):
    """A move that the table does not have: a defect of the coordinator, not of a client."""


@dataclass(slots=True)
class ClassicGroup(Group):
    """One group."""

    TYPE: ClassVar[GroupType] = GroupType.CLASSIC

    group_id: str
    state: ClassicState = EMPTY
    previous_state: ClassicState = DEAD
    state_timestamp: int = -1
    """When the group came into its state; -1 where an old record does not say."""
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    members: dict[str, ClassicMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    """The member id of each instance id."""
    pending_members: set[str] = field(default_factory=set)
    """Ids given out to members that must join again with them (KIP-394)."""
    awaiting_join: dict[str, int] = field(default_factory=dict)
    """The token of each member's parked JoinGroup."""
    awaiting_sync: dict[str, int] = field(default_factory=dict)
    pending_sync: set[str] = field(default_factory=set)
    """Members that have not asked for this generation's assignment."""
    subscribed_topics: frozenset[str] | None = None
    """None where the coordinator cannot know them."""
    new_member_added: bool = False
    """True if someone joined since the first rebalance was last put off."""
    initial_delay_ms: int = 0
    initial_remaining_ms: int = 0
    """How much longer the first rebalance can be put off."""
    stored: GroupMetadataValue | None = None
    """The group's last record: its durable part."""
    _known_protocols: Counter[str] = field(default_factory=Counter)

    @property
    def state_name(self) -> str:
        """The state, by Kafka's name."""
        return self.state.value

    @property
    def listed_protocol_type(self) -> str:
        """The protocol type of its members, or of the last that it had."""
        return self.protocol_type or ""

    @property
    def uses_consumer_protocol(self) -> bool:
        """True for groups of Kafka consumers, whose metadata the coordinator understands."""
        return self.protocol_type == PROTOCOL_TYPE

    @property
    def member_count(self) -> int:
        """How many members it has."""
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        """True where nobody is in the group; ids given out do not count."""
        return self.state is EMPTY

    @property
    def may_expire(self) -> bool:
        """Not while a member is expected that was given an id."""
        return self.is_empty and not self.pending_members

    @property
    def in_first_rebalance(self) -> bool:
        """True while the members of a new generation are gathered from nothing."""
        return self.state is PREPARING_REBALANCE and self.previous_state is EMPTY

    @property
    def can_rebalance(self) -> bool:
        """True where a rebalance can start."""
        return PREPARING_REBALANCE in _NEXT[self.state]

    @property
    def all_have_joined(self) -> bool:
        """True where nobody is waited for."""
        return len(self.members) == len(self.awaiting_join) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of the members'."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def move_to(self, state: ClassicState, now: int) -> None:
        """Change the state."""
        if state not in _NEXT[self.state]:
            raise IllegalMoveError(f"group {self.group_id}: {self.state.value} to {state.value}")
        self.previous_state = self.state
        self.state = state
        self.state_timestamp = now

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """True if a member with these protocols can be in the group."""
        if self.is_empty:
            return bool(protocol_type) and any(True for _ in names)
        if self.protocol_type == protocol_type:
            for name in names:
                if self._known_protocols[name] == len(self.members):
                    return True
        return False

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Take in a member, whose protocols the group supports."""
        if not self.members:
            self.protocol_type = protocol_type
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._known_protocols.update({name for name, _ in member.protocols})
        self.pending_members.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Let a member or a pending id go. Its parked requests were answered before."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._known_protocols.subtract({name for name, _ in member.protocols})
            if member.instance_id is not None:
                del self.static_members[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_members.discard(member_id)
        self.pending_sync.discard(member_id)

    def update(self, member: ClassicMember, protocols: Protocols) -> None:
        """Note the protocols that a member has now."""
        if protocols == member.protocols:
            return
        self._known_protocols.subtract({name for name, _ in member.protocols})
        self._known_protocols.update({name for name, _ in protocols})
        member.protocols = protocols

    def replace_static(self, instance_id: str, new_id: str) -> ClassicMember:
        """Give a static member's place to the same instance under a new id."""
        old_id = self.static_members[instance_id]
        member = self.members.pop(old_id)
        member.member_id = new_id
        member.is_new = False
        self.members[new_id] = member
        self.static_members[instance_id] = new_id
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(new_id)
        if self.leader == old_id:
            self.leader = new_id
        return member

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader has joined; False where nobody has."""
        if self.leader not in self.awaiting_join:
            joined = next(iter(self.awaiting_join), None)
            if joined is None:
                return False
            self.leader = joined
        return True

    def select_protocol(self) -> str:
        """The protocol that most members prefer among those that all know."""
        votes: Counter[str] = Counter()
        for member in self.members.values():
            for name, _ in member.protocols:
                if self._known_protocols[name] == len(self.members):
                    votes[name] += 1
                    break
        return votes.most_common(1)[0][0]

    def start_generation(self, now: int) -> None:
        """Begin a new generation with the members that are left, or none."""
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self._subscribed_topics()
        self.pending_sync.clear()
        self.move_to(COMPLETING_REBALANCE if self.members else EMPTY, now)

    def _subscribed_topics(self) -> frozenset[str] | None:
        if not self.uses_consumer_protocol:
            return None
        topics: set[str] = set()
        try:
            for member in self.members.values():
                topics.update(read_subscribed_topics(member.metadata(self.protocol_name)))
        except DecodeError:
            return None
        return frozenset(topics)

    def is_subscribed_to(self, topic: str) -> bool:
        """True if members use the topic, or may use it for all that the coordinator knows."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def membership_error(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Why a request does not come from a member, NONE where it does."""
        if instance_id is not None:
            existing = self.static_members.get(instance_id)
            if existing is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if existing != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        if member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return NO_ERROR

    def expect_heartbeat(
        self, member: ClassicMember, draft: ResultDraft, timeout_ms: int | None = None
    ) -> None:
        """Restart a member's session."""
        timeout = member.session_timeout_ms if timeout_ms is None else timeout_ms
        draft.set_timer(session_timer(self.group_id, member.member_id), timeout)

    def check_commit(self, committer: Committer, topics: Iterable[CommitTopic]) -> None:
        """A member of this generation may commit; to an empty group anyone without a generation."""
        if committer.epoch < 0 and self.is_empty:
            return
        if committer.epoch >= 0 or committer.member_id or committer.instance_id is not None:
            error = self.membership_error(committer.member_id, committer.instance_id)
            if error is not NO_ERROR:
                raise KafkaError(error)
            if committer.epoch != self.generation:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        elif not committer.is_transactional:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if self.state is COMPLETING_REBALANCE and not committer.is_transactional:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def keep_session(self, committer: Committer, draft: ResultDraft) -> None:
        """A commit counts as a heartbeat, unless it is a transaction's."""
        if not committer.is_transactional:
            member = self.members.get(committer.member_id)
            if member is not None:
                self.expect_heartbeat(member, draft)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Anyone may have the offsets."""

    def check_offset_delete(self) -> None:
        """Not while it has members whose topics the coordinator cannot know."""
        if not (self.is_empty or self.uses_consumer_protocol):
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def offset_expiration(self) -> BaseTimestamp | None:
        """From when the group is empty; from the commit for simple consumers and unused topics."""
        if self.protocol_type is not None:
            if self.is_empty:
                timestamp = self.state_timestamp
                # An old record may not say since when the group is empty.
                return commit_time if timestamp == -1 else lambda _: timestamp
            if self.subscribed_topics is None or self.state is not STABLE:
                return None
        return commit_time

    def record(self, value: GroupMetadataValue | None = None) -> CoordinatorRecord:
        """The record that keeps the group, as it is now where nothing else is given."""
        key = GroupMetadataKey(group=self.group_id)
        return write_record(key, value or self.to_value(), CLASSIC_GROUP_VALUE_VERSION)

    def tombstones(self) -> Iterable[CoordinatorRecord]:
        """The record that deletes the group."""
        return [write_tombstone(GroupMetadataKey(group=self.group_id))]

    def to_value(self) -> GroupMetadataValue:
        """The record's value that keeps the group as it is."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.leader,
            current_state_timestamp=self.state_timestamp,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol_name),
                    assignment=member.assignment,
                )
                for member in self.members.values()
            ],
        )

    @classmethod
    def from_value(cls, group_id: str, value: GroupMetadataValue) -> "ClassicGroup":
        """The group that a record keeps."""
        group = cls(
            group_id,
            state=STABLE if value.members else EMPTY,
            state_timestamp=value.current_state_timestamp,
            generation=value.generation,
            protocol_type=value.protocol_type or None,
            protocol_name=value.protocol,
            leader=value.leader,
            stored=value,
        )
        for kept in value.members:
            timeout = kept.rebalance_timeout
            member = ClassicMember(
                kept.member_id,
                kept.group_instance_id,
                kept.client_id,
                kept.client_host,
                kept.session_timeout if timeout == -1 else timeout,
                kept.session_timeout,
                ((value.protocol or "", kept.subscription),),
                kept.assignment,
            )
            group.add(member, value.protocol_type)
        group.subscribed_topics = group._subscribed_topics()
        return group
