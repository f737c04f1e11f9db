"""One of the two brokers: its connections, its ids, and what is awaited before the next step.

Rules kept here:
1. Only what a broker does behind its reply is awaited: a topic that is still being made or
   removed, a transaction whose markers are still being written. Then both brokers are at rest,
   and no reply depends on their speed.
2. Replies that ask the client to try again soon are tried again, as clients do.
3. A connection that the broker closed is a reply too; the next step opens another one.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from compat.differential.names import Names
from compat.differential.plain import Plain, of_the_round, plain
from compat.differential.steps import PREFIX, Step
from ottla.wire.errors import ErrorCode
from ottla.wire.message import Message
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from testkit.raw import ClosedError, Connection
from testkit.waiting import until

BEHIND = "behind"
"""The connection for what is asked beside the steps."""
SOON = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
SOON_SECONDS = 5.0
AGAIN_SECONDS = 0.005
METADATA, DESCRIBE_TRANSACTIONS, FIND_COORDINATOR, COMMIT, LIST_OFFSETS = 12, 0, 4, 8, 7
OFFSET_FETCH = 8
"""Versions of what is asked beside the steps."""
PREPARED = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")
BARRIER = "barrier"
OF_DELETED = "of-deleted"
"""A group of no round: no reply that is compared shows it."""
NO_REPLY = "no reply"


@dataclass(frozen=True)
class Reply:
    """What a broker replied to a step."""

    step: Step
    message: Message | None
    """In canonical form; None where it closed the connection."""
    shown: Plain


class Raw(NamedTuple):
    """The same as it came."""

    step: Step
    message: Message | None
    problem: str = ""


def response_class(request: Message) -> type[Message]:
    """The class of a request's reply."""
    module = sys.modules[type(request).__module__]
    found: type[Message] = getattr(module, type(request).__name__.replace("Request", "Response"))
    return found


class Side:
    """A running broker in one round after the other."""

    def __init__(self, name: str, bootstrap: str) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self.names = Names(PREFIX)
        self._connections: dict[str, Connection] = {}
        self.waiting: dict[str, Step] = {}
        """The steps whose replies have not come, by connection."""

    def begin(self, prefix: str) -> None:
        """Start a round: nothing is known of the one before."""
        self.close()
        self.names = Names(prefix)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self.waiting.clear()

    def send(self, step: Step) -> None:
        """Send a step's request."""
        self.waiting[step.connection] = step
        request = self.names.real(step.request)
        if isinstance(request, DeleteTopicsRequest):
            self._commit_offsets(request.topic_names)
        try:
            self._connection(step.connection).send(request, step.version)
        except ClosedError:
            pass  # The reply will say so.

    def receive(self, connection: str, within: float | None = None) -> Raw | None:
        """The reply to what waits on a connection; None if it does not come in time."""
        step = self.waiting[connection]
        try:
            if within is not None and not self._connection(connection).has_reply(within):
                return None
            response = response_class(step.request)
            _, message = self._connection(connection).receive(response, step.version)
        except (ClosedError, TimeoutError) as problem:
            del self.waiting[connection]
            self._connections.pop(connection).close()
            return Raw(step, None, "closed" if isinstance(problem, ClosedError) else NO_REPLY)
        del self.waiting[connection]
        return Raw(step, message)

    def understand(self, come: Mapping[str, Raw]) -> dict[str, Reply]:
        """Replies that came together, in canonical form."""
        for raw in come.values():
            if raw.message is not None:
                self.names.meet(raw.message, raw.step.number)
        return {connection: self._understand(raw) for connection, raw in come.items()}

    def _understand(self, raw: Raw) -> Reply:
        step, message = raw.step, raw.message
        if message is None:
            return Reply(step, None, raw.problem)
        of_the_round(message, self.names.prefix)
        canonical = self.names.canonical(message, step.number)
        return Reply(step, canonical, plain(canonical, self.names, step.number))

    def finish(self, step: Step) -> Reply:
        """The reply to a step that does not wait for others, when the broker is at rest again."""
        deadline = time.monotonic() + SOON_SECONDS
        while True:
            raw = self.receive(step.connection)
            assert raw is not None
            reply = self.understand({step.connection: raw})[step.connection]
            if not _asks_to_try_again(reply) or time.monotonic() > deadline:
                break
            time.sleep(AGAIN_SECONDS)
            self.send(step)
        self._rest(step, reply)
        return reply

    def rest_of_groups(self) -> None:
        """Wait until the group coordinator has done all that it was asked before."""
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        topic = OffsetCommitRequestTopic(name=self.names.prefix + "t1", partitions=[partition])
        request = OffsetCommitRequest(group_id=self.names.prefix + BARRIER, topics=[topic])
        self._connection(BEHIND).ask(request, OffsetCommitResponse, COMMIT)

    def find_coordinators(self) -> None:
        """Have the coordinators' topics made."""
        for kind in (0, 1):
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["any"])

            def is_there(request: FindCoordinatorRequest = request) -> bool:
                connection = self._connection(BEHIND)
                answer = connection.ask(request, FindCoordinatorResponse, FIND_COORDINATOR)
                return not answer.coordinators[0].error_code

            until(is_there, f"{self.name} has coordinators")

    def _connection(self, name: str) -> Connection:
        if name not in self._connections:
            self._connections[name] = Connection(self.bootstrap)
        return self._connections[name]

    # What a broker does behind its reply ----------------------------------------------------

    def _rest(self, step: Step, reply: Reply) -> None:
        request = self.names.real(step.request)
        if isinstance(request, CreateTopicsRequest):
            assert isinstance(reply.message, CreateTopicsResponse)
            for topic in reply.message.topics:
                if not topic.error_code:
                    self._await_topic(self.names.prefix + topic.name[len(PREFIX) :], there=True)
        elif isinstance(request, DeleteTopicsRequest):
            for name in request.topic_names:
                self._await_topic(name, there=False)
            self._await_no_offsets(request.topic_names)
        elif isinstance(request, EndTxnRequest | InitProducerIdRequest) and (
            transactional_id := request.transactional_id
        ):
            self._await_markers(transactional_id)

    def _await_topic(self, name: str, there: bool) -> None:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
        )

        def is_so() -> bool:
            answer = self._connection(BEHIND).ask(request, MetadataResponse, METADATA)
            (topic,) = answer.topics
            if not there:
                return topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return not topic.error_code and self._leads(name, len(topic.partitions))

        until(is_so, f"{self.name}: {name} is {'there' if there else 'gone'}", 10, AGAIN_SECONDS)

    def _commit_offsets(self, topics: Sequence[str]) -> None:
        """Have an offset in each topic, whose end shows that the group coordinator knows more."""
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        request = OffsetCommitRequest(
            group_id=OF_DELETED,
            topics=[OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in topics],
        )
        self._connection(BEHIND).ask(request, OffsetCommitResponse, COMMIT)

    def _await_no_offsets(self, topics: Sequence[str]) -> None:
        asked = [OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in topics]
        group = OffsetFetchRequestGroup(group_id=OF_DELETED, topics=asked)

        def is_done() -> bool:
            answer = self._connection(BEHIND).ask(
                OffsetFetchRequest(groups=[group]), OffsetFetchResponse, OFFSET_FETCH
            )
            return all(
                part.committed_offset < 0
                for topic in answer.groups[0].topics
                for part in topic.partitions
            )

        until(is_done, f"{self.name}: offsets of deleted topics are gone", 10, AGAIN_SECONDS)

    def _leads(self, name: str, partitions: int) -> bool:
        asks = [ListOffsetsPartition(partition_index=p, timestamp=-1) for p in range(partitions)]
        topic = ListOffsetsTopic(name=name, partitions=asks)
        request = ListOffsetsRequest(replica_id=-1, topics=[topic])
        answer = self._connection(BEHIND).ask(request, ListOffsetsResponse, LIST_OFFSETS)
        return not any(part.error_code for part in answer.topics[0].partitions)

    def _await_markers(self, transactional_id: str) -> None:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

        def is_done() -> bool:
            connection = self._connection(BEHIND)
            answer = connection.ask(request, DescribeTransactionsResponse, DESCRIBE_TRANSACTIONS)
            return answer.transaction_states[0].transaction_state not in PREPARED

        until(is_done, f"{self.name}: {transactional_id} has its markers", 10, AGAIN_SECONDS)


def _asks_to_try_again(reply: Reply) -> bool:
    return getattr(reply.message, "error_code", 0) in SOON
