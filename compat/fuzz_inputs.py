"""Inputs for the fuzzer: requests of every API and version, and every way to spoil them.

Rules kept here:
1. Everything is drawn from the `Random` that the caller seeds: the same seed, the same bytes.
2. A request is built from the field specs of its message class, with values that are valid on
   the wire and often sensible; the codec under test then writes it.
3. Names, producer ids and the like come from small pools, so that a broker which remembers what
   it is sent (topics, producers, configs) does not grow through valid requests.
"""

import pkgutil
from collections.abc import Callable
from importlib import import_module
from random import Random
from uuid import UUID

from ottla.wire import codec, messages
from ottla.wire.apis import ApiKey
from ottla.wire.headers import is_flexible, write_request_header
from ottla.wire.message import Field, Message, Part
from testkit.batches import Batch, Plain
from testkit.raw import SIZE, frame

TOPICS = [f"fuzz-{number}" for number in range(8)]
ODD_STRINGS = ["", ".", "..", "a/b", "\0", "x" * 249, "x" * 1000, "ünïcode", "__consumer_offsets"]
CONFIGS = [
    "retention.ms",
    "retention.bytes",
    "segment.bytes",
    "cleanup.policy",
    "max.message.bytes",
    "message.timestamp.type",
    "flush.messages",
    "no.such.config",
    "",
]
CONFIG_VALUES = ["1", "-1", "1000000", "", "delete", "compact", "x", "LogAppendTime", "9" * 30]
TOPIC_ID_POOL = [UUID(int=0), UUID(int=1), UUID(int=2**128 - 1), UUID(int=0x1234 << 64)]

INT_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
PARTITION_COUNTS = [1, 2, 3, -1, 0, -(2**31), 2**31 - 1, 1_000_000]
PRODUCER_IDS: list[int] = [*range(20), -1, -(2**63), 2**63 - 1]
TIMEOUTS_MS = [6_000, 6_000, 10_000, 45_000, 0, -1, 2**31 - 1]
WAITS_MS = [0, 0, 0, 0, 0, 1, -1, 2**31 - 1]

HOSTILE = [
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x00\x00\x00\x00",
    b"\x00\x7f\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"\xff\xff",
    b"\x7f\xff",
    b"\x80\x00",
    b"\xff",
    b"\x00",
]


def request_classes() -> dict[int, type[Message]]:
    """The request of every API that has a codec."""
    found: dict[int, type[Message]] = {}
    for module in pkgutil.iter_modules(messages.__path__):
        for name, value in vars(import_module(f"{messages.__name__}.{module.name}")).items():
            if name.endswith("Request") and issubclass(value, Message):
                found[value.API_KEY] = value
    return found


class Inputs:
    """A stream of inputs. `served` says which versions of which APIs the broker has."""

    def __init__(self, chance: Random, served: dict[int, tuple[int, int]]) -> None:
        self.chance = chance
        self.topic_ids = list(TOPIC_ID_POOL)
        classes = request_classes()
        self.requests = [
            (classes[key], version)
            for key, (first, last) in sorted(served.items())
            if key in classes
            for version in range(
                max(first, classes[key].VERSIONS[0]), min(last, classes[key].VERSIONS[1]) + 1
            )
        ]

    # Valid requests -------------------------------------------------------------------------

    def valid(self) -> bytes:
        """A request that follows its schema (without size; correlation id 0)."""
        cls, version = self.chance.choice(self.requests)
        return self.valid_of(cls, version)

    def valid_of(self, cls: type[Message], version: int) -> bytes:
        """The same, of one API and version."""
        client_id = self.chance.choice([None, "", "fuzz", "x" * 300])
        header = write_request_header(cls.API_KEY, version, 0, client_id)
        message = cls(**self._fields(cls, version))
        return header + codec.encode(message, version)

    def _fields(self, cls: type[Part], version: int) -> dict[str, object]:
        return {
            field.name: self._value(cls, field, version)
            for field in cls.FIELDS
            if field.is_in(version)
        }

    def _value(self, cls: type[Part], field: Field, version: int) -> object:
        chance = self.chance
        if field.is_nullable_in(version) and chance.random() < 0.1:
            return None
        if field.array:
            count = chance.choice([0, 1, 1, 1, 2, 3])
            return [self._one(cls, field, version) for _ in range(count)]
        return self._one(cls, field, version)

    def _one(self, cls: type[Part], field: Field, version: int) -> object:
        chance = self.chance
        kind = field.type
        if not isinstance(kind, str):
            return kind(**self._fields(kind, version))
        if kind in INT_BITS:
            return self._integer(cls, field.name, INT_BITS[kind])
        if kind == "uint16":
            return chance.choice([0, 1, 65535])
        if kind == "bool":
            return chance.random() < 0.5
        if kind == "float64":
            return chance.choice([0.0, -1.5, float("inf"), float("nan")])
        if kind == "uuid":
            return chance.choice(self.topic_ids)
        if kind == "string":
            return self._string(cls, field.name)
        if kind == "records":
            return self.records()
        if kind == "bytes":
            return chance.randbytes(chance.choice([0, 1, 20]))
        raise TypeError(f"no value for a field of type {kind}")

    def _integer(self, cls: type[Part], name: str, bits: int) -> int:
        chance = self.chance
        if name == "num_partitions" or (name == "count" and "Partition" in cls.__name__):
            return chance.choice(PARTITION_COUNTS)
        if name == "max_wait_ms":
            return chance.choice(WAITS_MS)
        if name in ("session_timeout_ms", "rebalance_timeout_ms", "transaction_timeout_ms"):
            return chance.choice(TIMEOUTS_MS)
        if name == "producer_id":
            return chance.choice(PRODUCER_IDS)
        if name == "acks":
            return chance.choice([-1, -1, -1, -1, 1, 1, 1, 1, 2, -100])
        dice = chance.random()
        if dice < 0.6:
            return chance.choice([0, 0, 0, 1, 2, -1])
        if dice < 0.8:
            return chance.choice([-(1 << bits - 1), (1 << bits - 1) - 1, -2, 3, 100])
        return chance.getrandbits(bits) - (1 << bits - 1)

    def _string(self, cls: type[Part], name: str) -> str:
        chance = self.chance
        if "Config" in cls.__name__ and name in ("name", "value"):
            return chance.choice(CONFIGS if name == "name" else CONFIG_VALUES)
        if chance.random() < 0.1:
            return chance.choice(ODD_STRINGS)
        if name in ("member_id", "protocol_type", "subscribed_topic_regex"):
            return chance.choice(["", "", "consumer", "member", ".*"])
        if name == "resource_name" and chance.random() < 0.3:
            return chance.choice(["1", "", "2"])
        return chance.choice(TOPICS)

    def records(self) -> bytes | None:
        """What a produce may carry: mostly a right batch, of few producers."""
        chance = self.chance
        dice = chance.random()
        if dice < 0.1:
            return chance.choice([None, b"", b"\0" * 61, chance.randbytes(100)])
        batch = Batch([Plain(b"v" * chance.choice([0, 1, 50]), key=b"k")] * chance.randint(1, 3))
        batch.base_timestamp = 1_700_000_000_000
        if dice < 0.3:
            batch.producer_id = chance.choice(PRODUCER_IDS)
            batch.producer_epoch = chance.randint(0, 2)
            batch.base_sequence = chance.randint(0, 3)
        elif dice < 0.4:
            batch.attributes = chance.getrandbits(7)
        elif dice < 0.5:
            batch.count = chance.choice([0, -1, 2**31 - 1])
        elif dice < 0.6:
            batch.length = chance.choice([0, -1, 48, 49, 2**31 - 1])
        built = batch.build()
        if dice > 0.9:
            built += chance.choice([b"\0", built, built[:30]])
        return built

    # Spoiled requests -----------------------------------------------------------------------

    def spoiled(self) -> bytes:
        """A request with something wrong in it, in a frame of the right size."""
        request = self.valid()
        ways: list[Callable[[bytes], bytes]] = [
            self._flip,
            self._flip,
            self._cut,
            self._splice,
            self._hostile,
            self._hostile,
            self._tags,
            self._header,
            self._noise,
        ]
        return self.chance.choice(ways)(request)

    def _flip(self, request: bytes) -> bytes:
        spoiled = bytearray(request)
        for _ in range(self.chance.randint(1, 4)):
            spoiled[self.chance.randrange(8, len(spoiled))] = self.chance.getrandbits(8)
        return bytes(spoiled)

    def _cut(self, request: bytes) -> bytes:
        return request[: self.chance.randrange(8, len(request))]

    def _splice(self, request: bytes) -> bytes:
        at = self.chance.randrange(8, len(request))
        stop = min(len(request), at + self.chance.randint(0, 8))
        return request[:at] + self.chance.randbytes(self.chance.randint(0, 8)) + request[stop:]

    def _hostile(self, request: bytes) -> bytes:
        at = self.chance.randrange(8, len(request))
        value = self.chance.choice(HOSTILE)
        return request[:at] + value + request[at + len(value) :]

    def _tags(self, request: bytes) -> bytes:
        """Unknown tagged fields, right or wrong, where the body's own would stand."""
        key, version = int.from_bytes(request[:2], "big"), int.from_bytes(request[2:4], "big")
        if not is_flexible(key, version):
            return request + b"\x01\x63\x02hi"
        tags = self.chance.choice(
            [
                b"\x01\x63\x02hi",
                b"\x02\x63\x00\x64\x01z",
                b"\x01\x63\xff\xff\xff\xff\x0f",
                b"\xff\xff\xff\xff\x0f",
                b"\x02\x63\x01a\x63\x01a",
                b"\x01\x00\x01\x00",
            ]
        )
        return request[:-1] + tags

    def _header(self, request: bytes) -> bytes:
        chance = self.chance
        key = chance.choice([-1, 32767, -32768, 4, 7, 100, *[int(key) for key in ApiKey]])
        version = chance.choice([-1, 0, 1, 5, 20, 32767, -32768])
        return (
            key.to_bytes(2, "big", signed=True)
            + version.to_bytes(2, "big", signed=True)
            + request[4:]
        )

    def _noise(self, request: bytes) -> bytes:
        return request[:8] + self.chance.randbytes(self.chance.choice([0, 1, 10, 100, 1000]))

    # What is no frame -----------------------------------------------------------------------

    def broken_stream(self) -> bytes:
        """Bytes whose framing is wrong: the connection cannot continue after them."""
        chance = self.chance
        request = self.valid()
        shorter, longer = len(request) - chance.randint(1, 8), len(request) + chance.randint(1, 999)
        streams = [
            chance.randbytes(chance.choice([1, 3, 4, 8, 100, 5000])),
            SIZE.pack(chance.choice([-1, -(2**31), 2**31 - 1, 0, 1, 7])) + request,
            SIZE.pack(longer) + request,
            SIZE.pack(shorter) + request,
            frame(request)[: chance.randrange(1, len(request) + 4)],
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01\x02\x00" + chance.randbytes(100),
        ]
        return chance.choice(streams)
