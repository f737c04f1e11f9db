"""Members of share groups in the pretended world of `groups_world`.

What the share coordinator does is up to the test: `World.effects` has what was asked of it.
"""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from ottla.coordinator.shard import Deferred, Result
from ottla.coordinator.share.effects import InitializeShareState
from ottla.coordinator.share.group import ShareGroup
from ottla.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

from ..groups_world import World, context


@dataclass
class ShareWorld(World):
    """A shard whose effects the test carries out."""

    effects: list[InitializeShareState] = field(default_factory=list)

    def take(self, result: Result[Any]) -> Any:
        """Note the effects."""
        self.effects += result.effects  # type: ignore[arg-type]  # share groups have one kind
        return super().take(result)

    def initialize(self, failed: dict[UUID, frozenset[int]] | None = None) -> None:
        """The share coordinator does what it was asked for."""
        effects, self.effects = self.effects, []
        for effect in effects:
            self.take(self.shard.share_state_initialized(effect, failed or {}, self.now))

    def group(self, group_id: str = "g") -> ShareGroup:
        """A group as the shard has it."""
        found = self.shard._state.groups[group_id]
        assert isinstance(found, ShareGroup)
        return found


@dataclass
class ShareMemberClient:
    """One member, as a client is it."""

    world: ShareWorld
    member_id: str
    topics: list[str] = field(default_factory=lambda: ["a"])
    group_id: str = "g"
    epoch: int = 0
    partitions: dict[UUID, list[int]] = field(default_factory=dict)

    def beat(self, **more: Any) -> ShareGroupHeartbeatResponse | Deferred:
        """Send a heartbeat."""
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch, **more
        )
        world = self.world
        reply = world.take(world.shard.handle_share_group_heartbeat(request, context(1), world.now))
        assert isinstance(reply, ShareGroupHeartbeatResponse | Deferred)
        if isinstance(reply, ShareGroupHeartbeatResponse):
            self.note(reply)
        return reply

    def note(self, reply: ShareGroupHeartbeatResponse) -> None:
        """Take in what a reply says."""
        if not reply.error_code:
            self.epoch = reply.member_epoch
            if reply.assignment is not None:
                self.partitions = {
                    topic.topic_id: topic.partitions for topic in reply.assignment.topic_partitions
                }

    def answered(self, token: ShareGroupHeartbeatResponse | Deferred) -> Any:
        """The reply to a heartbeat that waited."""
        assert isinstance(token, Deferred)
        reply = self.world.answers[token.token]
        assert isinstance(reply, ShareGroupHeartbeatResponse)
        self.note(reply)
        return reply

    def join(self) -> ShareGroupHeartbeatResponse:
        """Join, with a share coordinator that answers at once."""
        self.epoch = 0
        reply = self.beat(subscribed_topic_names=self.topics)
        if isinstance(reply, Deferred):
            self.world.initialize()
            found = self.answered(reply)
            assert isinstance(found, ShareGroupHeartbeatResponse)
            return found
        return reply
