"""DeleteRecords, recorded: why a leader's log starts where it does. Pure.

A leader records the offset in the partition's document before its log start moves. A follower
deletes records below its leader's log start only where that, or retention, explains it
(`follower.py`, rule 3).
"""

from collections.abc import Mapping

from ottla.metadata.controller import change_partition, check_topics, topic_of
from ottla.metadata.elections import leads, same_term
from ottla.metadata.image import Image, PartitionKey
from ottla.metadata.store import Op


def record_deletions(
    image: Image, offsets: Mapping[PartitionKey, int], me: int, broker_epoch: int
) -> list[Op]:
    """What a leader commits before it deletes the records below these offsets.

    Partitions that it does not lead, or whose deletion is known, are left out.
    """
    ops: list[Op] = []
    topics = []
    for key, offset in offsets.items():
        partition = image.partitions.get(key)
        if (
            partition is not None
            and topic_of(image, partition) is not None
            and leads(partition, me, broker_epoch)
            and offset > partition.deleted_below
        ):
            topics.append(partition.topic_id)
            ops.append(change_partition(partition, same_term(partition, deleted_below=offset)))
    return [*check_topics(image, topics), *ops] if ops else []
