"""Produces: right and wrong batches, idempotent producers that lose count, and topics that refuse.

Every few steps the logs are read, so that what was stored is compared too.
"""

import gzip
from dataclasses import replace
from random import Random

from compat.differential.logs import HOUR_MS, Logs, Producer
from compat.differential.steps import Draft, Step, named
from ottla.wire.batch import CONTROL, TRANSACTIONAL
from ottla.wire.message import Message
from testkit.batches import Batch, Plain

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
DAY_MS = 24 * HOUR_MS
SMALL = 2_000


class Produces:
    """Draws produces, and what shows their effect."""

    def __init__(self, chance: Random, now: int) -> None:
        self.chance = chance
        self.logs = Logs(chance, now)
        self.logs.producers = [Producer(None), Producer(None), Producer(named("tx"))]

    def opening(self) -> list[Draft]:
        """Topics that refuse different things, and producers."""
        return [
            self.logs.make("t1", 2),
            self.logs.make("small", 1, {"max.message.bytes": str(SMALL)}),
            self.logs.make("compacted", 1, {"cleanup.policy": "compact"}),
            self.logs.make("broker-time", 1, {"message.timestamp.type": "LogAppendTime"}),
            self.logs.make(
                "timed",
                1,
                {
                    "message.timestamp.before.max.ms": str(DAY_MS),
                    "message.timestamp.after.max.ms": str(HOUR_MS),
                },
            ),
            *(self.logs.init(producer) for producer in self.logs.producers),
        ]

    def draw(self) -> Draft:
        """The next step."""
        dice = self.chance.random()
        if dice < 0.35:
            return self._right()
        if dice < 0.55:
            return self._idempotent_wrong()
        if dice < 0.75:
            return self._wrong()
        if dice < 0.83:
            return self.logs.read_all()
        if dice < 0.88:
            return self.logs.describe_producers()
        if dice < 0.91:
            return self.logs.list_offsets()
        if dice < 0.93:
            return self.logs.delete_records()
        if dice < 0.97:
            producer = self.chance.choice(self.logs.producers)
            if producer.transactional_id is None:
                producer.producer_id = producer.epoch = -1
            return self.logs.init(producer)
        return self.logs.replace()

    def learn(self, step: Step, reply: Message) -> None:
        """Take notice of a reply."""
        self.logs.learn(step, reply)

    def closing(self) -> list[Draft]:
        """Delete topics."""
        return self.logs.remove_all()

    def _producer(self) -> Producer | None:
        return self.chance.choice([None, *self.logs.producers[:2]])

    def _send(self, place: tuple[str, int], data: bytes, acks: int = -1) -> Draft:
        return self.logs.produce([(place, data)], self.chance.randint(3, 13), None, acks)

    def _right(self) -> Draft:
        places = sorted({self.logs.place() for _ in range(self.chance.choice([1, 1, 2, 4]))})
        producer = self._producer()
        version = self.chance.randint(3, 13)
        parts = [(place, self.logs.batch(producer, place).build()) for place in places]
        return self.logs.produce(parts, version, None, self.chance.choice([-1, -1, 1]))

    def _idempotent_wrong(self) -> Draft:
        """What a producer sends that lost count, was fenced, or repeats itself."""
        producer = self.chance.choice(self.logs.producers[:2])
        place = self.logs.place()
        if producer.sent and self.chance.random() < 0.4:
            name, partition, data = self.chance.choice(producer.sent[-8:])
            return self._send((name, partition), data)
        batch = self.logs.batch(producer, place)
        way = self.chance.randrange(7)
        if way == 0:
            batch.base_sequence += self.chance.randint(1, 5)
        elif way == 1:
            batch.base_sequence = max(0, batch.base_sequence - self.chance.randint(1, 5))
        elif way == 2:
            batch.producer_epoch += self.chance.choice([-1, 1, 1])
            batch.base_sequence = self.chance.choice([0, batch.base_sequence])
        elif way == 3:
            batch.producer_id += 77
        elif way == 4:
            batch.base_sequence = self.chance.choice([-1, 2**31 - 1, 2**31 - 3])
        elif way == 5:
            batch.producer_epoch = -1
        else:
            batch.attributes |= TRANSACTIONAL
        return self._send(place, batch.build())

    def _wrong(self) -> Draft:
        """What is wrong with a batch or a request as such."""
        place = self.logs.place()
        batch = self.logs.batch(None, place)
        # No null for the records: Kafka 4.3.0 never answers that.
        way = self.chance.randrange(1, 21)
        if way == 1:
            data = b""
        elif way == 2:
            data = batch.build() + self.logs.batch(None, place).build()
        elif way == 3:
            data = batch.build()[: self.chance.randrange(1, 80)]
        elif way == 4:
            data = batch.build() + bytes(self.chance.choice([1, 12, 17, 61]))
        elif way == 5:
            return self._send(place, batch.build(), acks=self.chance.choice([2, -2]))
        elif way == 6:
            return self.logs.produce([(place, batch.build())], 12, named("nobody"))
        else:
            data = self._spoiled(batch, way).build()
        return self._send(place, data)

    def _spoiled(self, batch: Batch, way: int) -> Batch:
        count = len(batch.records)
        now = self.logs.now
        changes: list[dict[str, object]] = [
            {"crc": 1},
            {"magic": self.chance.choice([0, 1, 3])},
            {"attributes": CONTROL},
            {"count": count + 1, "last_offset_delta": count - 1},
            {"last_offset_delta": count},
            {"count": 0, "records": []},
            {"length": self.chance.choice([-1, 0, 48, 49, 100_000])},
            {"base_timestamp": now + 2 * HOUR_MS},
            {"base_timestamp": now - 2 * DAY_MS},
            {"records": [Plain(value=b"." * 3_000, key=b"k")]},
            {"attributes": GZIP, "payload": gzip.compress(self._payload(batch))},
            {"attributes": ZSTD, "payload": b"no zstd frame"},
            {"attributes": self.chance.choice([5, 6, 7])},
            {"base_offset": 40},
        ]
        return replace(batch, **changes[way - 7])  # type: ignore[arg-type]  # fields of Batch

    def _payload(self, batch: Batch) -> bytes:
        return batch.build()[61:]
