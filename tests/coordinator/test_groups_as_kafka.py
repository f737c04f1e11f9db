"""The coordinator answers as Apache Kafka 4.3.0 did: see `groups_transcript`."""

import json
from typing import TypedDict, TypeVar

import pytest

from ottla.coordinator.offsets.fetch import groups_of, reply_of
from ottla.coordinator.shard import Deferred
from ottla.wire.codec import decode, encode
from ottla.wire.message import Message
from ottla.wire.messages import consumer_group_describe as describe_messages
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.offset_delete import OffsetDeleteRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest
from ottla.wire.messages.sync_group import SyncGroupRequest

from .groups_transcript import PARTITIONS, TOPIC, TRANSCRIPT, Answer, Play, Step
from .groups_world import Topics, World, answer, context


class Script(TypedDict):
    """What was asked of Kafka and when, and what it answered."""

    name: str
    steps: list[tuple[int, Step, Answer]]


M = TypeVar("M", bound=Message)

SCRIPTS: list[Script] = json.loads(TRANSCRIPT.read_text())


def over_the_wire(message: M, version: int) -> M:
    """The message without what its version does not carry."""
    return decode(type(message), version, encode(message, version))


class Ottla:
    """A shard on which scripts can be played."""

    def __init__(self) -> None:
        self.world = World(topics=Topics(**{TOPIC: PARTITIONS}))
        self._waiting: dict[str, int] = {}
        self._versions: dict[str, int] = {}

    def ask(self, client: str, request: Message, version: int) -> Message | None:
        self._versions[client] = version
        reply = self._ask(client, over_the_wire(request, version), version)
        return None if reply is None else over_the_wire(reply, version)

    def poll(self, client: str) -> Message | None:
        reply = self.world.answers.get(self._waiting[client])
        return None if reply is None else over_the_wire(reply, self._versions[client])

    def _ask(self, client: str, request: Message, version: int) -> Message | None:
        shard, now, about = self.world.shard, self.world.now, context(version)
        reply: Message | Deferred
        match request:
            case JoinGroupRequest():
                reply = self.world.take(shard.handle_join_group(request, about, now))
            case SyncGroupRequest():
                reply = self.world.take(shard.handle_sync_group(request, about, now))
            case HeartbeatRequest():
                reply = self.world.take(shard.handle_heartbeat(request, about, now))
            case LeaveGroupRequest():
                reply = self.world.take(shard.handle_leave_group(request, about, now))
            case OffsetCommitRequest():
                reply = self.world.take(shard.handle_offset_commit(request, about, now))
            case OffsetDeleteRequest():
                reply = self.world.take(shard.handle_offset_delete(request, about, now))
            case ConsumerGroupHeartbeatRequest():
                reply = self.world.take(shard.handle_consumer_group_heartbeat(request, about, now))
            case _:
                return self._ask_for_many(request, version)
        if isinstance(reply, Deferred):
            self._waiting[client] = reply.token
            return self.world.answers.get(reply.token)
        return reply

    def _ask_for_many(self, request: Message, version: int) -> Message:
        """Requests about several groups, whose answers are put together outside the shard."""
        shard, now, about = self.world.shard, self.world.now, context(version)
        match request:
            case OffsetFetchRequest():
                return reply_of(
                    [
                        answer(shard.handle_offset_fetch(group, about, now))
                        for group in groups_of(request, version)
                    ],
                    version,
                )
            case DeleteGroupsRequest():
                result = shard.handle_delete_groups(request.groups_names, about, now)
                self.world.take(result)
                return DeleteGroupsResponse(results=answer(result))
            case DescribeGroupsRequest():
                return DescribeGroupsResponse(
                    groups=answer(shard.handle_describe_groups(request.groups, about, now))
                )
            case describe_messages.ConsumerGroupDescribeRequest():
                described = shard.handle_consumer_group_describe(request.group_ids, about, now)
                return describe_messages.ConsumerGroupDescribeResponse(groups=answer(described))
            case _:
                raise AssertionError(request)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script["name"])
def test_the_answers_are_those_of_kafka(script: Script) -> None:
    ottla = Ottla()
    play = Play(ottla, "group")
    start = ottla.world.now
    for number, (at, step, expected) in enumerate(script["steps"]):
        ottla.world.advance(start + at - ottla.world.now)
        assert [number, step, play.step(step)] == [number, step, expected]
