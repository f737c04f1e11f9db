"""Producer ids: each given out once, ever, allocated from the store in blocks.

Rules kept here:
1. A block belongs to this broker once the store has it; a restart skips what is left of one.
2. Beside the block in use there is a spare one, taken before it is needed: a store that is
   unavailable for a while stops no new producer.
3. Where there is no id and the store does not answer, the client is to ask again: it gets
   COORDINATOR_LOAD_IN_PROGRESS, as from Kafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

import structlog

from ottla.broker.scheduling.background import Background
from ottla.metadata import documents
from ottla.metadata.store import Conflict, Create, Document, Op, StoreError, Update
from ottla.wire.errors import ErrorCode, KafkaError

log = structlog.get_logger()

BLOCK: Final = 1000


class DocumentStore(Protocol):
    """As much of a metadata store as is needed here."""

    async def read(self, key: str) -> Document | None:
        """A document; raises StoreError."""

    async def commit(self, ops: Sequence[Op]) -> object:
        """Commit; raises StoreError."""


class StoreHolder(Protocol):
    """Has the store of the present session."""

    @property
    def store(self) -> DocumentStore:
        """The metadata store."""


class ProducerIdManager:
    """Gives out ids from blocks of this broker's own."""

    def __init__(self, metadata: StoreHolder, background: Background) -> None:
        self._metadata = metadata
        self._background = background
        self._free = range(0)
        self._spare = range(0)
        self._taking: asyncio.Future[None] | None = None

    def prepare(self) -> None:
        """See that there is a spare block, soon; nobody waits for it."""
        if not self._spare:
            self._take()

    async def next(self) -> int:
        """An id that no producer has had; raises KafkaError."""
        while not self._free:
            if not self._spare:
                try:
                    await asyncio.shield(self._take())
                except StoreError as problem:
                    raise KafkaError(
                        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no producer id: {problem}"
                    ) from None
            # While this one waited, others may have used up what came.
            if not self._free:
                self._free, self._spare = self._spare, range(0)
        first, self._free = self._free[0], self._free[1:]
        self.prepare()
        return first

    def _take(self) -> asyncio.Future[None]:
        """Take a spare block, unless that is under way; the outcome."""
        if self._taking is None:
            self._taking = asyncio.get_running_loop().create_future()
            self._background.run(self._take_spare(self._taking))
        return self._taking

    async def _take_spare(self, done: asyncio.Future[None]) -> None:
        try:
            while not self._spare:
                self._spare = await self._take_block()
        except StoreError as problem:
            log.warning("failed to allocate a block of producer ids", reason=str(problem))
            done.set_exception(problem)
            done.exception()  # seen by who waits, if anyone does
        except BaseException:
            done.cancel()
            raise
        else:
            done.set_result(None)
        finally:
            self._taking = None

    async def _take_block(self) -> range:
        """The next block, or none if another broker was faster."""
        store = self._metadata.store
        stored = await store.read(documents.PRODUCER_IDS)
        first = documents.decode(stored.value, documents.ProducerIds).next if stored else 0
        value = documents.encode(documents.ProducerIds(first + BLOCK))
        op: Op = Create(documents.PRODUCER_IDS, value)
        if stored is not None:
            op = Update(documents.PRODUCER_IDS, value, stored.version)
        try:
            await store.commit([op])
        except Conflict:
            return range(0)
        return range(first, first + BLOCK)
