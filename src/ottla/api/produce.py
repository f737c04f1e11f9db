"""Produce, versions 3 to 13: batches of records for the log.

Advertised from version 0, as Kafka does since KIP-896, because older librdkafka falls back to
formats of the past otherwise; a request below version 3 closes the connection.
KIPs: 98 (idempotence), 467 (per-partition messages), 516 (topic ids), 951 (leader hints).
"""

from ottla.api.registry import Outcome, Parts, Request, UnanswerableError, error_of, raw_api
from ottla.broker.partition import Partition
from ottla.wire import produce as wire
from ottla.wire.apis import ApiKey
from ottla.wire.batch import TRANSACTIONAL
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.produce import PartitionResult, TopicKey

Results = list[tuple[TopicKey, list[PartitionResult]]]
_OFFSET_UNKNOWN = -1
_ATTRIBUTES = 22
"""Where the lower byte of a batch's attributes stands."""


@raw_api(ApiKey.PRODUCE, wire.FIRST_VERSION, wire.LAST_VERSION)
def produce(request: Request, body: memoryview, at: int) -> Outcome:
    """Append every batch, then answer when what acks promises is true."""
    version = request.version
    asked = wire.read_request(body, at, version)
    node = request.node
    if asked.acks not in (-1, 0, 1):
        return (_refuse_all(version, asked, ErrorCode.INVALID_REQUIRED_ACKS),)
    if asked.transactional_id is None and _has_transactional_batch(asked):
        return (_refuse_all(version, asked, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),)
    now = node.now_ms()
    results: Results = []
    to_flush: dict[Partition, None] = {}
    seen: set[tuple[TopicKey, int]] = set()
    failed = False
    for topic, batches in asked.topics:
        answers: list[PartitionResult] = []
        results.append((topic, answers))
        for index, records in batches:
            partition: Partition | None = None
            try:
                if len(asked.topics) > 1 or len(batches) > 1:
                    _check_named_once(seen, topic, index)
                partition = node.partitions.find(topic, index)
                partition.metrics.produces += 1
                appended = partition.append(records, now, version)
                if appended.must_flush:
                    to_flush[partition] = None
                answers.append(
                    PartitionResult(
                        index,
                        0,
                        appended.base_offset,
                        appended.append_time,
                        appended.log_start_offset,
                    )
                )
            except Exception as problem:  # noqa: BLE001 one batch's failure is not the others'
                failed = True
                answers.append(_refused(partition, index, problem))
    if to_flush:
        return _answer_when_flushed(request, asked.acks, results, list(to_flush))
    if asked.acks == 0:
        if failed:
            _give_up(results)
        return None
    return (wire.response(version, results),)


def _has_transactional_batch(asked: wire.ProduceRequest) -> bool:
    for _, batches in asked.topics:
        for _, records in batches:
            if (
                records is not None
                and len(records) > _ATTRIBUTES
                and (records[_ATTRIBUTES] & TRANSACTIONAL)
            ):
                return True
    return False


def _check_named_once(seen: set[tuple[TopicKey, int]], topic: TopicKey, index: int) -> None:
    key = (topic, index)
    if key in seen:
        raise KafkaError(ErrorCode.INVALID_RECORD, "two batches for one partition in a request")
    seen.add(key)


def _refused(partition: Partition | None, index: int, problem: Exception) -> PartitionResult:
    code, message = error_of(problem)
    start = _OFFSET_UNKNOWN
    if partition is not None:
        partition.metrics.failed_produces += 1
        start = partition.log.start_offset
    blamed = problem.record_errors if isinstance(problem, KafkaError) else ()
    return PartitionResult(
        index, code, log_start_offset=start, message=message, record_errors=blamed
    )


def _refuse_all(version: int, asked: wire.ProduceRequest, code: ErrorCode) -> bytes:
    return wire.response(
        version,
        [
            (topic, [PartitionResult(index, code) for index, _ in batches])
            for topic, batches in asked.topics
        ],
    )


def _give_up(results: Results) -> None:
    """With acks=0 an error cannot be told; closing the connection makes the client look again."""
    codes = {result.error_code for _, answers in results for result in answers}
    names = ", ".join(sorted(ErrorCode(code).name for code in codes if code))
    raise UnanswerableError(f"a produce with acks=0 failed: {names}")


def _answer_when_flushed(
    request: Request, acks: int, results: Results, partitions: list[Partition]
) -> Outcome:
    """`flush.messages` is reached: the answer waits for the fsync."""
    if acks == 0:
        for partition in partitions:
            request.node.run_in_background(partition.flush())
        return None
    return _flush_then_answer(request, results, partitions)


async def _flush_then_answer(
    request: Request, results: Results, partitions: list[Partition]
) -> Parts:
    unsafe: dict[tuple[TopicKey, int], KafkaError] = {}
    for partition in partitions:
        try:
            await partition.flush()
        except KafkaError as problem:
            unsafe[partition.topic, partition.index] = problem
            unsafe[partition.topic_id.bytes, partition.index] = problem
    for topic, answers in results:
        for place, result in enumerate(answers):
            failure = unsafe.get((topic, result.partition))
            if failure is not None:
                answers[place] = PartitionResult(
                    result.partition, failure.code, message=failure.message
                )
    return (wire.response(request.version, results),)
