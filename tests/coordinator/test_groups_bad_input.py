"""Requests made of anything that fits their fields: each is answered, and breaks nothing.

They reach groups of both kinds in all their states, with ids and epochs that are sometimes right.
"""

from random import Random
from uuid import UUID

import pytest

from ottla.coordinator.group_config import GroupConfig
from ottla.coordinator.offsets.fetch import groups_of, reply_of
from ottla.coordinator.shard import Deferred
from ottla.wire.codec import encode
from ottla.wire.message import Field, Message, Part
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.offset_delete import OffsetDeleteRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest
from ottla.wire.messages.sync_group import SyncGroupRequest
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

from .groups_clients import assignment, subscription
from .groups_invariants import check, check_log
from .groups_world import Topics, World, answer, context

REQUESTS: list[type[Message]] = [
    JoinGroupRequest,
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequest,
    OffsetCommitRequest,
    TxnOffsetCommitRequest,
    OffsetFetchRequest,
    OffsetDeleteRequest,
    DeleteGroupsRequest,
    ListGroupsRequest,
]
LIKELY: dict[str, list[object]] = {
    "group_id": ["g", "g", "g", "h", ""],
    "groups_names": ["g", "h", ""],
    "protocol_type": ["consumer", "consumer", "", None],
    "protocol_name": ["range", "range", "", None],
    "name": ["a", "range", "b", "nowhere", ""],
    "metadata": [subscription("a"), subscription("a", owned={"a": [0]}), b"\xff", b""],
    "assignment": [assignment(a=[0, 1]), b"", b"\x00"],
    "session_timeout_ms": [6_000, 10_000, -1],
    "rebalance_timeout_ms": [5_000, -1, -7, 2**31 - 1],
    "member_epoch": [0, 0, 0, 1, 2, 3, 4, 5, -1, -2, -3],
    "generation_id": [0, 1, 2, 3, -1],
    "generation_id_or_member_epoch": [0, 1, 2, 3, -1, -9],
    "server_assignor": [None, "range", "uniform", "best"],
    "subscribed_topic_names": ["a", "b", "nowhere"],
    "subscribed_topic_regex": [None, "", "a*", "a("],
    "topics": ["a"],
    "partition_index": [0, 1, -1, 99],
    "group_instance_id": [None, None, "i", "j", ""],
    "instance_id": [None, None, "i", "j", ""],
}
ANYTHING: dict[str, list[object]] = {
    "string": ["", "x", "y" * 300],
    "bytes": [b"", b"\x00" * 40],
    "bool": [False, True],
    "uuid": [UUID(int=0), UUID(int=7)],
}
NUMBERS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}


class Maker:
    """Makes requests of anything."""

    def __init__(self, random: Random, world: World) -> None:
        self._random = random
        self._world = world

    def make(self, cls: type[Part], version: int) -> Part:
        return cls(
            **{
                field.name: self._value(field, version)
                for field in cls.FIELDS
                if field.is_in(version)
            }
        )

    def _value(self, field: Field, version: int) -> object:
        if field.is_nullable_in(version) and self._random.random() < 0.2:
            return None
        if field.array:
            return [self._one(field, version) for _ in range(self._random.randrange(3))]
        return self._one(field, version)

    def _one(self, field: Field, version: int) -> object:
        if not isinstance(field.type, str):
            return self.make(field.type, version)
        if field.name == "member_id":
            return self._random.choice(["", "stranger", *self._member_ids()])
        if field.type == "uuid":
            return self._random.choice([self._world.topics.id_of("a"), *ANYTHING["uuid"]])
        choices = LIKELY.get(field.name) or ANYTHING.get(field.type)
        if choices is None:
            limit = 1 << NUMBERS[field.type]
            choices = [-limit, -1, 0, 1, limit - 1]
        value = self._random.choice(choices)
        if value is None and not field.is_nullable_in(version):
            return ""
        return value

    def _member_ids(self) -> list[str]:
        group = self._world.shard._state.groups.get("g")
        return list(getattr(group, "members", ()))


def ask(world: World, request: Message, version: int) -> Message | None:
    """Let the shard handle any of the requests; None where it is parked."""
    shard, now, about = world.shard, world.now, context(version)
    reply: Message | Deferred
    match request:
        case JoinGroupRequest():
            reply = world.take(shard.handle_join_group(request, about, now))
        case SyncGroupRequest():
            reply = world.take(shard.handle_sync_group(request, about, now))
        case HeartbeatRequest():
            reply = world.take(shard.handle_heartbeat(request, about, now))
        case LeaveGroupRequest():
            reply = world.take(shard.handle_leave_group(request, about, now))
        case ConsumerGroupHeartbeatRequest():
            reply = world.take(shard.handle_consumer_group_heartbeat(request, about, now))
        case OffsetCommitRequest():
            reply = world.take(shard.handle_offset_commit(request, about, now))
        case TxnOffsetCommitRequest():
            reply = world.take(shard.handle_txn_offset_commit(request, about, now))
        case OffsetDeleteRequest():
            reply = world.take(shard.handle_offset_delete(request, about, now))
        case OffsetFetchRequest():
            groups = groups_of(request, version)
            found = [answer(shard.handle_offset_fetch(group, about, now)) for group in groups]
            return reply_of(found, version)
        case DeleteGroupsRequest():
            result = shard.handle_delete_groups(request.groups_names, about, now)
            world.take(result)
            return DeleteGroupsResponse(results=answer(result))
        case ListGroupsRequest():
            return ListGroupsResponse(groups=answer(shard.handle_list_groups(request, about, now)))
        case _:
            raise AssertionError(request)
    return None if isinstance(reply, Deferred) else reply


@pytest.mark.parametrize("block", range(4))
def test_no_request_breaks_the_coordinator(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        random = Random(seed)
        world = World(GroupConfig(group_initial_rebalance_delay_ms=100), topics=Topics(a=3, b=2))
        maker = Maker(random, world)
        for _ in range(120):
            cls = random.choice(REQUESTS)
            version = random.randint(*cls.VERSIONS)
            request = maker.make(cls, version)
            assert isinstance(request, Message)
            encode(request, version)
            reply = ask(world, request, version)
            if reply is not None:
                encode(reply, version)
            if random.random() < 0.2:
                world.advance(random.choice([1, 200, 7_000]))
            check(world)
        check_log(world)
