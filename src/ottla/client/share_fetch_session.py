"""A share session with one leader: fetches, and what is said of the records that they brought.

It belongs to its connection, and ends with it: then the broker gives its records to others.
"""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any
from uuid import UUID

from ottla.client.cluster import TopicPartition
from ottla.client.connection import BrokerConnection
from ottla.client.errors import error
from ottla.share.sessions import FINAL_EPOCH, INITIAL_EPOCH
from ottla.share.states import AcknowledgeType
from ottla.wire.errors import KafkaError
from ottla.wire.messages import share_acknowledge as acknowledging
from ottla.wire.messages import share_fetch as fetching

MOST_BYTES = 8 << 20
MOST_RECORDS = 2_000
Acknowledgements = dict[TopicPartition, dict[int, AcknowledgeType]]
"""What is said of each offset."""


class ShareFetchSession:
    """A share session with a leader."""

    def __init__(self, connection: BrokerConnection, group_id: str, member_id: str) -> None:
        self._connection = connection
        self._group_id = group_id
        self._member_id = member_id
        self.epoch = INITIAL_EPOCH
        self.partitions: dict[TopicPartition, UUID] = {}
        self.waiting: Acknowledgements = {}
        """What was said of records and is not sent yet."""

    def name_of(self, topic_id: UUID, partition: int) -> TopicPartition | None:
        """The partition that a reply is about."""
        for where, known in self.partitions.items():
            if (known, where.partition) == (topic_id, partition):
                return where
        return None

    def fetch(
        self, wanted: Mapping[TopicPartition, UUID], wait_ms: int
    ) -> fetching.ShareFetchResponse:
        """Acknowledge, and get more records."""
        if self.epoch == INITIAL_EPOCH:
            self.waiting.clear()  # of a session that is gone
        waiting, self.waiting = self.waiting, {}
        gone = {where: id_ for where, id_ in self.partitions.items() if where not in wanted}
        self.partitions = {**wanted, **{where: gone[where] for where in gone if where in waiting}}
        parts = [
            (
                topic_id,
                fetching.FetchPartition(
                    partition_index=where.partition,
                    acknowledgement_batches=_batches(
                        fetching.AcknowledgementBatch, waiting.get(where, {})
                    ),
                ),
            )
            for where, topic_id in self.partitions.items()
        ]
        request = fetching.ShareFetchRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=self.epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=MOST_BYTES,
            max_records=MOST_RECORDS,
            batch_size=MOST_RECORDS,
            topics=_by_topic(fetching.FetchTopic, parts),
            forgotten_topics_data=[
                fetching.ForgottenTopic(topic_id=topic_id, partitions=[where.partition])
                for where, topic_id in gone.items()
                if where not in self.partitions
            ],
        )
        reply = self._connection.call(request, fetching.ShareFetchResponse)
        if reply.error_code:
            raise error(reply.error_code, reply.error_message, f"group {self._group_id}")
        self.epoch += 1
        return reply

    def acknowledge(self, epoch: int) -> None:
        """Say what became of records."""
        waiting, self.waiting = self.waiting, {}
        parts = [
            (
                self.partitions[where],
                acknowledging.AcknowledgePartition(
                    partition_index=where.partition,
                    acknowledgement_batches=_batches(acknowledging.AcknowledgementBatch, offsets),
                ),
            )
            for where, offsets in waiting.items()
            if where in self.partitions
        ]
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=epoch,
            topics=_by_topic(acknowledging.AcknowledgeTopic, parts),
        )
        reply = self._connection.call(request, acknowledging.ShareAcknowledgeResponse)
        if reply.error_code:
            raise error(reply.error_code, reply.error_message, f"group {self._group_id}")
        if epoch != FINAL_EPOCH:
            self.epoch += 1

    def end(self) -> None:
        """Send what is left to say, and give back what is not done."""
        if self.epoch != INITIAL_EPOCH:
            try:
                self.acknowledge(FINAL_EPOCH)
            except KafkaError:
                pass  # the end of the connection gives the records back
        self.close()

    def close(self) -> None:
        """Close the connection, and with it the session."""
        self._connection.close()


def _batches(kind: type[Any], offsets: Mapping[int, AcknowledgeType]) -> list[Any]:
    """Acknowledgements as they are sent: neighbours of the same type are one batch."""
    found = []
    ordered = sorted(offsets.items())
    for _, group in groupby(
        enumerate(ordered), key=lambda each: (each[1][0] - each[0], each[1][1])
    ):
        run = [item for _, item in group]
        found.append(
            kind(first_offset=run[0][0], last_offset=run[-1][0], acknowledge_types=[int(run[0][1])])
        )
    return found


def _by_topic(kind: type[Any], parts: Iterable[tuple[UUID, Any]]) -> list[Any]:
    topics: dict[UUID, Any] = {}
    for topic_id, part in parts:
        topics.setdefault(topic_id, kind(topic_id=topic_id)).partitions.append(part)
    return list(topics.values())
