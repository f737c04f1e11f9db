"""What the groups of this broker have committed, and where those partitions end.

A coordinator knows its groups' offsets; a partition's end is known to its leader, which may be
another broker. It is asked, and where it does not answer in time, the lag is left out, not guessed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ottla.broker.metrics.group_lag import Position, TopicPartition
from ottla.broker.replication.link import LinkError
from ottla.wire.errors import KafkaError
from ottla.wire.message import NO_UUID
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from ottla.broker.node import Node

MOST_POSITIONS: Final = 5_000
"""Rows of groups in one scrape; the rest is counted as left out."""
SECONDS_FOR_A_PEER: Final = 2.0
LATEST: Final = -1
VERSION: Final = 7


@dataclass
class Gathered:
    """The groups that this broker coordinates."""

    members: dict[str, int] = field(default_factory=dict)
    positions: list[Position] = field(default_factory=list)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    left_out: int = 0


async def gather(node: Node) -> Gathered:
    """Look at all groups, and at the ends of what they read."""
    found = Gathered()
    for runner in node.groups:
        try:
            groups = runner.shard.positions()
        except KafkaError:
            continue  # it is being loaded, or another broker coordinates it by now
        for group, members, committed in groups:
            if len(found.members) >= MOST_POSITIONS:
                found.left_out += 1
                continue
            found.members[group] = members
            for (topic, partition), at in committed.items():
                image = node.image.topics.get(topic)
                if image is None or at.topic_id not in (NO_UUID, image.id):
                    continue  # of a topic that is gone
                if len(found.positions) < MOST_POSITIONS:
                    found.positions.append(Position(group, topic, partition, at.offset))
                else:
                    found.left_out += 1
        await asyncio.sleep(0)
    await _find_ends(node, found)
    return found


async def _find_ends(node: Node, found: Gathered) -> None:
    elsewhere: dict[int, dict[str, list[int]]] = {}
    for key in dict.fromkeys((each.topic, each.partition) for each in found.positions):
        partition = node.partitions.get(*key)
        if partition is not None and partition.leads:
            found.ends[key] = partition.high_watermark
            continue
        state = node.image.partitions.get(key)
        if state is not None and state.leader in node.image.brokers and state.leader != node.id:
            elsewhere.setdefault(state.leader, {}).setdefault(key[0], []).append(key[1])
    asked = (_ask(node, leader, topics) for leader, topics in elsewhere.items())
    for ends in await asyncio.gather(*asked):
        found.ends |= ends


async def _ask(node: Node, leader: int, topics: dict[str, list[int]]) -> dict[TopicPartition, int]:
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
        answer = await node.peers.ask(
            leader, request, ListOffsetsResponse, VERSION, SECONDS_FOR_A_PEER
        )
    except LinkError:
        return {}
    return {
        (topic.name, each.partition_index): each.offset
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code
    }
