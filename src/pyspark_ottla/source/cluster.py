"""What the cluster has of that which a source is to read: its partitions and their offsets.

Rules kept here:
1. The cluster is asked each time: partitions and topics come and go while a stream runs. What a
   query has read of and is missing is asked for again before it is called lost: brokers learn of a
   new topic or partition one after another.
2. With read_committed a log ends at its last stable offset: what lies after it is not decided.
3. A topic that was named and does not exist is an error, never nothing.
4. A pattern finds no internal topic (`__consumer_offsets`), as in Spark's Kafka source: one that
   fits every name would read what the broker notes of the reading. Nor does it find what this
   package writes beside the rows: a stream with audit=true would feed itself.
"""

import logging
import re
from collections.abc import Callable, Collection, Iterable
from time import monotonic
from typing import NamedTuple
from uuid import UUID

from ottla.audit.events import AUDIT_TOPIC
from ottla.client import Admin, Client, TopicPartition
from ottla.client.admin import EARLIEST, LATEST
from ottla.client.cluster import UNKNOWN_TOPIC_WAIT, UnknownTopic
from ottla.client.errors import check
from ottla.client.pipeline_reports import PIPELINES_TOPIC
from ottla.wire.errors import ErrorCode, KafkaError
from pyspark_ottla.errors import DataLossError, OptionError
from pyspark_ottla.sink.marker import MARKER_TOPIC
from pyspark_ottla.source.loss import HINT, Bounds
from pyspark_ottla.source.offsets import NOTHING, Offsets, Position, in_words, known_ids
from pyspark_ottla.source.settings import NoMatch, OffsetBound, SourceSettings

OWN_TOPICS = frozenset({AUDIT_TOPIC, MARKER_TOPIC, PIPELINES_TOPIC})

_log = logging.getLogger("pyspark_ottla")


class Existing(NamedTuple):
    """What there is to read."""

    partitions: list[TopicPartition]
    ids: dict[str, UUID]
    """The ids of their topics, as far as the brokers have them."""


class SourceCluster:
    """A cluster as one source sees it."""

    def __init__(self, client: Client, settings: SourceSettings) -> None:
        self._client = client
        self._admin = Admin(client)
        self._settings = settings

    def wanted(self) -> Existing:
        """All that the source is to read; each topic or partition that was named must exist."""
        wanted = self._settings.subscription
        if wanted.pattern is not None:
            return self._matching(wanted.pattern)
        topics = sorted({*wanted.topics, *(topic for topic, _ in wanted.partitions)})
        option = "assign" if wanted.partitions else "subscribe"
        try:
            described = self._admin.describe_topics(topics)
        except UnknownTopic as problem:
            raise OptionError(f"option {option}: {problem}") from None
        except KafkaError as problem:
            if problem.code is not ErrorCode.INVALID_TOPIC_EXCEPTION:
                raise
            raise OptionError(f"option {option}: invalid topic name: {problem}") from None
        ids = known_ids((topic.name, topic.id) for topic in described)
        found = {
            TopicPartition(topic.name, item.partition)
            for topic in described
            for item in topic.partitions
        }
        if not wanted.partitions:
            return Existing(sorted(found), ids)
        missing = set(wanted.partitions) - found
        if missing:
            raise OptionError(f"option assign: {in_words(missing)} does not exist")
        return Existing(list(wanted.partitions), ids)

    def existing(self, known: Position = NOTHING) -> Existing:
        """What exists just now of all that the source is to read, for a stream that outlives a
        topic. What is `known` did exist once.
        """
        give_up = monotonic() + UNKNOWN_TOPIC_WAIT
        while True:
            found = self._client.retry(self._found())
            is_all_there = known.offsets.keys() <= set(found.partitions)
            if (is_all_there and not known.recreated(found.ids)) or monotonic() > give_up:
                return found
            self._client.pause(self._client.settings.backoff)

    def _found(self) -> Callable[[], Existing]:
        """A question for what exists, which may have to be asked again."""
        wanted = self._settings.subscription
        pattern = wanted.pattern
        if pattern is not None:
            return lambda: self._matching(pattern)
        topics = sorted({*wanted.topics, *(topic for topic, _ in wanted.partitions)})
        assigned = set(wanted.partitions)

        def attempt() -> Existing:
            found, ids = [], []
            for topic in self._client.metadata(topics).topics:
                if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    self._client.forget(topic.name or "")
                    continue
                check(topic.error_code, None, f"topic {topic.name}")
                ids.append((topic.name or "", topic.topic_id))
                found += [
                    TopicPartition(topic.name or "", item.partition_index)
                    for item in topic.partitions
                ]
            read = [item for item in sorted(found) if not assigned or item in assigned]
            return Existing(read, known_ids(ids))

        return attempt

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Where logs start."""
        return self._offsets(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Where logs end."""
        return self._offsets(dict.fromkeys(partitions, LATEST))

    def undecided_ends(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Where logs end with open transactions, whatever is read of them."""
        return self._offsets(dict.fromkeys(partitions, LATEST), read_committed=False)

    def bounds(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """Where logs start and end."""
        # The start first: it may move up to the end that is asked for after it, not past it.
        first = self.earliest(partitions)
        return {
            partition: Bounds(first[partition], end)
            for partition, end in self.latest(partitions).items()
        }

    def resolve(self, place: OffsetBound, partitions: Collection[TopicPartition]) -> Offsets:
        """The offsets of a place in each of the partitions."""
        if place.everywhere is not None:
            return self._offsets(dict.fromkeys(partitions, place.everywhere))
        if place.offsets is not None:
            _check_all_named(place.option, place.offsets, partitions)
            moving = {
                partition: offset
                for partition, offset in place.offsets.items()
                if offset in (EARLIEST, LATEST)
            }
            return place.offsets | self._offsets(moving)
        if place.timestamps is not None:
            _check_all_named(place.option, place.timestamps, partitions)
            return self._at_times(place, place.timestamps)
        assert place.timestamp is not None
        return self._at_times(place, dict.fromkeys(partitions, place.timestamp))

    def report(self, losses: list[str]) -> None:
        """Raise what was lost, or warn of it."""
        if losses and self._settings.fail_on_data_loss:
            raise DataLossError(f"{'; '.join(losses)} ({HINT})")
        for loss in losses:
            _log.warning("%s", loss)

    def _matching(self, pattern: str) -> Existing:
        fits = re.compile(pattern).fullmatch
        topics = [
            topic
            for topic in self._admin.list_topics()
            if fits(topic.name) and not topic.internal and topic.name not in OWN_TOPICS
        ]
        return Existing(
            [
                TopicPartition(topic.name, item.partition)
                for topic in topics
                for item in topic.partitions
            ],
            known_ids((topic.name, topic.id) for topic in topics),
        )

    def _offsets(
        self, specs: dict[TopicPartition, int], *, read_committed: bool | None = None
    ) -> Offsets:
        if not specs:
            return {}
        if read_committed is None:
            read_committed = self._settings.read_committed
        found = self._admin.list_offsets(specs, read_committed=read_committed)
        return {partition: found[partition].offset for partition in specs}

    def _at_times(self, place: OffsetBound, times: Offsets) -> Offsets:
        found = self._offsets(times)
        late = [partition for partition, offset in found.items() if offset < 0]
        if late and place.no_match is NoMatch.ERROR:
            raise OptionError(
                f"option {place.option}: {in_words(late)} has no record at or after "
                f"{', '.join(sorted({str(times[partition]) for partition in late}))} (set "
                "startingOffsetsByTimestampStrategy to latest to start at the end there)"
            )
        return found | self.latest(late)


def _check_all_named(option: str, named: Offsets, partitions: Collection[TopicPartition]) -> None:
    missing = set(partitions) - named.keys()
    if missing:
        raise OptionError(
            f"option {option} must name every partition: {in_words(missing)} is missing"
        )
    unknown = named.keys() - set(partitions)
    if unknown:
        raise OptionError(f"option {option} names {in_words(unknown)}, which is not read here")
