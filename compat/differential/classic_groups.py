"""Groups of the classic protocol: members that join, sync, beat, leave and commit.

A JoinGroup or SyncGroup may wait for other members, so each has a connection of its own. A member
does not ask twice before it is answered: Kafka 4.3.0 then never answers the first time.
"""

from dataclasses import dataclass
from random import Random

from compat.differential.groups import GROUPS, TOPICS, Offsets
from compat.differential.logs import create
from compat.differential.steps import Draft, Step
from ottla.wire.codec import encode
from ottla.wire.errors import ErrorCode
from ottla.wire.message import Message
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

CONNECTIONS = [f"member{number}" for number in range(5)]
GONE = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
SESSION_MS = 30_000
REBALANCE_MS = 60_000
INSTANCES = [None, None, None, "i1", "i2"]
PROTOCOLS = [["range"], ["range", "roundrobin"], ["roundrobin", "range"], ["roundrobin"]]


@dataclass
class Member:
    """What a member knows of itself."""

    group: str
    id: str
    instance: str | None
    generation: int = -1
    protocol: str | None = None
    leads: bool = False
    others: tuple[str, ...] = ()


class ClassicGroups:
    """Draws the requests of a few members of two groups."""

    def __init__(self, chance: Random, now: int) -> None:
        self.chance = chance
        self.offsets = Offsets(chance)
        self.members: list[Member] = []
        self.busy: dict[str, str] = {}
        """The member that waits on a connection."""

    def opening(self) -> list[Draft]:
        """Topics to commit offsets for."""
        return [create(name.partition(".")[2], count) for name, count in TOPICS.items()]

    def draw(self) -> Draft:
        """The next step."""
        dice = self.chance.random()
        free = [name for name in CONNECTIONS if name not in self.busy]
        if free and dice < 0.30:
            return self._join(self.chance.choice(free))
        if free and dice < 0.52:
            return self._sync(self.chance.choice(free))
        if dice < 0.66:
            return self._heartbeat()
        if dice < 0.72:
            return self._leave()
        if dice < 0.80:
            member = self._someone()
            return self.offsets.commit(member.group, *self._claims(member))
        if dice < 0.86:
            return self.offsets.fetch()
        if dice < 0.95:
            return self.offsets.look()
        if dice < 0.97:
            return self.offsets.delete_offsets()
        return self.offsets.delete_group()

    def learn(self, step: Step, reply: Message) -> None:
        """Take notice of a reply."""
        self.busy.pop(step.connection, None)
        self.offsets.learn(step, reply)
        if isinstance(reply, JoinGroupResponse):
            assert isinstance(step.request, JoinGroupRequest)
            self._learn_join(step.request, reply)
        elif isinstance(reply, HeartbeatResponse) and reply.error_code in GONE:
            assert isinstance(step.request, HeartbeatRequest)
            gone = step.request.member_id
            self.members = [member for member in self.members if member.id != gone]

    def closing(self) -> list[Draft]:
        """Leave, and delete topics."""
        leaves = []
        for member in self.members:
            who = MemberIdentity(member_id=member.id, group_instance_id=member.instance)
            leaves.append(Draft(LeaveGroupRequest(group_id=member.group, members=[who]), 5))
        topics = DeleteTopicsRequest(topic_names=list(TOPICS), timeout_ms=10_000)
        return [*leaves, Draft(topics, 5)]

    def _learn_join(self, request: JoinGroupRequest, reply: JoinGroupResponse) -> None:
        if reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.members.append(
                Member(request.group_id, reply.member_id, request.group_instance_id)
            )
        if reply.error_code:
            return
        self.members = [
            member
            for member in self.members
            if member.id != reply.member_id
            and (member.instance is None or member.instance != request.group_instance_id)
        ]
        member = Member(request.group_id, reply.member_id, request.group_instance_id)
        member.generation = reply.generation_id
        member.protocol = reply.protocol_name
        member.leads = reply.leader == reply.member_id
        member.others = tuple(other.member_id for other in reply.members)
        self.members.append(member)

    def _someone(self) -> Member:
        """A member; seldom one that nobody knows."""
        if not self.members or self.chance.random() < 0.08:
            group = self.chance.choice(GROUPS)
            name = self.chance.choice(["", "nobody"])
            return Member(group, name, self.chance.choice(INSTANCES), self.chance.choice([-1, 1]))
        return self.chance.choice(self.members)

    def _claims(self, member: Member) -> tuple[str, int, str | None]:
        """Id, generation and instance that a member sends; seldom not what they should be."""
        name, generation, instance = member.id, member.generation, member.instance
        dice = self.chance.random()
        if dice < 0.05:
            generation += self.chance.choice([-1, 1])
        elif dice < 0.08:
            instance = self.chance.choice(INSTANCES)
        elif dice < 0.11:
            name = self.chance.choice(["", "nobody"])
        return name, generation, instance

    def _join(self, connection: str) -> Draft:
        version = self.chance.randint(0, 9)
        member = self._someone()
        group, name = member.group, member.id
        instance = member.instance if version >= 5 else None
        if self.chance.random() < 0.45:
            group, name = self.chance.choice(GROUPS), ""
            instance = self.chance.choice(INSTANCES) if version >= 5 else None
        names = self.chance.choice(PROTOCOLS)
        protocols = [
            JoinGroupRequestProtocol(name=each, metadata=self._subscription()) for each in names
        ]
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=name,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=protocols,
        )
        self._spoil_join(request)
        if name and name in self.busy.values():
            return self._heartbeat()
        self.busy[connection] = name
        return Draft(request, version, connection, may_wait=True)

    def _spoil_join(self, request: JoinGroupRequest) -> None:
        # What is refused does not make a group here, but it does in Kafka.
        dice = self.chance.random() if request.member_id else 1.0
        if dice < 0.04:
            request.session_timeout_ms = self.chance.choice([0, 1, 5_999, 1_800_001, -1])
        elif dice < 0.06:
            request.protocol_type = self.chance.choice(["connect", ""])
        elif dice < 0.07:
            request.protocols = []
        elif dice < 0.08:
            request.group_id = ""
        elif dice < 0.12:
            request.protocols = [JoinGroupRequestProtocol(name="other", metadata=b"")]

    def _subscription(self) -> bytes:
        wanted = self.chance.sample(list(TOPICS), self.chance.randint(1, 2))
        message = ConsumerProtocolSubscription(topics=sorted(wanted))
        return b"\0\1" + encode(message, 1)

    def _sync(self, connection: str) -> Draft:
        leaders = [member for member in self.members if member.leads]
        member = self._someone()
        if leaders and self.chance.random() < 0.4:
            member = self.chance.choice(leaders)
        name, generation, instance = self._claims(member)
        version = self.chance.randint(0, 5)
        assignments = [
            SyncGroupRequestAssignment(member_id=other, assignment=b"for %d" % number)
            for number, other in enumerate(member.others)
        ]
        request = SyncGroupRequest(
            group_id=member.group,
            generation_id=generation,
            member_id=name,
            group_instance_id=instance if version >= 3 else None,
            protocol_type="consumer" if version >= 5 else None,
            protocol_name=member.protocol if version >= 5 else None,
            assignments=assignments if member.leads else [],
        )
        if version >= 5 and self.chance.random() < 0.05:
            request.protocol_name = "other"
        if name in self.busy.values():
            return self._heartbeat()
        self.busy[connection] = name
        return Draft(request, version, connection, may_wait=True)

    def _heartbeat(self) -> Draft:
        member = self._someone()
        name, generation, instance = self._claims(member)
        version = self.chance.randint(0, 4)
        request = HeartbeatRequest(
            group_id=member.group,
            generation_id=generation,
            member_id=name,
            group_instance_id=instance if version >= 3 else None,
        )
        return Draft(request, version)

    def _leave(self) -> Draft:
        member = self._someone()
        name, _, instance = self._claims(member)
        version = self.chance.randint(0, 5)
        request = LeaveGroupRequest(group_id=member.group)
        if version < 3:
            request.member_id = name
        else:
            request.members = [MemberIdentity(member_id=name, group_instance_id=instance)]
            if self.chance.random() < 0.2:
                other = self._someone()
                request.members.append(
                    MemberIdentity(member_id=other.id, group_instance_id=other.instance)
                )
        return Draft(request, version)
