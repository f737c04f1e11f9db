"""Reading topics as a member of a share group (KIP-932): records are shared, each is acknowledged.

Rules kept here:
1. The coordinator says which partitions this member reads. Their leaders say which records it gets,
   and hold them for it for a while (`share.record.lock.duration.ms`).
2. Only what the caller has called done() for is accepted. What it says is not done is released, and
   delivered again: to this member or to another.
3. Acknowledgements go with the next fetch from the same leader, or with commit(). They are taken
   once, and not sent again after a failure: the records are delivered again then.
4. Heartbeats are sent from poll(), there is no thread. A caller that stays away for longer than the
   session timeout is no member any more, and joins again at its next poll().
5. Where a session with a leader is lost a new one begins (`share_fetch_session.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
from time import monotonic, sleep
from types import TracebackType
from typing import Self
from uuid import UUID, uuid4

from ottla.client.cluster import Client, TopicPartition
from ottla.client.consumer import Batch
from ottla.client.coordinators import CoordinatorType, find_coordinator
from ottla.client.errors import error
from ottla.client.share_fetch_session import Acknowledgements, ShareFetchSession
from ottla.records import decode_batch
from ottla.share.states import AcknowledgeType
from ottla.wire.batch import headers
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages import share_fetch as fetching
from ottla.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
OUT_OF_THE_GROUP = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
NO_SESSION = (ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH)
NO_PARTITIONS_WAIT = 0.1
WAIT_MS = 500
"""How long a leader waits for records."""
QUIET_SECONDS = 1.0
"""A reader with an end has reached it where nothing has come for so long."""


class ShareGroupReader:
    """Reads what a share group gives to this member. Use it with `with`."""

    def __init__(
        self, client: Client, group_id: str, topics: Sequence[str], *, ends: bool = False
    ) -> None:
        """Join with the first poll(). With `ends` it is finished when nothing comes any more."""
        self._client = client
        self._group_id = group_id
        self._topics = list(topics)
        self._member_id = str(uuid4())
        self._epoch = JOIN_EPOCH
        self._assigned: dict[TopicPartition, UUID] | None = None
        self._next_heartbeat = 0.0
        self._sessions: dict[int, ShareFetchSession] = {}
        self._turn = 0
        self._got: Acknowledgements = {}
        self._last_record = monotonic()
        self.has_end = ends
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
        return None if self._assigned is None else set(self._assigned)

    @property
    def finished(self) -> bool:
        """True once nothing has come for a while, where there is an end."""
        if not self.has_end or not self._assigned:
            return False
        return monotonic() > self._last_record + QUIET_SECONDS

    @property
    def aborted_records(self) -> int:
        """The broker passes over them: `share.isolation.level`."""
        return 0

    def poll(self) -> list[Batch]:
        """The records of one reply; empty where nothing came for a while."""
        self.problem = self._heartbeat() if monotonic() >= self._next_heartbeat else None
        try:
            leaders = self._client.by_leader(self._assigned or ())
            if not leaders:
                sleep(NO_PARTITIONS_WAIT)
                return []
            for node in [node for node in self._sessions if node not in leaders]:
                self._sessions.pop(node).end()
            self._turn += 1
            node = sorted(leaders)[self._turn % len(leaders)]
            batches = self._fetch(node, leaders[node], WAIT_MS // len(leaders))
        except KafkaError as problem:
            if not problem.retriable:
                raise
            self.problem = problem
            sleep(self._client.settings.backoff)
            return []
        if batches:
            self._last_record = monotonic()
        return batches

    def done(self, not_done: Mapping[TopicPartition, int] | None = None) -> None:
        """All records so far are processed, but for those from the given offsets on."""
        got, self._got = self._got, {}
        for where, offsets in got.items():
            limit = (not_done or {}).get(where)
            for offset in offsets:
                if limit is not None and offset >= limit:
                    offsets[offset] = AcknowledgeType.RELEASE
            for session in self._sessions.values():
                if where in session.partitions:
                    session.waiting.setdefault(where, {}).update(offsets)

    def commit(self) -> None:
        """Send what was said of records, and wait for the answer."""
        for node, session in self._sessions.items():
            if session.waiting:
                try:
                    session.acknowledge(session.epoch)
                except KafkaError as problem:
                    self._failed(node, problem)

    def close(self) -> None:
        """Leave the group. What was handed out and is not done is delivered again."""
        for session in self._sessions.values():
            session.end()
        self._sessions.clear()
        if self._epoch == JOIN_EPOCH:
            return
        self._epoch = LEAVE_EPOCH
        try:
            self._ask_coordinator(
                ShareGroupHeartbeatRequest(
                    group_id=self._group_id, member_id=self._member_id, member_epoch=LEAVE_EPOCH
                )
            )
        except KafkaError:
            pass  # the session timeout ends the membership

    # The group ----------------------------------------------------------------------------

    def _heartbeat(self) -> KafkaError | None:
        """Tell the coordinator that this member lives; returns why it could not, to try again."""
        request = ShareGroupHeartbeatRequest(
            group_id=self._group_id, member_id=self._member_id, member_epoch=self._epoch
        )
        if self._epoch == JOIN_EPOCH:
            request.subscribed_topic_names = self._topics
        try:
            reply = self._ask_coordinator(request)
        except KafkaError as problem:
            if problem.code in OUT_OF_THE_GROUP:
                self._epoch = JOIN_EPOCH
                self._next_heartbeat = 0.0
                return None
            if not problem.retriable:
                raise
            self._next_heartbeat = monotonic() + self._client.settings.longest_backoff
            return problem
        self._epoch = reply.member_epoch
        self._next_heartbeat = monotonic() + reply.heartbeat_interval_ms / 1000
        if reply.assignment is not None:
            if self._assigned is None:
                self._last_record = monotonic()
            self._assigned = self._with_names(reply.assignment)
        return None

    def _ask_coordinator(self, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
        coordinator = find_coordinator(self._client, CoordinatorType.GROUP, self._group_id)
        reply = self._client.call(request, ShareGroupHeartbeatResponse, coordinator)
        if reply.error_code:
            raise error(reply.error_code, reply.error_message, f"group {self._group_id}")
        return reply

    def _with_names(self, assignment: Assignment) -> dict[TopicPartition, UUID]:
        wanted = {item.topic_id for item in assignment.topic_partitions}
        if wanted - {self._client.topic(name).id for name in self._topics}:
            for name in self._topics:  # created again, or not seen yet
                self._client.forget(name)
        names = {self._client.topic(name).id: name for name in self._topics}
        return {
            TopicPartition(names[item.topic_id], index): item.topic_id
            for item in assignment.topic_partitions
            if item.topic_id in names
            for index in item.partitions
        }

    # Leaders ------------------------------------------------------------------------------

    def _fetch(self, node: int, wanted: Iterable[TopicPartition], wait_ms: int) -> list[Batch]:
        session = self._sessions.get(node)
        if session is None:
            session = ShareFetchSession(self._client.connect(node), self._group_id, self._member_id)
            self._sessions[node] = session
        ids = {where: (self._assigned or {})[where] for where in wanted}
        try:
            reply = session.fetch(ids, wait_ms)
        except KafkaError as problem:
            self._failed(node, problem)
            return []
        batches = []
        for topic in reply.responses:
            for part in topic.partitions:
                where = session.name_of(topic.topic_id, part.partition_index)
                if where is None:
                    continue
                if part.error_code:
                    self._client.forget(where.topic)
                    self.problem = error(
                        part.error_code, part.error_message, f"topic {where.topic}"
                    )
                batches += self._take(where, part)
        return batches

    def _failed(self, node: int, problem: KafkaError) -> None:
        """A session is lost: what it had said of records, and not been answered, is too."""
        self._sessions.pop(node).close()
        if problem.code not in NO_SESSION:
            if not problem.retriable:
                raise problem
            self.problem = problem
            for where in self._assigned or ():
                self._client.forget(where.topic)

    def _take(self, where: TopicPartition, part: fetching.PartitionData) -> list[Batch]:
        """The acquired records of a partition; offsets without a record are gaps."""
        got = self._got.setdefault(where, {})
        for acquired in part.acquired_records:
            for offset in range(acquired.first_offset, acquired.last_offset + 1):
                got[offset] = AcknowledgeType.GAP
        found = []
        data = memoryview(part.records or b"")
        for at, header in headers(data):
            if header.is_control:
                continue
            records = decode_batch(data[at : at + header.size])
            mine = [record for record in records if record.offset in got]
            got.update(dict.fromkeys((each.offset for each in mine), AcknowledgeType.ACCEPT))
            if mine:
                found.append(Batch(where.topic, where.partition, mine))
        return found
