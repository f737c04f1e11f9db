"""The differences from Kafka that are meant or cannot be helped, each with its reason.

An entry says which replies it is about, which of their values, and why. What no entry covers is a
bug. `ends_round` is for differences after which the two brokers are in different states.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Protocol

from ottla.wire.batch import HEADER, HEADER_SIZE
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.produce import ProduceRequest


class Differing(Protocol):
    """What an entry looks at."""

    @property
    def step(self) -> Any: ...
    @property
    def path(self) -> str: ...
    @property
    def ottla(self) -> Any: ...
    @property
    def kafka(self) -> Any: ...
    @property
    def whole(self) -> Any: ...
    @property
    def other(self) -> Any: ...


SEEN_BEFORE_THE_LOG = (ErrorCode.INVALID_RECORD, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
LATEST = -1
"""Stands in ListOffsets for the end of what may be read."""
MAX_TIMESTAMP = -3
"""Stands in ListOffsets for the record with the largest timestamp."""
READ_COMMITTED = 1


@dataclass(frozen=True)
class Known:
    """One kind of difference."""

    request: str
    """The class of the request, without "Request"."""
    path: str
    """A pattern for where in the reply."""
    reason: str
    holds: Callable[[Differing], bool] = lambda _: True
    """What else must be so."""
    ends_round: bool = False

    def covers(self, difference: Differing) -> bool:
        """Whether this entry explains a difference."""
        name = type(difference.step.request).__name__.removesuffix("Request")
        # Brackets are patterns to fnmatch; in paths they are places in lists.
        path = difference.path.replace("[", "(").replace("]", ")")
        return (
            fnmatchcase(name, self.request)
            and fnmatchcase(path, self.path.replace("[", "(").replace("]", ")"))
            and self.holds(difference)
        )


def _partition(found: Differing) -> Any:
    """The partition of a Fetch reply that a difference is in."""
    place = int(found.path.removeprefix("responses[").partition("]")[0])
    return found.whole["responses"][place]["partitions"][0]


def _produced(found: Differing, of_kafka: bool = False) -> Any:
    """The partition of a Produce reply that a difference is in."""
    topic, partition = (int(part.partition("]")[0]) for part in found.path.split("[")[1:3])
    whole = found.other if of_kafka else found.whole
    return whole["responses"][topic]["partition_responses"][partition]


def _has_sequences(request: ProduceRequest) -> bool:
    """Whether an idempotent producer sent it."""
    return any(
        len(part.records or b"") >= HEADER_SIZE and HEADER.unpack_from(part.records or b"")[9] >= 0
        for topic in request.topic_data
        for part in topic.partition_data
    )


def _left_empty(found: Differing) -> bool:
    """Kafka has an empty group that Ottla has not."""
    if isinstance(found.ottla, list) and isinstance(found.kafka, list):
        more = [each for each in found.kafka if each not in found.ottla]
        return all(each.get("group_state", "Empty") in ("Empty", "") for each in more)
    return (found.ottla, found.kafka) in (
        (ErrorCode.GROUP_ID_NOT_FOUND, 0),
        (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID),
        (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_MEMBER_ID),
        ("Dead", "Empty"),
    )


def _lists_less(found: Differing) -> bool:
    """Kafka names aborted transactions that begin behind the records of the reply."""
    if found.ottla is None or found.kafka is None:
        return False
    batches = _partition(found)["records"]["batches"]
    last = max((batch["base_offset"] + batch["last_offset_delta"] for batch in batches), default=-1)
    missing = [each for each in found.kafka if each not in found.ottla]
    return all(each in found.kafka for each in found.ottla) and all(
        each["first_offset"] > last for each in missing
    )


KNOWN: list[Known] = [
    Known(
        "CreateTopics",
        "topics[*].configs[*].config_source",
        "Kafka writes a cluster-wide min.insync.replicas for eligible leader replicas (KIP-966)",
        lambda found: (found.ottla, found.kafka) == (5, 3),
    ),
    Known(
        "Fetch",
        "responses[*].partitions[*].error_code",
        "a deleted topic in a session: Ottla knows it by its id alone, Kafka by its old name too",
        lambda found: (
            found.step.request.session_epoch > 0
            and found.ottla == ErrorCode.UNKNOWN_TOPIC_ID
            and found.kafka
            in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INCONSISTENT_TOPIC_ID)
        ),
    ),
    Known(
        "Fetch",
        "responses[*].aborted_transactions",
        "a deleted topic in a session: Ottla knows it by its id alone, Kafka by its old name too",
        lambda found: _partition(found)["error_code"] == ErrorCode.UNKNOWN_TOPIC_ID,
    ),
    Known(
        "Fetch",
        "responses[*].aborted_transactions",
        "Kafka lists aborted transactions up to the next index entry, Ottla those in the records",
        _lists_less,
    ),
    Known(
        "Fetch",
        "responses[*].last_stable_offset",
        "DeleteRecords into an open transaction's batch: Kafka's LSO is that batch's first offset, "
        "Ottla's is never below the log start",
        lambda found: (
            found.kafka < found.ottla and _partition(found)["log_start_offset"] in (found.ottla, -1)
        ),
    ),
    Known(
        "ListOffsets",
        "topics[*].partitions[*].offset",
        "DeleteRecords into an open transaction's batch: Kafka's LSO is that batch's first offset, "
        "Ottla's is never below the log start",
        lambda found: (
            found.step.request.isolation_level == READ_COMMITTED
            and 0 <= found.kafka < found.ottla
            and all(
                part.timestamp == LATEST
                for topic in found.step.request.topics
                for part in topic.partitions
            )
        ),
    ),
    Known(
        "ListOffsets",
        "topics*",
        "the record with the largest timestamp: Kafka names one that DeleteRecords removed",
        lambda found: any(
            part.timestamp == MAX_TIMESTAMP
            for topic in found.step.request.topics
            for part in topic.partitions
        ),
    ),
    Known(
        "ListOffsets",
        "topics*",
        "a time whose first record was in a segment that DeleteRecords cut into: Kafka looks no "
        "further, Ottla in the next segments too",
        lambda found: found.kafka == -1,
    ),
    Known(
        "Produce",
        "responses[*].error_code",
        "a codec that does not exist: Kafka has no error code for it",
        lambda found: (
            (found.ottla, found.kafka)
            == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, ErrorCode.UNKNOWN_SERVER_ERROR)
        ),
    ),
    Known(
        "Produce",
        "responses[*].error_code",
        "acks that do not exist: Kafka looks first whether the partition does",
        lambda found: (
            found.step.request.acks not in (-1, 0, 1)
            and found.ottla == ErrorCode.INVALID_REQUIRED_ACKS
        ),
    ),
    Known(
        "Produce",
        "responses[*].error_code",
        "Kafka looks for a batch's length before it looks for the topic",
        lambda found: (
            found.kafka == ErrorCode.CORRUPT_MESSAGE
            and found.ottla in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
        ),
    ),
    Known(
        "Produce",
        "responses[*].error_code",
        "a record with two faults, its key and its timestamp: either may be named",
        lambda found: (
            {found.ottla, found.kafka} == {ErrorCode.INVALID_TIMESTAMP, ErrorCode.INVALID_RECORD}
        ),
    ),
    Known(
        "Produce",
        "responses[*].log_start_offset",
        "Kafka does not look at the log where records are no single batch",
        lambda found: found.kafka == -1 and _produced(found)["error_code"] in SEEN_BEFORE_THE_LOG,
    ),
    Known(
        "Produce",
        "responses[*",
        "a few bytes behind a batch: Ottla refuses them, Kafka cuts them off",
        lambda found: (
            _produced(found)["error_code"] == ErrorCode.CORRUPT_MESSAGE
            and _produced(found, of_kafka=True)["error_code"] in (0, ErrorCode.INVALID_RECORD)
        ),
        ends_round=True,
    ),
    Known(
        "Produce",
        "responses[*",
        "behind a batch that was refused because its topic was missing: Ottla waits for that batch "
        "(broker/replicas/rejected_batches.py), Kafka takes any first sequence",
        lambda found: (
            _produced(found)["error_code"]
            in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
            and _produced(found, of_kafka=True)["error_code"] == 0
            and _has_sequences(found.step.request)
        ),
        ends_round=True,
    ),
    Known(
        "Produce",
        "responses[*",
        "a body that is not what its codec says: Kafka opens every compressed batch, Ottla those "
        "of compacted topics",
        lambda found: (
            _produced(found, of_kafka=True)["error_code"] == ErrorCode.UNKNOWN_SERVER_ERROR
        ),
        ends_round=True,
    ),
    Known(
        "Produce",
        "responses[*",
        "Kafka compares with the lowest sequence that it verified, even if that was a duplicate",
        lambda found: (
            found.step.request.transactional_id is not None
            and _produced(found)["error_code"] == 0
            and _produced(found, of_kafka=True)["error_code"]
            == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        ),
        ends_round=True,
    ),
    *(
        Known(
            request,
            path,
            "a refused commit, to a group that there is not, leaves an empty one in Kafka",
            _left_empty,
            ends_round=True,
        )
        for request, path in (
            ("OffsetDelete", "error_code"),
            ("OffsetDelete", "topics"),
            ("DeleteGroups", "results[*].error_code"),
            ("DescribeGroups", "groups[*].group_state"),
            ("ListGroups", "groups"),
            ("*OffsetCommit", "topics[*].error_code"),
        )
    ),
    Known(
        "TxnOffsetCommit",
        "topics[*].error_code",
        "Kafka verifies the transactional id of a transaction's first commit alone",
        lambda found: (
            found.kafka == 0
            and found.ottla in (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_REQUEST)
        ),
        ends_round=True,
    ),
    Known(
        "JoinGroup",
        "leader",
        "which member leads when the leader left: Kafka takes the first of a hash table",
        ends_round=True,
    ),
    Known(
        "JoinGroup",
        "members*",
        "which member leads when the leader left: Kafka takes the first of a hash table",
        lambda found: found.whole["leader"] != found.other["leader"],
        ends_round=True,
    ),
    Known(
        "JoinGroup",
        "protocol_name",
        "two protocols with as many votes: Kafka takes the last of a hash table",
        lambda found: bool(found.ottla and found.kafka),
        ends_round=True,
    ),
    Known(
        "JoinGroup",
        "members*",
        "two protocols with as many votes: Kafka takes the last of a hash table",
        lambda found: found.whole["protocol_name"] != found.other["protocol_name"],
        ends_round=True,
    ),
    Known(
        "SyncGroup",
        "",
        "Kafka never answers the SyncGroup of a member that has left meanwhile",
        lambda found: (
            found.kafka == "no reply" and found.ottla["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
        ),
        ends_round=True,
    ),
    Known(
        "OffsetCommit",
        "topics[*].error_code",
        "a partition with two faults, its metadata's size and an old epoch: either may be named",
        lambda found: (
            (found.ottla, found.kafka)
            == (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.OFFSET_METADATA_TOO_LARGE)
        ),
    ),
    Known(
        "ConsumerGroupDescribe",
        "groups[*].assignor_name",
        "as many members prefer one assignor as another: Kafka takes the last of a hash table",
        ends_round=True,
    ),
    Known(
        "ConsumerGroupHeartbeat",
        "assignment*",
        "which member gets which partition depends on the order of Kafka's hash tables",
        ends_round=True,
    ),
    Known(
        "ConsumerGroupHeartbeat",
        "member_epoch",
        "which member gets which partition depends on the order of Kafka's hash tables",
        lambda found: min(found.ottla, found.kafka) > 0,
        ends_round=True,
    ),
    Known(
        "ConsumerGroupDescribe",
        "groups[*]assignment.topic_partitions*",
        "which member gets which partition depends on the order of Kafka's hash tables",
        ends_round=True,
    ),
]
