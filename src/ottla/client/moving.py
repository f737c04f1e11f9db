"""Moving replicas to other brokers: what is under way, and beginning it (KIP-455)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.client.cluster import Client, TopicPartition
from ottla.client.errors import check
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


class Moving(NamedTuple):
    """A partition whose replicas move: all that it has now, those that come, those that go."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]


class Replicas:
    """Moves the replicas of a cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def moving(self) -> dict[TopicPartition, Moving]:
        """What moves now."""
        request = ListPartitionReassignmentsRequest(topics=None)

        def attempt() -> ListPartitionReassignmentsResponse:
            answer = self._client.call(request, ListPartitionReassignmentsResponse)
            check(answer.error_code, answer.error_message)
            return answer

        return {
            TopicPartition(topic.name, each.partition_index): Moving(
                each.replicas, each.adding_replicas, each.removing_replicas
            )
            for topic in self._client.retry(attempt).topics
            for each in topic.partitions
        }

    def move(self, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Begin to give partitions these replicas, the preferred leader first.

        The first that is refused is raised; others may have begun.
        """
        topics: dict[str, ReassignableTopic] = {}
        for (name, index), replicas in targets.items():
            topic = topics.setdefault(name, ReassignableTopic(name=name))
            topic.partitions.append(
                ReassignablePartition(partition_index=index, replicas=list(replicas))
            )
        request = AlterPartitionReassignmentsRequest(topics=list(topics.values()))

        def attempt() -> None:
            answer = self._client.call(request, AlterPartitionReassignmentsResponse)
            check(answer.error_code, answer.error_message)
            for topic in answer.responses:
                for each in topic.partitions:
                    about = f"partition {each.partition_index} of topic {topic.name}"
                    check(each.error_code, each.error_message, about)

        self._client.retry(attempt)
