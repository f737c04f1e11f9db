"""Offsets of partitions as JSON, in the shape of Spark's Kafka source (pure).

Rules kept here:
1. `{"events": {"0": 23}}`: the next offset of each partition. Spark compares offsets as text, so
   topics and partitions are always in the same order.
2. The first micro-batch of a query must begin where it began at first, even when it is run again
   after a crash: Spark does not keep that place, so it is written into the batch's end under
   PINNED, a name that no topic can have.
3. A topic's name is not its identity: offsets carry the topic's id, under IDS. An offset of a topic
   that was deleted and created again says nothing about the new one. Offsets without ids (of an
   older Ottla, or of a broker that has none) are believed by the name.
4. JSON from an option must be of exactly the expected shape; the error names the option.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from ottla.client import TopicPartition
from ottla.client.cluster import NO_TOPIC_ID
from pyspark_ottla.errors import OptionError
from pyspark_ottla.options import LARGEST

Offsets = dict[TopicPartition, int]

PARTITION = re.compile("[0-9]{1,10}")
PINNED = "@start"
IDS = "@ids"


class Position(NamedTuple):
    """How far partitions were read, and of which topics."""

    offsets: Offsets
    """The next offset of each partition."""
    ids: dict[str, UUID]
    """The ids of their topics, as far as they are known."""

    def recreated(self, now: Mapping[str, UUID]) -> set[str]:
        """The topics that have another id in `now`."""
        return {topic for topic, known in self.ids.items() if now.get(topic, known) != known}


NOTHING = Position({}, {})

"""Nothing is known yet."""


def known_ids(ids: Iterable[tuple[str, UUID]]) -> dict[str, UUID]:
    """The ids of topics; a broker that is too old for them says nothing."""
    return {topic: found for topic, found in ids if found != NO_TOPIC_ID}


def to_json(offsets: Mapping[TopicPartition, int], ids: Mapping[str, UUID]) -> dict[str, Any]:
    """Offsets as Spark keeps them."""
    by_topic: dict[str, Any] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        by_topic.setdefault(topic, {})[str(partition)] = offset
    of_topics = {topic: str(ids[topic]) for topic in by_topic if topic in ids}
    return {IDS: of_topics, **by_topic} if of_topics else by_topic


def from_json(kept: Mapping[str, Any]) -> Position:
    """What to_json() or with_pinned_start() made."""
    offsets = {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in kept.items()
        if topic not in (PINNED, IDS)
        for partition, offset in partitions.items()
    }
    return Position(offsets, {topic: UUID(found) for topic, found in kept.get(IDS, {}).items()})


def with_pinned_start(end: Position, start: Position) -> dict[str, Any]:
    """The end of a first micro-batch, with its start."""
    return {PINNED: to_json(*start), **to_json(*end)}


def pinned_start(end: Mapping[str, Any]) -> Position | None:
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
