"""The interface of a group: what the coordinator asks every group, whatever its kind.

The names are those of Kafka's `Group` interface. What a kind of group does by itself (its
requests, its timers) is in its own folder; `group_kinds.py` has the table of kinds.

Rules kept here:
1. Nothing outside a group's own folder asks for its class: it asks the group, or names the kind
   that it needs (`GroupState.of_kind`), and a group of any other kind is refused.
2. A check refuses by raising KafkaError, and changes nothing.
3. A kind that keeps no committed offsets refuses commits, fetches and deletions of offsets with
   GROUP_ID_NOT_FOUND, as Kafka does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import ClassVar

from msgspec import Struct

from ottla.coordinator.offsets.store import OffsetAndMetadata
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.shard import CoordinatorRecord
from ottla.coordinator.topics import TopicSummary
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.offset_commit import OffsetCommitRequestPartition
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequestPartition


class GroupType(Enum):
    """The kinds of groups, by Kafka's names for them."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"

    __hash__ = object.__hash__  # Enum's own is a function in Python, and every heartbeat needs it


CommitPartition = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition

BaseTimestamp = Callable[[OffsetAndMetadata], int]
"""From when the retention of a committed offset counts."""


class Committer(Struct, frozen=True, gc=False):
    """Who commits."""

    group_id: str
    member_id: str
    instance_id: str | None
    epoch: int
    """The generation of a classic group, the member's epoch in a newer kind."""
    is_transactional: bool
    version: int

    @property
    def is_anonymous(self) -> bool:
        """True where the request names no member."""
        return self.epoch == -1 and not self.member_id and self.instance_id is None


class CommitTopic(Struct, frozen=True, gc=False):
    """The partitions of a topic that offsets are committed for."""

    info: TopicSummary | None
    partitions: Sequence[CommitPartition]
    unknown: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    """What to say of partitions that do not exist."""

    def has(self, partition: CommitPartition) -> bool:
        """True if the partition exists."""
        return self.info is not None and 0 <= partition.partition_index < self.info.partitions


class Group(ABC):
    """One group."""

    __slots__ = ()

    TYPE: ClassVar[GroupType]
    group_id: str

    # Listing and describing ----------------------------------------------------------------

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The state, by Kafka's name."""

    @property
    @abstractmethod
    def listed_protocol_type(self) -> str:
        """The protocol type that ListGroups has for it."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """True where it has no members."""

    @property
    def member_count(self) -> int:
        """How many members it has; 0 for a kind that has none."""
        return 0

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """True if members use the topic, or may use it for all that the coordinator knows."""

    # Its offsets ---------------------------------------------------------------------------

    @abstractmethod
    def check_commit(self, committer: Committer, topics: Iterable[CommitTopic]) -> None:
        """Refuse a commit that the committer may not make."""

    @abstractmethod
    def keep_session(self, committer: Committer, draft: ResultDraft) -> None:
        """A member has committed: where that counts as a heartbeat, note it."""

    @abstractmethod
    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Refuse an OffsetFetch of a member that is not allowed to fetch; raises KafkaError."""

    @abstractmethod
    def check_offset_delete(self) -> None:
        """Refuse to delete any of the offsets."""

    @abstractmethod
    def offset_expiration(self) -> BaseTimestamp | None:
        """From when the retention of its offsets counts, None where they do not expire."""

    # Its end -------------------------------------------------------------------------------

    def check_delete(self) -> None:
        """Refuse to delete the group."""
        if not self.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    @property
    def may_expire(self) -> bool:
        """True if the group is deleted together with the last of its offsets."""
        return self.is_empty

    @abstractmethod
    def tombstones(self) -> Iterable[CoordinatorRecord]:
        """The records that delete the group."""
