"""What both families of groups share: offsets, listings and removals of groups."""

from random import Random
from uuid import UUID

from compat.differential.logs import MISSING, no_such_id
from compat.differential.steps import Draft, Step, named
from ottla.wire.message import Message
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.create_topics import CreateTopicsResponse
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

GROUPS = [named("g1"), named("g2")]
NO_GROUP = named("nogroup")
TOPICS = {named("t1"): 4, named("t2"): 3}
IDS_FROM = 10
"""OffsetCommit and OffsetFetch name topics by id from this version on."""
STATES = ["Empty", "Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Dead", "No"]
TYPES = ["classic", "consumer", "share", "nonsense"]


class Offsets:
    """Draws requests about a group's offsets and about groups as a whole."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.ids: dict[str, UUID] = {}

    def learn(self, _: Step, reply: Message) -> None:
        """Take notice of a reply."""
        if isinstance(reply, CreateTopicsResponse):
            self.ids |= {topic.name: topic.topic_id for topic in reply.topics}

    def group(self) -> str:
        """A group; seldom one that does not exist."""
        return NO_GROUP if self.chance.random() < 0.03 else self.chance.choice(GROUPS)

    def place(self) -> tuple[str, int]:
        """A partition; seldom one that does not exist."""
        if self.chance.random() < 0.04:
            return MISSING, 0
        name = self.chance.choice(list(TOPICS))
        return name, self.chance.randrange(TOPICS[name] + (self.chance.random() < 0.05))

    def _id(self, name: str, version: int) -> UUID:
        if version < IDS_FROM:
            return OffsetCommitRequestTopic().topic_id
        return self.ids.get(name, no_such_id(name))

    def commit(self, group: str, member: str, epoch: int, instance: str | None) -> Draft:
        """Commit offsets as some member."""
        version = self.chance.choice([2, 5, 8, 9, 9, 9, 10, 10])
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for name, partition in sorted({self.place() for _ in range(self.chance.randint(1, 3))}):
            topic = OffsetCommitRequestTopic(name=name, topic_id=self._id(name, version))
            topics.setdefault(name, topic).partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=self.chance.choice([0, 5, 100, -1]),
                    committed_leader_epoch=self.chance.choice([-1, 0, 3]),
                    committed_metadata=self.chance.choice(["", "note", None, "x" * 5_000]),
                )
            )
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=epoch,
            member_id=member,
            group_instance_id=instance if version >= 7 else None,
            topics=list(topics.values()),
        )
        return Draft(request, version)

    def fetch(self, member: str = "", epoch: int = -1) -> Draft:
        """Ask for committed offsets."""
        version = self.chance.randint(1, 10)
        stable = version >= 7 and self.chance.random() < 0.5
        group = self.group()
        wanted = sorted({self.place() for _ in range(3)})
        everything = version >= 2 and self.chance.random() < 0.3
        if version < 8:
            plain = [
                OffsetFetchRequestTopic(name=name, partition_indexes=[partition])
                for name, partition in dict(wanted).items()
            ]
            request = OffsetFetchRequest(
                group_id=group, topics=None if everything else plain, require_stable=stable
            )
            return Draft(request, version)
        topics = [
            OffsetFetchRequestTopics(
                name=name, topic_id=self._id(name, version), partition_indexes=[partition]
            )
            for name, partition in dict(wanted).items()
        ]
        asked = OffsetFetchRequestGroup(group_id=group, topics=None if everything else topics)
        if version >= 9 and self.chance.random() < 0.5:
            asked.member_id, asked.member_epoch = member, epoch
        return Draft(OffsetFetchRequest(groups=[asked], require_stable=stable), version)

    def delete_offsets(self) -> Draft:
        """Delete committed offsets."""
        name, partition = self.place()
        parts = [OffsetDeleteRequestPartition(partition_index=partition)]
        topic = OffsetDeleteRequestTopic(name=name, partitions=parts)
        return Draft(OffsetDeleteRequest(group_id=self.group(), topics=[topic]), 0)

    def look(self) -> Draft:
        """Describe or list groups."""
        way = self.chance.randrange(4)
        if way == 0:
            request = DescribeGroupsRequest(groups=[self.group()])
            return Draft(request, self.chance.randint(0, 6))
        if way == 1:
            return Draft(ConsumerGroupDescribeRequest(group_ids=[self.group()]), 1)
        version = self.chance.randint(0, 5)
        listing = ListGroupsRequest()
        if version >= 4 and self.chance.random() < 0.5:
            listing.states_filter = self.chance.sample(STATES, 2)
        if version >= 5 and self.chance.random() < 0.5:
            listing.types_filter = self.chance.sample(TYPES, 2)
        return Draft(listing, version)

    def delete_group(self) -> Draft:
        """Delete a group."""
        return Draft(DeleteGroupsRequest(groups_names=[self.group()]), self.chance.randint(0, 2))
