"""Transactions: of both versions, ended, fenced, taken over, with offsets, and looked at."""

from random import Random

from compat.differential.logs import MISSING, Logs, Producer
from compat.differential.steps import Draft, Step, named
from ottla.wire.message import Message
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

GROUPS = [named("g1"), named("g2")]
TIMEOUTS_MS = [60_000, 60_000, 60_000, 0, -1, 900_000, 900_001]
STATES = [
    "Empty",
    "Ongoing",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareCommit",
    "Dead",
    "Nonsense",
]


class Transactions:
    """Draws the requests of transactional producers and of those who watch them."""

    def __init__(self, chance: Random, now: int) -> None:
        self.chance = chance
        self.logs = Logs(chance, now)
        self.logs.producers = [Producer(named(f"tx{number}")) for number in range(3)]
        self.old = {producer.transactional_id: False for producer in self.logs.producers}
        """Whether a producer speaks the version before KIP-890's second part."""

    def opening(self) -> list[Draft]:
        """Topics and producers."""
        for name in self.old:
            self.old[name] = self.chance.random() < 0.4
        return [
            self.logs.make("t1", 2),
            self.logs.make("t2", 1),
            *(self.logs.init(producer) for producer in self.logs.producers),
        ]

    def draw(self) -> Draft:
        """The next step."""
        producer = self.chance.choice(self.logs.producers)
        ways = [
            (0.28, self._produce),
            (0.14, self._end),
            (0.07, self._init),
            (0.12, self._add_partitions),
            (0.05, self._add_offsets),
            (0.09, self._commit_offsets),
            (0.06, self._describe),
            (0.03, self._list),
            (0.04, self._describe_producers),
            (0.06, self._fetch),
            (0.04, self._fetch_offsets),
        ]
        dice = self.chance.random()
        for share, draw in ways:
            if dice < share:
                return draw(producer)
            dice -= share
        return self.logs.replace()

    def learn(self, step: Step, reply: Message) -> None:
        """Take notice of a reply."""
        self.logs.learn(step, reply)

    def closing(self) -> list[Draft]:
        """End what is open, and delete topics."""
        ends = [
            self.logs.end_txn(producer, False)
            for producer in self.logs.producers
            if producer.producer_id >= 0
        ]
        return [*ends, *self.logs.remove_all()]

    def _who(self, producer: Producer) -> tuple[str, int, int]:
        """Who a producer says it is; seldom not what it should."""
        name, number, epoch = producer.transactional_id or "", producer.producer_id, producer.epoch
        dice = self.chance.random()
        if dice < 0.03:
            epoch -= 1
        elif dice < 0.05:
            epoch += 1
        elif dice < 0.07:
            number += 5
        elif dice < 0.09:
            name = named("nobody")
        elif dice < 0.10:
            name = ""
        return name, number, epoch

    def _is_old(self, producer: Producer) -> bool:
        return self.old[producer.transactional_id] != (self.chance.random() < 0.03)

    def _produce(self, producer: Producer) -> Draft:
        place = self.logs.place()
        batch = self.logs.batch(producer, place)
        name, batch.producer_id, batch.producer_epoch = self._who(producer)
        if self.chance.random() < 0.05:
            batch.base_sequence += self.chance.randint(1, 3)
        if producer.sent and self.chance.random() < 0.05:
            again = self.chance.choice(producer.sent[-5:])
            return self.logs.produce([(again[:2], again[2])], 12, name)
        version = self.chance.randint(3, 11) if self._is_old(producer) else 12
        if version == 12 and self.chance.random() < 0.5:
            version = 13
        return self.logs.produce([(place, batch.build())], version, name)

    def _end(self, producer: Producer) -> Draft:
        name, number, epoch = self._who(producer)
        request = EndTxnRequest(
            transactional_id=name,
            producer_id=number,
            producer_epoch=epoch,
            committed=self.chance.random() < 0.5,
        )
        return Draft(request, self.chance.randint(0, 4) if self._is_old(producer) else 5)

    def _init(self, producer: Producer) -> Draft:
        request = InitProducerIdRequest(
            transactional_id=producer.transactional_id,
            transaction_timeout_ms=self.chance.choice(
                [60_000, 60_000, 60_000, 0, -1, 900_000, 900_001]
            ),
        )
        version = self.chance.randint(0, 5)
        if version >= 3 and self.chance.random() < 0.4:
            _, request.producer_id, request.producer_epoch = self._who(producer)
        return Draft(request, version)

    def _add_partitions(self, producer: Producer) -> Draft:
        name, number, epoch = self._who(producer)
        topics: dict[str, list[int]] = {}
        for place in {self.logs.place() for _ in range(self.chance.randint(1, 3))}:
            topics.setdefault(place[0], []).append(place[1])
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=number,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=parts)
                for topic, parts in sorted(topics.items())
            ],
        )
        return Draft(request, self.chance.randint(0, 3))

    def _add_offsets(self, producer: Producer) -> Draft:
        name, number, epoch = self._who(producer)
        request = AddOffsetsToTxnRequest(
            transactional_id=name,
            producer_id=number,
            producer_epoch=epoch,
            group_id=self.chance.choice([*GROUPS, *GROUPS, ""]),
        )
        return Draft(request, self.chance.randint(0, 4))

    def _commit_offsets(self, producer: Producer) -> Draft:
        name, number, epoch = self._who(producer)
        place = self.logs.place()
        part = TxnOffsetCommitRequestPartition(
            partition_index=place[1],
            committed_offset=self.chance.randrange(100),
            committed_metadata=self.chance.choice(["", "note", None, "x" * 5_000]),
        )
        request = TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=self.chance.choice([*GROUPS, *GROUPS, ""]),
            producer_id=number,
            producer_epoch=epoch,
            topics=[TxnOffsetCommitRequestTopic(name=place[0], partitions=[part])],
        )
        version = self.chance.randint(0, 4) if self._is_old(producer) else 5
        if version >= 3 and self.chance.random() < 0.1:
            request.generation_id = self.chance.choice([-1, 0, 3])
            request.member_id = self.chance.choice(["", "nobody"])
        return Draft(request, version)

    def _describe(self, _: Producer) -> Draft:
        names = [producer.transactional_id or "" for producer in self.logs.producers]
        wanted = self.chance.sample([*names, named("nobody")], self.chance.randint(1, 3))
        return Draft(DescribeTransactionsRequest(transactional_ids=sorted(wanted)), 0)

    def _list(self, producer: Producer) -> Draft:
        request = ListTransactionsRequest()
        if self.chance.random() < 0.4:
            request.state_filters = sorted(self.chance.sample(STATES, 2))
        if self.chance.random() < 0.3:
            request.producer_id_filters = [producer.producer_id]
        version = self.chance.randint(0, 2)
        if version >= 1 and self.chance.random() < 0.2:
            request.duration_filter = 3_600_000
        return Draft(request, version)

    def _describe_producers(self, _: Producer) -> Draft:
        return self.logs.describe_producers()

    def _fetch(self, _: Producer) -> Draft:
        return self.logs.read_all(self.chance.randrange(2))

    def _fetch_offsets(self, _: Producer) -> Draft:
        topics = [
            OffsetFetchRequestTopics(name=named("t1"), partition_indexes=[0, 1]),
            OffsetFetchRequestTopics(name=named("t2"), partition_indexes=[0]),
            OffsetFetchRequestTopics(name=MISSING, partition_indexes=[0]),
        ]
        wanted = None if self.chance.random() < 0.3 else topics
        group = OffsetFetchRequestGroup(group_id=self.chance.choice(GROUPS), topics=wanted)
        stable = self.chance.random() < 0.5
        return Draft(OffsetFetchRequest(groups=[group], require_stable=stable), 8)
