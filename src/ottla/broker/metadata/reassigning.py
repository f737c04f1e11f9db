"""Moving replicas and leaders on request: pure decisions, committed to the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ottla.broker.context.metadata_writer import MetadataWriter
from ottla.metadata import elect_leaders as elections
from ottla.metadata import reassignments
from ottla.metadata.elect_leaders import ElectionType
from ottla.metadata.image import PartitionKey
from ottla.wire.errors import KafkaError

Outcomes = dict[PartitionKey, KafkaError | None]


async def alter_reassignments(
    metadata: MetadataWriter, targets: Mapping[PartitionKey, Sequence[int] | None]
) -> Outcomes:
    """Begin to move replicas, or with None stop moving; for each partition what is wrong."""
    return await metadata.change(lambda image: reassignments.alter_reassignments(image, targets))


async def elect_leaders(
    metadata: MetadataWriter, kind: ElectionType, wanted: Iterable[PartitionKey] | None
) -> Outcomes:
    """Hold elections; for each partition why it gets no new leader, or None."""
    some = None if wanted is None else list(wanted)
    return await metadata.change(lambda image: elections.elect_leaders(image, kind, some))
