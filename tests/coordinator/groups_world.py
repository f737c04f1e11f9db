"""A runtime for group shards in which a test is the clock, the network and the disk.

It keeps what the real one must keep: records are replayed right after they are written, timers fire
in order, and every parked request is answered once. A restart reads the written bytes again.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar
from uuid import UUID, uuid5

from msgspec.structs import replace

from ottla.coordinator.batch_sizes import UNLIMITED, batch_size
from ottla.coordinator.group_config import GroupConfig
from ottla.coordinator.group_shard import GroupShard
from ottla.coordinator.shard import (
    CoordinatorRecord,
    Deferred,
    RequestContext,
    Result,
    SetTimer,
)
from ottla.coordinator.topics import TopicSummary
from ottla.wire.message import Message

R = TypeVar("R")

NAMESPACE = UUID("8c7e4d1a-0000-4000-8000-000000000000")
START = 1_000_000


class Marker(NamedTuple):
    """The end of a transaction, as it is in the log."""

    producer_id: int
    commit: bool


class Written(NamedTuple):
    """A record as it is in the log: bytes only."""

    key: bytes
    value: bytes | None
    producer_id: int


class Topics:
    """The topics of a pretended cluster."""

    def __init__(self, **partitions: int) -> None:
        self.version = 1
        self._topics: dict[str, TopicSummary] = {}
        self._made = 0
        for name, count in partitions.items():
            self.create(name, count)

    def create(self, name: str, partitions: int) -> TopicSummary:
        self._made += 1
        self.version += 1
        topic = TopicSummary(name, uuid5(NAMESPACE, f"{name}-{self._made}"), partitions)
        self._topics[name] = topic
        return topic

    def grow(self, name: str, partitions: int) -> None:
        self.version += 1
        self._topics[name] = replace(self._topics[name], partitions=partitions)

    def delete(self, name: str) -> TopicSummary:
        self.version += 1
        return self._topics.pop(name)

    def by_name(self, name: str) -> TopicSummary | None:
        return self._topics.get(name)

    def by_id(self, topic_id: UUID) -> TopicSummary | None:
        return next((topic for topic in self._topics.values() if topic.topic_id == topic_id), None)

    def id_of(self, name: str) -> UUID:
        return self._topics[name].topic_id

    def matching(self, regex: str) -> set[str]:
        """Patterns are a prefix and a star here; a bracket is a mistake."""
        if "(" in regex:
            raise ValueError("missing closing )")
        return {name for name in self._topics if name.startswith(regex.rstrip("*"))}


@dataclass
class World:
    """One shard and all around it."""

    config: GroupConfig = field(default_factory=GroupConfig)
    topics: Topics = field(default_factory=lambda: Topics(a=4, b=2))
    own_configs: dict[str, GroupConfig] = field(default_factory=dict)
    """Of groups that have settings of their own."""
    now: int = START
    """The wall clock; `set_clock` sets it."""
    elapsed: int = 0
    """What timers go by."""
    limit: int = UNLIMITED
    """The largest batch that the log takes; what does not fit is a mistake of the shard."""
    log: list[Written | Marker] = field(default_factory=list)
    timers: dict[Hashable, int] = field(default_factory=dict)
    parked: set[int] = field(default_factory=set)
    answers: dict[int, Message] = field(default_factory=dict)
    was_limited: bool = False
    _ids: int = 0

    def __post_init__(self) -> None:
        self.shard = self._new_shard()
        self.take(self.shard.loaded(self.now))

    def _new_shard(self) -> GroupShard:
        return GroupShard(
            self.config,
            self.topics,
            self.topics.matching,
            self._new_id,
            lambda group_id: self.own_configs.get(group_id, self.config),
            lambda: self.limit,
        )

    def _new_id(self) -> str:
        self._ids += 1
        return f"id{self._ids}"

    def take(self, result: Result[R]) -> R | Deferred:
        """Do what a result says; return the reply, or its token."""
        if result.is_atomic:
            assert not result.records or batch_size(result.records) <= self.limit
        else:
            assert all(batch_size([record]) <= self.limit for record in result.records)
        producer_id = -1 if result.producer is None else result.producer.producer_id
        for record in result.records:
            self.log.append(Written(record.key, record.value, producer_id))
        for record in result.records:
            self.shard.replay(record, producer_id)
        for timer in result.timers:
            if isinstance(timer, SetTimer):
                self.timers[timer.key] = self.elapsed + timer.delay_ms
            else:
                self.timers.pop(timer.key, None)
        if isinstance(result.reply, Deferred):
            assert result.reply.token not in self.answers
            self.parked.add(result.reply.token)
        for done in result.completions:
            token = done.token
            assert token in self.parked, f"token {token} was answered twice, or never parked"
            self.parked.remove(token)
            self.answers[token] = done.reply
        return result.reply

    def take_batches_of(self, limit: int) -> None:
        """Let the log take larger batches, or smaller ones."""
        self.limit = limit
        self.was_limited |= limit != UNLIMITED

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        self.log.append(Marker(producer_id, commit))
        self.shard.complete_transaction(producer_id, commit=commit)

    def advance(self, ms: int) -> None:
        """Let time pass, and the timers fire that are due meanwhile."""
        end = self.elapsed + ms
        while self.timers:
            key = min(self.timers, key=lambda key: self.timers[key])
            if self.timers[key] > end:
                break
            self._pass_to(max(self.elapsed, self.timers.pop(key)))
            assert self.take(self.shard.expire(key, self.now)) is None
        self._pass_to(end)

    def _pass_to(self, elapsed: int) -> None:
        self.now += elapsed - self.elapsed
        self.elapsed = elapsed

    def set_clock(self, by_ms: int) -> None:
        """An operator, or NTP, sets the wall clock; no time passes."""
        self.now = max(1, self.now + by_ms)

    def restart(self, length: int | None = None) -> None:
        """Lose the shard, and all of the log after a length; load it again.

        Parked requests are answered by the runtime: NOT_COORDINATOR.
        """
        if length is not None:
            del self.log[length:]
        self.parked.clear()
        self.answers.clear()
        self.timers.clear()
        self.shard = self.loaded_anew()
        self.take(self.shard.loaded(self.now))

    def loaded_anew(self) -> GroupShard:
        """Another shard, made from the written bytes."""
        shard = self._new_shard()
        for entry in self.log:
            if isinstance(entry, Marker):
                shard.complete_transaction(entry.producer_id, commit=entry.commit)
            else:
                record = CoordinatorRecord(entry.key, entry.value)
                shard.replay(record, entry.producer_id)
        return shard


def context(version: int, client_id: str = "app", host: str = "/127.0.0.1") -> RequestContext:
    return RequestContext(version, client_id, host)


def answer(result: Result[R]) -> R:
    """The reply of a request that must not be parked."""
    assert not isinstance(result.reply, Deferred)
    return result.reply
