"""Members of streams groups in the pretended world of `groups_world`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.coordinator.shard import Deferred
from ottla.coordinator.streams.group import StreamsGroup
from ottla.coordinator.streams.heartbeat import HeartbeatAnswer
from ottla.wire.messages.streams_group_heartbeat import (
    CopartitionGroup,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)

from ..groups_world import World, context

Tasks = dict[str, list[int]]


def simple(*sources: str, changelog: str | None = None, epoch: int = 0) -> Topology:
    """A topology with one subtopology "0"."""
    return Topology(
        epoch=epoch,
        subtopologies=[
            Subtopology(
                subtopology_id="0",
                source_topics=list(sources),
                state_changelog_topics=[] if changelog is None else [TopicInfo(name=changelog)],
            )
        ],
    )


def counting() -> Topology:
    """What a word count is: "0" writes a repartition topic, "1" reads it and has state."""
    return Topology(
        subtopologies=[
            Subtopology(
                subtopology_id="0",
                source_topics=["a"],
                repartition_sink_topics=["words-repartition"],
            ),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=[TopicInfo(name="words-repartition")],
                state_changelog_topics=[TopicInfo(name="counts-changelog")],
                copartition_groups=[CopartitionGroup(repartition_source_topics=[0])],
            ),
        ]
    )


@dataclass
class StreamsWorld(World):
    """A shard that is asked for streams groups."""

    to_create: Mapping[str, Any] = field(default_factory=dict)
    """The internal topics that the last heartbeat found missing."""

    def heartbeat(self, request: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
        """Send a heartbeat."""
        found = self.take(self.shard.handle_streams_group_heartbeat(request, context(0), self.now))
        assert not isinstance(found, Deferred)
        assert isinstance(found, HeartbeatAnswer)
        self.to_create = found.to_create
        return found.reply

    def group(self, group_id: str = "g") -> StreamsGroup:
        """A group as the shard has it."""
        found = self.shard._state.groups[group_id]
        assert isinstance(found, StreamsGroup)
        return found

    def create_internal_topics(self) -> None:
        """Do what the last heartbeat asked for."""
        for topic in self.to_create.values():
            self.topics.create(topic.name, topic.partitions)


@dataclass
class StreamsClient:
    """One stream thread. It gives up at once what it is not told to keep."""

    world: StreamsWorld
    member_id: str
    process_id: str = ""
    topology: Topology = field(default_factory=lambda: simple("a"))
    epoch: int = 0
    active: Tasks = field(default_factory=dict)
    standby: Tasks = field(default_factory=dict)
    statuses: list[int] = field(default_factory=list)

    def join(self, **more: Any) -> StreamsGroupHeartbeatResponse:
        """Begin with nothing."""
        self.epoch, self.active, self.standby = 0, {}, {}
        return self._send(
            StreamsGroupHeartbeatRequest(
                **{
                    "group_id": "g",
                    "member_id": self.member_id,
                    "rebalance_timeout_ms": 60_000,
                    "topology": self.topology,
                    "process_id": self.process_id or f"process of {self.member_id}",
                    "active_tasks": [],
                    "standby_tasks": [],
                    "warmup_tasks": [],
                    **more,
                }
            )
        )

    def beat(self, **more: Any) -> StreamsGroupHeartbeatResponse:
        """Say what it has."""
        return self._send(
            StreamsGroupHeartbeatRequest(
                **{
                    "group_id": "g",
                    "member_id": self.member_id,
                    "member_epoch": self.epoch,
                    "active_tasks": _ids(self.active),
                    "standby_tasks": _ids(self.standby),
                    "warmup_tasks": [],
                    **more,
                }
            )
        )

    def leave(self, **more: Any) -> StreamsGroupHeartbeatResponse:
        """Go."""
        reply = self._send(
            StreamsGroupHeartbeatRequest(
                group_id="g", member_id=self.member_id, member_epoch=-1, **more
            )
        )
        self.epoch, self.active, self.standby = 0, {}, {}
        return reply

    def _send(self, request: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
        reply = self.world.heartbeat(request)
        if not reply.error_code:
            self.epoch = reply.member_epoch
            self.statuses = [each.status_code for each in reply.status or ()]
            if reply.active_tasks is not None:
                self.active = _tasks(reply.active_tasks)
                self.standby = _tasks(reply.standby_tasks)
        return reply


def _ids(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=each) for name, each in tasks.items()]


def _tasks(found: list[TaskIds] | None) -> Tasks:
    return {each.subtopology_id: each.partitions for each in found or ()}
