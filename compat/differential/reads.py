"""Reads: Fetch with and without sessions beside what changes the logs that are read.

Limits are drawn so that they bind: bytes of a fetch and of a partition, least bytes, isolation.
"""

from dataclasses import dataclass
from random import Random
from uuid import UUID

from compat.differential.logs import IDS_FROM, Logs, Producer, no_such_id
from compat.differential.steps import Draft, Step, named
from ottla.wire.errors import ErrorCode
from ottla.wire.message import NO_UUID, Message
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)

SESSIONS_FROM = 7
LAST_VERSION = 17
SIZES = [0, 1, 60, 300, 1_000, 5_000, 50_000, 1_048_576]
LARGE_RECORDS = 90_000
ROLLING = {"segment.bytes": "1048576", "index.interval.bytes": "1000"}


@dataclass
class Session:
    """A fetch session as its client knows it."""

    version: int
    id: int
    epoch: int = 1


class Reads:
    """Draws fetches, and what they read."""

    def __init__(self, chance: Random, now: int) -> None:
        self.chance = chance
        self.logs = Logs(chance, now)
        self.sessions: list[Session] = []
        self.logs.producers = [Producer(named("tx1")), Producer(named("tx2"))]

    def opening(self) -> list[Draft]:
        """Topics and producers."""
        return [
            self.logs.make("t1", 3),
            self.logs.make("t2", 2),
            self.logs.make("rolls", 1, ROLLING),
            *(self.logs.init(producer) for producer in self.logs.producers),
        ]

    def draw(self) -> Draft:
        """The next step."""
        dice = self.chance.random()
        if dice < 0.55:
            return self._fetch()
        if dice < 0.75:
            return self._produce()
        if dice < 0.82:
            return self.logs.list_offsets()
        if dice < 0.85:
            return self.logs.offset_for_leader_epoch()
        if dice < 0.89:
            return self.logs.delete_records()
        if dice < 0.98:
            producer = self.chance.choice(self.logs.producers)
            return self.logs.end_txn(producer, self.chance.random() < 0.5)
        return self.logs.replace()

    def learn(self, step: Step, reply: Message) -> None:
        """Take notice of a reply."""
        self.logs.learn(step, reply)
        if not isinstance(reply, FetchResponse):
            return
        request = step.request
        assert isinstance(request, FetchRequest)
        if request.session_epoch == 0 and reply.session_id:
            self.sessions.append(Session(step.version, reply.session_id))
        for session in self.sessions:
            same = (session.id, session.epoch) == (request.session_id, request.session_epoch)
            if same and not reply.error_code:
                session.epoch += 1
        if request.session_epoch == -1 or reply.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self.sessions = [s for s in self.sessions if s.id != request.session_id]

    def closing(self) -> list[Draft]:
        """End sessions and delete topics."""
        ends = []
        for session in self.sessions:
            request = FetchRequest(session_id=session.id, session_epoch=-1, max_bytes=1)
            ends.append(Draft(request, session.version))
        return [*ends, *self.logs.remove_all()]

    def _produce(self) -> Draft:
        places = {self.logs.place() for _ in range(self.chance.choice([1, 1, 3]))}
        producer = self.chance.choice([None, None, *self.logs.producers])
        parts = []
        for place in sorted(places):
            most = LARGE_RECORDS if place[0] == named("rolls") else 400
            parts.append((place, self.logs.batch(producer, place, most).build()))
        if producer is None:
            return self.logs.produce(parts, self.chance.randint(3, 13))
        return self.logs.produce(parts, self.chance.choice([12, 13]), producer.transactional_id)

    def _fetch(self) -> Draft:
        request = FetchRequest(
            max_wait_ms=self.chance.choice([0, 0, 0, 15]),
            min_bytes=self.chance.choice([0, 1, 1, 300, 5_000, 10_000_000]),
            max_bytes=self.chance.choice([*SIZES[1:], 2**31 - 1]),
            isolation_level=self.chance.randrange(2),
        )
        version = self.chance.randint(4, LAST_VERSION)
        session = None
        dice = self.chance.random()
        if version >= SESSIONS_FROM and dice < 0.65:
            if self.sessions and dice < 0.5:
                session = self.chance.choice(self.sessions)
                version = session.version
                request.session_id = session.id
                request.session_epoch = session.epoch
                self._spoil_session(request)
                if self.chance.random() < 0.03:
                    version = self.chance.choice([12, 13])
            else:
                request.session_epoch = 0
        self._name_partitions(request, version, session)
        return Draft(request, version)

    def _spoil_session(self, request: FetchRequest) -> None:
        dice = self.chance.random()
        if dice < 0.02:
            request.session_id += 1
        elif dice < 0.04:
            request.session_epoch += self.chance.choice([-1, 1])
        elif dice < 0.06:
            request.session_epoch = -1
        elif dice < 0.08:
            request.session_epoch = 0

    def _name_partitions(
        self, request: FetchRequest, version: int, session: Session | None
    ) -> None:
        most = 3 if session is None else 2
        least = 1 if session is None else 0
        for _ in range(self.chance.randint(least, most)):
            place = self.logs.place()
            topic = self._topic(request, place[0], version)
            if any(part.partition == place[1] for part in topic.partitions):
                continue
            part = FetchPartition(
                partition=place[1],
                current_leader_epoch=self.logs.leader_epoch(),
                fetch_offset=self.logs.offset(place),
                last_fetched_epoch=self.chance.choice([-1, -1, -1, 0, 0, 3]),
                partition_max_bytes=self.chance.choice(SIZES),
            )
            topic.partitions.append(part)
        if session is not None and self.chance.random() < 0.2:
            name, partition = self.logs.place()
            topic_id = self.logs.ids.get(name, no_such_id(name)) if version >= IDS_FROM else NO_UUID
            forgotten = ForgottenTopic(topic=name, topic_id=topic_id, partitions=[partition])
            request.forgotten_topics_data.append(forgotten)

    def _topic(self, request: FetchRequest, name: str, version: int) -> FetchTopic:
        topic_id: UUID = self.logs.id_of(name) if version >= IDS_FROM else NO_UUID
        for topic in request.topics:
            if (topic.topic, topic.topic_id) == (name, topic_id):
                return topic
        request.topics.append(FetchTopic(topic=name, topic_id=topic_id))
        return request.topics[-1]
