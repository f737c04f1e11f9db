"""Reading topics as a member of a consumer group (the consumer protocol of KIP-848).

Rules kept here:
1. The coordinator decides which partitions this member reads. Partitions are given up before the
   coordinator gets a heartbeat with them, and their positions are committed before that.
2. A partition is read from the group's committed offset. Where there is none, or its record is
   gone, `start` says where to begin.
3. Only what the caller has called done() for is committed. So after a crash records come again;
   none is lost.
4. Heartbeats are sent from poll(), there is no thread. A caller that stays away for longer than
   the session timeout loses its partitions and gets new ones at its next poll().
5. A fenced member, or one that the coordinator does not know, gives up its partitions without a
   commit and joins again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic, sleep
from types import TracebackType
from typing import Self
from uuid import UUID, uuid4

from ottla.client.cluster import Client, TopicPartition
from ottla.client.consumer import Batch, Reader
from ottla.client.coordinators import CoordinatorType, find_coordinator
from ottla.client.errors import error
from ottla.client.group_admin import LAST_WITH_TOPIC_NAMES, GroupAdmin
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
REBALANCE_TIMEOUT_MS = 60_000
NO_PARTITIONS_WAIT = 0.1
HEARTBEAT_WITHOUT_WORK = 1.0

OUT_OF_THE_GROUP = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)

Start = Callable[[list[TopicPartition], Mapping[TopicPartition, int]], dict[TopicPartition, int]]
"""Where to begin: partitions, and what the group has committed of them, to offsets."""


class GroupReader:
    """Reads what a group's coordinator assigns to this member. Use it with `with`."""

    def __init__(
        self,
        client: Client,
        group_id: str,
        topics: Sequence[str],
        start: Start,
        *,
        until: Mapping[TopicPartition, int] | None = None,
        read_committed: bool = True,
    ) -> None:
        """Join with the first poll(). With `until` a partition is not read past its offset."""
        self._client = client
        self._group_id = group_id
        self._topics = list(topics)
        self._start = start
        self._until = until
        self._read_committed = read_committed
        self._member_id = str(uuid4())
        self._epoch = JOIN_EPOCH
        self._owned: set[TopicPartition] | None = None
        self._reported: set[TopicPartition] | None = None
        self._next_heartbeat = 0.0
        self._reader: Reader | None = None
        self._done: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._aborted_before = 0
        self.problem: KafkaError | None = None
        """Why the last poll had no answer from a broker, where it is tried again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def assignment(self) -> set[TopicPartition] | None:
        """The partitions that are read now; None before the group has answered."""
        return self._owned

    @property
    def has_end(self) -> bool:
        """False where it continues for ever."""
        return self._until is not None

    @property
    def finished(self) -> bool:
        """True once all assigned partitions are read up to `until`."""
        if self._until is None or not self._owned:
            return False
        return self._reader is not None and self._reader.finished

    @property
    def aborted_records(self) -> int:
        """How many records of aborted transactions were passed over."""
        return self._aborted_before + (self._reader.aborted_records if self._reader else 0)

    def poll(self) -> list[Batch]:
        """The records of one reply; empty where nothing came for a while."""
        self.problem = self._heartbeat() if monotonic() >= self._next_heartbeat else None
        if self._reader is None or self._reader.finished:
            sleep(NO_PARTITIONS_WAIT)
            return []
        batches = self._reader.poll()
        self.problem = self.problem or self._reader.problem
        return batches

    def done(self, not_done: Mapping[TopicPartition, int] | None = None) -> None:
        """All records so far are processed, but for those from the given offsets on."""
        if self._reader is not None:
            self._done = {**self._reader.positions, **(not_done or {})}

    def commit(self) -> None:
        """Commit what is done."""
        moved = {
            partition: offset
            for partition, offset in self._done.items()
            if self._committed.get(partition) != offset
        }
        if moved:
            self._commit(moved)

    def close(self) -> None:
        """Leave the group. What was handed out and not committed will come again."""
        self._drop_reader()
        if self._epoch == JOIN_EPOCH:
            return
        self._epoch = LEAVE_EPOCH
        try:
            self._ask_coordinator(
                ConsumerGroupHeartbeatRequest(
                    group_id=self._group_id, member_id=self._member_id, member_epoch=LEAVE_EPOCH
                )
            )
        except KafkaError:
            pass  # the session timeout ends the membership

    # The group --------------------------------------------------------------------------

    def _heartbeat(self) -> KafkaError | None:
        """Tell the coordinator that this member lives; returns why it could not, to try again."""
        joining = self._epoch == JOIN_EPOCH
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id, member_id=self._member_id, member_epoch=self._epoch
        )
        if joining:
            request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
            request.subscribed_topic_names = self._topics
            request.topic_partitions = []
        elif self._owned != self._reported:
            request.topic_partitions = self._with_ids(self._owned or ())
        try:
            reply = self._ask_coordinator(request)
        except KafkaError as problem:
            if problem.code in OUT_OF_THE_GROUP:
                self._rejoin()
                return None
            if not problem.retriable:
                raise
            self._next_heartbeat = monotonic() + self._client.settings.longest_backoff
            return problem
        self._epoch = reply.member_epoch
        self._reported = set() if joining else self._owned
        self._next_heartbeat = monotonic() + reply.heartbeat_interval_ms / 1000
        if reply.assignment is not None:
            self._assigned(reply.assignment)
        if not self._owned:  # a coordinator assigns once a second at most (KIP-1263)
            self._next_heartbeat = min(self._next_heartbeat, monotonic() + HEARTBEAT_WITHOUT_WORK)
        return None

    def _ask_coordinator(
        self, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse:
        coordinator = find_coordinator(self._client, CoordinatorType.GROUP, self._group_id)
        try:
            reply = self._client.call(request, ConsumerGroupHeartbeatResponse, coordinator)
        except KafkaError as problem:
            if problem.code == ErrorCode.UNSUPPORTED_VERSION:
                raise KafkaError(
                    problem.code,
                    "the broker does not support the consumer group protocol of KIP-848; "
                    "read without a group instead",
                ) from None
            raise
        if reply.error_code:
            raise error(reply.error_code, reply.error_message, f"group {self._group_id}")
        return reply

    def _rejoin(self) -> None:
        self._drop_reader()
        self._done = {}
        self._committed = {}
        self._owned = self._reported = None
        self._epoch = JOIN_EPOCH
        self._next_heartbeat = 0.0

    def _assigned(self, assignment: Assignment) -> None:
        target = self._with_names(assignment)
        owned = self._owned or set()
        if self._owned is not None and target == owned:
            return
        kept = {
            partition: position
            for partition, position in (self._reader.positions if self._reader else {}).items()
            if partition in target
        }
        if owned - target:
            self.commit()
        self._drop_reader()
        added = sorted(target - owned)
        if added:
            committed = GroupAdmin(self._client).committed_offsets(self._group_id)
            known = {item: committed[item].offset for item in added if item in committed}
            kept.update(self._start(added, known))
            self._committed.update(known)
        self._committed = {item: at for item, at in self._committed.items() if item in target}
        self._done = {item: at for item, at in self._done.items() if item in target}
        self._owned = target
        if target:
            self._reader = Reader(
                self._client, kept, until=self._until, read_committed=self._read_committed
            )
        self._next_heartbeat = 0.0  # the coordinator waits to hear what this member has now

    def _drop_reader(self) -> None:
        if self._reader is not None:
            self._aborted_before += self._reader.aborted_records
            self._reader.close()
            self._reader = None

    def _commit(self, positions: Mapping[TopicPartition, int]) -> None:
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (name, index), position in positions.items():
            topics.setdefault(name, OffsetCommitRequestTopic(name=name)).partitions.append(
                OffsetCommitRequestPartition(partition_index=index, committed_offset=position)
            )

        def attempt() -> None:
            request = OffsetCommitRequest(
                group_id=self._group_id,
                generation_id_or_member_epoch=self._epoch,
                member_id=self._member_id,
                topics=list(topics.values()),
            )
            coordinator = find_coordinator(self._client, CoordinatorType.GROUP, self._group_id)
            reply = self._client.call(
                request, OffsetCommitResponse, coordinator, newest=LAST_WITH_TOPIC_NAMES
            )
            for topic in reply.topics:
                for item in topic.partitions:
                    if item.error_code:
                        about = f"partition {item.partition_index} of topic {topic.name}"
                        raise error(item.error_code, None, f"group {self._group_id}, {about}")

        try:
            self._client.retry(attempt)
        except KafkaError as problem:
            if problem.code in (*OUT_OF_THE_GROUP, ErrorCode.STALE_MEMBER_EPOCH):
                # The next heartbeat tells; until then nothing is lost, records come again.
                self._next_heartbeat = 0.0
                return
            raise
        self._committed.update(positions)

    # Topic ids --------------------------------------------------------------------------

    def _with_ids(self, partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
        by_topic: dict[UUID, TopicPartitions] = {}
        for name, index in sorted(partitions):
            topic_id = self._client.topic(name).id
            found = by_topic.setdefault(topic_id, TopicPartitions(topic_id=topic_id))
            found.partitions.append(index)
        return list(by_topic.values())

    def _with_names(self, assignment: Assignment) -> set[TopicPartition]:
        wanted = {item.topic_id for item in assignment.topic_partitions}
        names = {self._client.topic(name).id: name for name in self._topics}
        if wanted - names.keys():  # created again, or not seen yet
            for name in self._topics:
                self._client.forget(name)
            names = {self._client.topic(name).id: name for name in self._topics}
        return {
            TopicPartition(names[item.topic_id], index)
            for item in assignment.topic_partitions
            if item.topic_id in names
            for index in item.partitions
        }
