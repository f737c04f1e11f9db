"""Offsets of partitions as JSON, in the shape of Spark's Kafka source (pure).

Rules kept here:
1. `{"events": {"0": 23}}`: the next offset of each partition. Spark compares offsets as text, so
   topics and partitions are always in the same order.
2. The first micro-batch of a query must begin where it began at first, even when it is run again
   after a crash: Spark does not keep that place, so it is written into the batch's end under
   PINNED, a name that no topic can have.
3. JSON from an option must be of exactly the expected shape; the error names the option.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ottla.client import TopicPartition
from pyspark_ottla.errors import OptionError
from pyspark_ottla.options import LARGEST

Offsets = dict[TopicPartition, int]

PARTITION = re.compile("[0-9]{1,10}")
PINNED = "@start"


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, Any]:
    """Offsets as Spark keeps them."""
    by_topic: dict[str, Any] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        by_topic.setdefault(topic, {})[str(partition)] = offset
    return by_topic


def from_json(kept: Mapping[str, Any]) -> Offsets:
    """What to_json() or with_pinned_start() made."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in kept.items()
        if topic != PINNED
        for partition, offset in partitions.items()
    }


def with_pinned_start(
    end: Mapping[TopicPartition, int], start: Mapping[TopicPartition, int]
) -> dict[str, Any]:
    """The end of a first micro-batch, with its start."""
    return {PINNED: to_json(start), **to_json(end)}


def pinned_start(end: Mapping[str, Any]) -> Offsets | None:
    """Where the micro-batch that ends here began, if it was a query's first."""
    return from_json(end[PINNED]) if PINNED in end else None


def parse_offsets(name: str, text: str) -> Offsets:
    """The value of an option like startingOffsets: {"events":{"0":23}}."""
    expected = 'offsets by topic and partition, as in {"events":{"0":23}}'
    found: Offsets = {}
    for topic, partitions in _object(name, text, expected).items():
        if not isinstance(partitions, dict):
            raise _wrong(name, text, expected)
        for partition, offset in partitions.items():
            if not PARTITION.fullmatch(partition) or type(offset) is not int or offset > LARGEST:
                raise _wrong(name, text, expected)
            found[TopicPartition(topic, int(partition))] = offset
    return found


def parse_partitions(name: str, text: str) -> list[TopicPartition]:
    """The value of the option assign: {"events":[0,1]}."""
    expected = 'partitions by topic, as in {"events":[0,1]}'
    found: list[TopicPartition] = []
    for topic, partitions in _object(name, text, expected).items():
        if not isinstance(partitions, list):
            raise _wrong(name, text, expected)
        for partition in partitions:
            if type(partition) is not int or partition < 0:
                raise _wrong(name, text, expected)
            found.append(TopicPartition(topic, partition))
    if not found:
        raise _wrong(name, text, expected)
    return sorted(set(found))


def in_words(partitions: Iterable[TopicPartition]) -> str:
    """Partitions for an error's text."""
    return ", ".join(f"{topic}-{partition}" for topic, partition in sorted(partitions)) or "none"


def _object(name: str, text: str, expected: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise _wrong(name, text, expected) from None
    if not isinstance(value, dict) or not value:
        raise _wrong(name, text, expected)
    return value


def _wrong(name: str, text: str, expected: str) -> OptionError:
    return OptionError(f"option {name} is {text!r}, but must be {expected}")
