"""What a Produce request is answered, and with which errors its batches are refused."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.api.registry import Request, error_of
from ottla.broker.replicas.partition import Partition
from ottla.security.authorizer import WRITE
from ottla.security.operations import Operation, ResourceType
from ottla.wire import produce as wire
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.produce import PartitionResult, ProduceRequest, TopicKey
from ottla.wire.reply import UnanswerableError

ADMIN_CLIENT_ID = "__admin_client"

WITHOUT_LOG_START = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors with which Kafka does not say where the log starts (-1)."""

Results = list[tuple[TopicKey, list[PartitionResult]]]


def not_allowed(request: Request, topic: str) -> KafkaError:
    """The refusal of a client that may not write to a topic; it is logged."""
    request.access.may(Operation.WRITE, ResourceType.TOPIC, topic)
    return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def may_use_transaction(request: Request, asked: ProduceRequest) -> bool:
    """Whether the client may write in the transaction that it names."""
    name = asked.transactional_id or ""
    return request.access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name)


def check_may_write_internal(request: Request, partition: Partition) -> None:
    """Only coordinators write there, and an administrator's client, as in Kafka."""
    if request.client_id != ADMIN_CLIENT_ID:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Cannot append to internal topic {partition.topic}",
        )


def response(request: Request, results: Results) -> bytes:
    """The bytes of a reply."""
    return wire.response(request.version, results, endpoints=endpoints_of(request, results))


def endpoints_of(request: Request, results: Results) -> Sequence[wire.NodeEndpoint]:
    """Where the leaders are that the results hint at."""
    hinted = {each.leader[0] for _, answers in results for each in answers if each.leader}
    return request.node.leaders.endpoints(request.listener, hinted) if hinted else ()


def refusal(
    request: Request,
    topic: TopicKey,
    partition: Partition | None,
    index: int,
    records: memoryview | None,
    problem: Exception,
) -> PartitionResult:
    """The result of a batch that was not appended."""
    node = request.node
    if partition is None and isinstance(topic, str) and not request.access.topics[topic] & WRITE:
        problem = not_allowed(request, topic)  # also where there is no such topic
    reason, message = error_of(problem)
    code = node.rejected_batches.error_for((topic, index), records, reason, node.elapsed_ms())
    start = -1
    leader = None
    if code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        leader = node.leaders.hint(topic, index)
    if partition is not None:
        partition.metrics.failed_produces += 1
        node.isr_leaving.append_failed(partition, reason)
        if reason not in WITHOUT_LOG_START:
            start = partition.log.start_offset
    blamed = problem.record_errors if isinstance(problem, KafkaError) else ()
    return PartitionResult(
        index, code, log_start_offset=start, message=message, leader=leader, record_errors=blamed
    )


def refuse_all(version: int, asked: ProduceRequest, code: ErrorCode) -> bytes:
    """A reply with the same error for every batch."""
    return wire.response(
        version,
        [
            (topic, [PartitionResult(index, code) for index, _ in batches])
            for topic, batches in asked.topics
        ],
    )


def refuse_without_id(version: int, asked: ProduceRequest) -> bytes:
    """The reply to batches of a transaction without the id of one."""
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if asked.acks == 0:
        raise UnanswerableError(f"produce request with acks=0 failed: {code.name}")
    return refuse_all(version, asked, code)


def give_up(results: Results) -> None:
    """With acks=0 there is no reply for an error; closing the connection makes clients refresh."""
    codes = {result.error_code for _, answers in results for result in answers}
    names = ", ".join(sorted(ErrorCode(code).name for code in codes if code))
    raise UnanswerableError(f"produce request with acks=0 failed: {names}")
