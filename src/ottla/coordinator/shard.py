"""What every coordinator shard and the runtime that drives it say to each other.

A shard is the state of one partition of `__consumer_offsets` or `__transaction_state`.

Rules kept by every shard:
1. A handler decides and returns a Result; it waits for nothing and knows no clock: `now` is
   passed in, in milliseconds. It is the wall clock, which can be set: it is for what is kept or
   reported to clients (when an offset was committed, when a transaction began).
2. Durable state changes in `replay(record)` and nowhere else. The runtime calls it right after
   the records of a Result were appended, before any other handler runs, and for every record of
   the partition when it is loaded. What Kafka keeps in memory only is changed by handlers.
3. What is measured in elapsed time has a timer: `expire(key, now)` is called when its delay has
   passed, whatever the wall clock did meanwhile. One that was set again or cancelled never fires.
4. `loaded(now)` follows the replay of a whole partition, and sets up its timers.
5. What cannot be written is refused before anything is changed: a Result's records fit into one
   batch, or it says that they can be divided, and then each of them fits. The limit is passed in.
6. Every Deferred token is completed exactly once, in a later Result, or answered by the runtime
   with NOT_COORDINATOR when the shard is dropped.
7. What is to happen outside of its partition is asked for as an Effect.
8. `replay` skips a record whose type or version is not known, and counts it in `skipped`.

Rules kept by the runtime:
1. A Result's records are appended as one batch (or several, where it says so), then replayed,
   before anything else is handled.
2. Replies and completions are held until all records appended before them are committed.
3. Effects are held in the same way: an effect makes a decision known, which must not be lost then.
   What becomes of one is reported to the shard that asked for it (that object, not one that was
   loaded later), or to nobody.
4. Where an append fails the whole shard is dropped and loaded again from its partition, unless its
   handler is known to have changed nothing.
"""

from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct

from ottla.wire.message import Message

R = TypeVar("R")


class CoordinatorRecord(Struct, frozen=True, gc=False):
    """One record of the shard's partition."""

    key: bytes
    value: bytes | None
    """None deletes what the key names."""
    parsed: object = None
    """What key and value say, where the record's maker knows it, so that the replay after the
    append need not read the bytes again. Records that were read from the log do not have it."""


class RequestContext(Struct, frozen=True, gc=False):
    """What a handler may know of a request beside its message."""

    version: int
    client_id: str = ""
    client_host: str = ""
    """The client's address as Kafka prints it: "/127.0.0.1"."""
    sees_topic: Callable[[str], bool] | None = None
    """Whether the client may describe a topic: patterns match no other. None: it may all."""


class Deferred(Struct, frozen=True, gc=False):
    """Instead of a reply: it will come as a completion with this token, unique in the shard."""

    token: int


class Completion(Struct, frozen=True, gc=False):
    """The reply to a request that was parked."""

    token: int
    reply: Message


class SetTimer(Struct, frozen=True, gc=False):
    """Call `expire(key, now)` after a delay; takes the place of an earlier timer with this key."""

    key: Hashable
    delay_ms: int


class CancelTimer(Struct, frozen=True, gc=False):
    """Forget the timer with this key, if there is one."""

    key: Hashable


class ProducerIdentity(NamedTuple):
    """The transactional producer in whose name records are appended."""

    producer_id: int
    producer_epoch: int


class Effect(Struct, frozen=True, gc=False):
    """What a shard asks the runtime to do outside of its partition: the base of every kind."""


class UnknownRecordError(Exception):
    """A record whose type or version this broker does not know."""


class Result(Struct, Generic[R]):
    """What a handler decided. Where there is nobody to answer, R is None."""

    reply: R | Deferred
    records: list[CoordinatorRecord] = []
    completions: list[Completion] = []
    """Replies to requests parked by earlier Results, and by this one."""
    timers: list[SetTimer | CancelTimer] = []
    """To be applied in order."""
    effects: list[Effect] = []
    """To be carried out once the records are committed."""
    producer: ProducerIdentity | None = None
    """Where set, the records are part of this producer's transaction: they are appended as a
    transactional batch, and take effect when its marker follows."""
    is_atomic: bool = True
    """False where each record makes sense alone, as deletions do: they may be several batches."""
