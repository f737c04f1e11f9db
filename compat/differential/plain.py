"""Replies as plain values that can be compared, without what two brokers cannot share.

Rules kept here:
1. What depends on the clock, on ports or on the wording of a message is masked, and nothing else.
2. Lists whose order means nothing are sorted. A listing keeps only what belongs to the round.
3. Fetched records are compared batch by batch, with all of their header but the CRC where that
   covers a value that differs by right.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from crc32c import crc32c

from compat.differential.names import Names
from ottla.wire.batch import HEADER, HEADER_SIZE, BatchHeader
from ottla.wire.message import Message, Part
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchResponse
from ottla.wire.messages.list_groups import ListGroupsResponse
from ottla.wire.messages.list_transactions import ListTransactionsResponse
from testkit.batches import now_ms

M = TypeVar("M", bound=Message)
Plain = Any
"""Dicts, lists and scalars."""

MASKED = {
    "throttle_time_ms",
    "error_message",
    "batch_index_error_message",
    "port",
    "host",
    "last_timestamp",
    "node_endpoints",
}
RECENT_MS = 300_000
"""Times that are not older than this were set by the broker: steps send older ones."""
SIGN_ONLY = {"log_append_time_ms", "transaction_start_time_ms"}
SORTED: dict[str, Callable[[Plain], Any]] = {
    "active_producers": lambda item: item["producer_id"],
    "members": lambda item: (item["member_id"], repr(item)),
    "aborted_transactions": lambda item: (item["first_offset"], item["producer_id"]),
    "transaction_states": lambda item: item["transactional_id"],
    "groups": lambda item: item["group_id"],
    "record_errors": lambda item: item["batch_index"],
    "topic_partitions": lambda item: str(item["topic_id"]),
    "partitions": lambda item: item.get("partition_index", item.get("partition")),
    "partition_responses": lambda item: item["index"],
    "results_by_partition": lambda item: item["partition_index"],
    "results_by_topic_v3_and_below": lambda item: item["name"],
    "topic_results": lambda item: item["name"],
    "topics": lambda item: (item.get("name", item.get("topic")), str(item.get("topic_id"))),
    "DeleteTopicsResponse.responses": lambda item: str(item["name"]),
    "ProduceResponse.responses": lambda item: (item["name"], str(item["topic_id"])),
}
"""By a field's name, or by that and the name of its owner."""
SORTED_NUMBERS = {"partitions", "partition_indexes", "subscribed_topic_names"}


def of_the_round(reply: M, prefix: str) -> M:
    """A listing without what other rounds left."""
    if isinstance(reply, ListGroupsResponse):
        reply.groups = [found for found in reply.groups if found.group_id.startswith(prefix)]
        reply.groups.sort(key=lambda found: found.group_id)
    if isinstance(reply, ListTransactionsResponse):
        reply.transaction_states = [
            found for found in reply.transaction_states if found.transactional_id.startswith(prefix)
        ]
        reply.transaction_states.sort(key=lambda found: found.transactional_id)
    return reply


def plain(reply: Message, names: Names, step: int) -> Plain:
    """A canonical reply as plain values."""
    return _of_part(reply, names, step)


def _of_part(part: Part, names: Names, step: int) -> Plain:
    shown = {}
    if isinstance(part, FetchResponse):
        _by_partition(part)
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if name in MASKED:
            continue
        if name in SIGN_ONLY:
            value = (value > 0) - (value < 0)
        elif name == "timestamp" and value > now_ms() - RECENT_MS:
            value = "now"
        elif name == "records":
            value = None if value is None else _batches(value, names, step)
        else:
            value = _of_value(f"{type(part).__name__}.{name}", value, names, step)
        shown[name] = value
    return shown


def _by_partition(reply: FetchResponse) -> None:
    """Bring the partitions of a Fetch in an order that does not depend on the reply's."""
    single = [
        FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[part])
        for topic in reply.responses
        for part in topic.partitions
    ]
    reply.responses = sorted(
        single, key=lambda one: (one.topic, one.topic_id.int, one.partitions[0].partition_index)
    )


def _of_value(name: str, value: Any, names: Names, step: int) -> Plain:
    if isinstance(value, Part):
        return _of_part(value, names, step)
    if isinstance(value, bytes):
        return value.hex()
    if not isinstance(value, list):
        return value
    items = [_of_value(name, item, names, step) for item in value]
    if all(isinstance(item, dict) for item in items):
        key = SORTED.get(name) or SORTED.get(name.partition(".")[2])
        return sorted(items, key=key) if key is not None else items
    return sorted(items) if name.partition(".")[2] in SORTED_NUMBERS else items


def _batches(data: bytes, names: Names, step: int) -> Plain:
    """Each whole batch as a dict, and how many bytes of one that is cut off follow."""
    found: list[Plain] = []
    at = 0
    while at + HEADER_SIZE <= len(data):
        header = BatchHeader._make(HEADER.unpack_from(data, at))
        if at + header.size > len(data) or header.size < HEADER_SIZE:
            break
        found.append(_batch(header, data[at : at + header.size], names, step))
        at += header.size
    return {"batches": found, "incomplete": len(data) > at}


def _batch(header: BatchHeader, data: bytes, names: Names, step: int) -> Plain:
    fields = header._asdict()
    fields["producer_id"] = names.producer(header.producer_id, step)
    if header.is_control:
        # Its time is the broker's; its record ends with the epoch of the coordinator.
        fields |= {"base_timestamp": 0, "max_timestamp": 0}
        body = data[HEADER_SIZE:-5]
    else:
        body = data[HEADER_SIZE:]
    if header.producer_id >= 0:
        fields["crc"] = 0
    if header.is_log_append_time:
        fields |= {"max_timestamp": 0, "crc": 0}
    return fields | {"records": f"{len(body)} bytes, crc {crc32c(body):08x}"}


def differences(ottla: Plain, kafka: Plain, at: str = "") -> list[tuple[str, Plain, Plain]]:
    """Where two plain values differ: path, Ottla's, Kafka's."""
    if isinstance(ottla, dict) and isinstance(kafka, dict) and ottla.keys() == kafka.keys():
        return [
            found
            for name in kafka
            for found in differences(ottla[name], kafka[name], f"{at}.{name}" if at else name)
        ]
    if isinstance(ottla, list) and isinstance(kafka, list) and len(ottla) == len(kafka):
        return [
            found
            for number, (left, right) in enumerate(zip(ottla, kafka, strict=True))
            for found in differences(left, right, f"{at}[{number}]")
        ]
    return [] if ottla == kafka else [(at, ottla, kafka)]
