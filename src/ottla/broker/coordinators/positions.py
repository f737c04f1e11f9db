"""What the groups of this broker have committed, and where those partitions end.

A coordinator knows its groups' offsets; a partition's end is known to its leader, which may be
another broker. It is asked, and where it does not answer in time, the lag is left out, not guessed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from ottla.broker.coordinators.group_coordinator import GroupCoordinator
from ottla.broker.metrics.group_lag import CommittedPosition, GroupPositions, TopicPartition
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.replication.link import LinkError
from ottla.broker.replication.peers import Peers
from ottla.metadata.image import Image
from ottla.wire.errors import KafkaError
from ottla.wire.message import NO_UUID
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

MOST_POSITIONS: Final = 5_000
"""Rows of groups in one scrape; the rest is counted as left out."""
SECONDS_FOR_A_PEER: Final = 2.0
LATEST: Final = -1
VERSION: Final = 7


async def group_positions(
    groups: GroupCoordinator, broker_id: int, image: Image, partitions: Partitions, peers: Peers
) -> GroupPositions:
    """Look at all groups that this broker coordinates, and at the ends of what they read."""
    found = GroupPositions()
    for runner in groups:
        try:
            its_groups = runner.shard.positions()
        except KafkaError:
            continue  # it is being loaded, or another broker coordinates it by now
        for group, members, committed in its_groups:
            if len(found.members) >= MOST_POSITIONS:
                found.left_out += 1
                continue
            found.members[group] = members
            for (topic, partition), at in committed.items():
                known = image.topics.get(topic)
                if known is None or at.topic_id not in (NO_UUID, known.id):
                    continue  # of a topic that is gone
                if len(found.positions) < MOST_POSITIONS:
                    found.positions.append(CommittedPosition(group, topic, partition, at.offset))
                else:
                    found.left_out += 1
        await asyncio.sleep(0)
    keys = dict.fromkeys((each.topic, each.partition) for each in found.positions)
    found.ends |= await ends_of(keys, broker_id, image, partitions, peers)
    return found


async def ends_of(
    keys: Iterable[TopicPartition],
    broker_id: int,
    image: Image,
    partitions: Partitions,
    peers: Peers,
) -> dict[TopicPartition, int]:
    """Where partitions end, of those whose leader answers in time."""
    found: dict[TopicPartition, int] = {}
    elsewhere: dict[int, dict[str, list[int]]] = {}
    for key in keys:
        replica = partitions.get(*key)
        if replica is not None and replica.leads:
            found[key] = replica.high_watermark
            continue
        state = image.partitions.get(key)
        if state is not None and state.leader in image.brokers and state.leader != broker_id:
            elsewhere.setdefault(state.leader, {}).setdefault(key[0], []).append(key[1])
    asked = (_ask(peers, leader, topics) for leader, topics in elsewhere.items())
    for ends in await asyncio.gather(*asked):
        found |= ends
    return found


async def _ask(
    peers: Peers, leader: int, topics: dict[str, list[int]]
) -> dict[TopicPartition, int]:
    request = ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsPartition(partition_index=index, timestamp=LATEST)
                    for index in indexes
                ],
            )
            for name, indexes in topics.items()
        ],
    )
    try:
        answer = await peers.ask(leader, request, ListOffsetsResponse, VERSION, SECONDS_FOR_A_PEER)
    except LinkError:
        return {}
    return {
        (topic.name, each.partition_index): each.offset
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code
    }
