"""Producer ids: each given out once, ever, cut from the store in blocks."""

import asyncio
from typing import Final

from ottla.cluster import documents
from ottla.cluster.store import Conflict, Create, Op, Store, Update

BLOCK: Final = 1000


class ProducerIdSource:
    """Gives out ids from a block of this broker's own; a restart skips what is left of it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._free = range(0)
        self._taking = asyncio.Lock()

    async def next(self) -> int:
        """An id that no producer has had."""
        async with self._taking:
            while not self._free:
                self._free = await self._take_block()
            first, self._free = self._free[0], self._free[1:]
            return first

    async def _take_block(self) -> range:
        """The next block, or none if somebody else was faster."""
        stored = await self._store.read(documents.PRODUCER_IDS)
        first = documents.decode(stored.value, documents.ProducerIds).next if stored else 0
        value = documents.encode(documents.ProducerIds(first + BLOCK))
        op: Op = Create(documents.PRODUCER_IDS, value)
        if stored is not None:
            op = Update(documents.PRODUCER_IDS, value, stored.version)
        try:
            await self._store.commit([op])
        except Conflict:
            return range(0)
        return range(first, first + BLOCK)
