"""A partition with a second replica, in a broker that is alone."""

from ottla.broker.replicas.partition import Partition
from ottla.embedded import Broker
from ottla.metadata.image import PartitionImage
from ottla.replication.replicas import Leadership
from tests.server.inside import on_loop, running

SOMEBODY_ELSE = 99


def shared(broker: Broker, topic: str, *, committed: int | None = None) -> Partition:
    """A partition with a second replica in sync that never asks for anything.

    So much of it is known as committed: all, where nothing is said.
    """
    node = running(broker).server.node

    def share() -> Partition:
        partition = node.partitions.find(topic, 0)
        now = node.image.partitions[topic, 0]
        state = PartitionImage(
            topic,
            0,
            now.topic_id,
            node.id,
            now.leader_epoch,
            [node.id, SOMEBODY_ELSE],
            now.partition_epoch,
            now.version,
            [node.state.epoch, 1],
        )
        partition.get_replicas(
            Leadership(
                node.id,
                state,
                [node.id, SOMEBODY_ELSE],
                log_end=partition.log.end_offset,
                high_watermark=partition.high_watermark if committed is None else committed,
                min_isr=1,
                lag=1000.0,
                now=node.replica_manager.now(),
            )
        )
        return partition

    return on_loop(broker, share)
