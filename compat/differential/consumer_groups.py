"""Groups of the new protocol (KIP-848): members that beat with the right and the wrong epoch.

What members own is what the last replies gave them, reported at once, late or not at all.
"""

from dataclasses import dataclass, field
from random import Random

from compat.differential.groups import TOPICS, Offsets
from compat.differential.logs import MISSING, create
from compat.differential.steps import Draft, Step, named
from ottla.wire.message import Message
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest

REBALANCE_MS = 60_000
ASSIGNORS = [None, None, "uniform", "range", "nonsense"]
REGEX = "[broken"


@dataclass
class Member:
    """What a member knows of itself."""

    group: str
    id: str
    instance: str | None = None
    epoch: int = 0
    owned: list[TopicPartitions] = field(default_factory=list)


class ConsumerGroups:
    """Draws the heartbeats of a few members of two groups."""

    def __init__(self, chance: Random, now: int) -> None:
        self.chance = chance
        self.offsets = Offsets(chance)
        self.members: list[Member] = []
        self._joined = 0

    def opening(self) -> list[Draft]:
        """Topics to consume."""
        return [create(name.partition(".")[2], count) for name, count in TOPICS.items()]

    def draw(self) -> Draft:
        """The next step."""
        dice = self.chance.random()
        if dice < 0.12 or not self.members:
            return self._join()
        if dice < 0.60:
            return self._beat()
        if dice < 0.66:
            return self._leave()
        if dice < 0.76:
            member = self.chance.choice(self.members)
            epoch = member.epoch + self.chance.choice([0, 0, 0, 0, 1, -1])
            return self.offsets.commit(member.group, member.id, epoch, member.instance)
        if dice < 0.83:
            member = self.chance.choice(self.members)
            return self.offsets.fetch(member.id, member.epoch + self.chance.choice([0, 0, 1]))
        if dice < 0.93:
            return self.offsets.look()
        if dice < 0.96:
            return self.offsets.delete_offsets()
        return self.offsets.delete_group()

    def learn(self, step: Step, reply: Message) -> None:
        """Take notice of a reply."""
        self.offsets.learn(step, reply)
        request = step.request
        if not isinstance(reply, ConsumerGroupHeartbeatResponse) or reply.error_code:
            return
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        member_id = reply.member_id or request.member_id
        found = next((member for member in self.members if member.id == member_id), None)
        if found is None:
            found = Member(request.group_id, member_id, request.instance_id)
            self.members.append(found)
        if reply.member_epoch < 0:
            self.members.remove(found)
            return
        found.epoch = reply.member_epoch
        if reply.assignment is not None:
            found.owned = reply.assignment.topic_partitions

    def closing(self) -> list[Draft]:
        """Leave, and delete topics."""
        leaves = [
            Draft(
                ConsumerGroupHeartbeatRequest(
                    group_id=member.group,
                    member_id=member.id,
                    member_epoch=-1,
                    instance_id=member.instance,
                ),
                1,
            )
            for member in self.members
        ]
        topics = DeleteTopicsRequest(topic_names=list(TOPICS), timeout_ms=10_000)
        return [*leaves, Draft(topics, 5)]

    def _topics(self) -> list[str]:
        wanted = self.chance.sample(list(TOPICS), self.chance.randint(1, len(TOPICS)))
        return sorted([*wanted, MISSING] if self.chance.random() < 0.05 else wanted)

    def _join(self) -> Draft:
        version = self.chance.choice([0, 1, 1, 1])
        self._joined += 1
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.offsets.group(),
            member_id="" if version == 0 else named(f"m{self._joined}"),
            member_epoch=0,
            instance_id=self.chance.choice([None, None, None, "i1", "i2"]),
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=self._topics(),
            server_assignor=self.chance.choice(ASSIGNORS) if self.chance.random() < 0.2 else None,
            topic_partitions=[],
        )
        self._spoil(request, version)
        return Draft(request, version)

    def _spoil(self, request: ConsumerGroupHeartbeatRequest, version: int) -> None:
        dice = self.chance.random()
        if dice < 0.01:
            request.group_id = ""
        elif dice < 0.02:
            request.rebalance_timeout_ms = self.chance.choice([-1, 0])
        elif dice < 0.03:
            request.subscribed_topic_names = None
        elif dice < 0.04:
            request.topic_partitions = None
        elif dice < 0.05 and version >= 1:
            request.subscribed_topic_regex = REGEX
        elif dice < 0.06:
            request.instance_id = ""
        elif dice < 0.07:
            request.member_id = ""

    def _beat(self) -> Draft:
        member = self.chance.choice(self.members)
        request = ConsumerGroupHeartbeatRequest(
            group_id=member.group, member_id=member.id, member_epoch=member.epoch
        )
        dice = self.chance.random()
        if dice < 0.55:
            request.topic_partitions = member.owned
        elif dice < 0.65:
            request.subscribed_topic_names = self._topics()
        elif dice < 0.68:
            request.member_epoch += self.chance.choice([-1, 1, 5, -7])
        elif dice < 0.70:
            request.member_id = named("nobody")
        elif dice < 0.72:
            request.group_id = self.offsets.group()
        elif dice < 0.75:
            request.member_epoch = 0
            request.rebalance_timeout_ms = REBALANCE_MS
            request.subscribed_topic_names = self._topics()
            request.topic_partitions = []
        elif dice < 0.77:
            request.topic_partitions = []
        elif dice < 0.78:
            request.server_assignor = "range"
        if request.member_epoch == 0 or self.chance.random() < 0.1:
            request.instance_id = member.instance
        return Draft(request, 1)

    def _leave(self) -> Draft:
        member = self.chance.choice(self.members)
        request = ConsumerGroupHeartbeatRequest(
            group_id=member.group,
            member_id=member.id,
            member_epoch=self.chance.choice([-1, -1, -2]),
            instance_id=member.instance,
        )
        return Draft(request, 1)
