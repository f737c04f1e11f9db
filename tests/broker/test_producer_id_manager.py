"""Producer ids: never twice, and not only while the store answers."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.metadata.producer_id_manager import BLOCK, ProducerIdManager
from ottla.broker.scheduling.background import Background
from ottla.metadata.store import Document, StoreError
from ottla.metadata.stores.sqlite_store import SqliteStore
from ottla.wire.errors import ErrorCode, KafkaError


class MovableStore:
    """A real store that can be out of reach."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.is_away = False

    async def read(self, key: str) -> Document | None:
        if self.is_away:
            raise StoreError("the store is unavailable")
        return await self._store.read(key)

    async def commit(self, ops: Any) -> Any:
        return await self._store.commit(ops)


class Host:
    """As much of a node as the source needs."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = MovableStore(store)
        self.background = Background()

    async def settled(self) -> None:
        await asyncio.gather(*self.background)

    def source(self) -> ProducerIdManager:
        return ProducerIdManager(self, self.background)


def with_store(folder: Path, claim: Callable[[SqliteStore], Awaitable[None]]) -> None:
    async def run() -> None:
        store = await SqliteStore.open(folder / "metadata.db", "broker-0")
        try:
            await claim(store)
        finally:
            await store.close()

    asyncio.run(run())


def test_two_brokers_never_give_out_the_same_id(tmp_path: Path) -> None:
    async def claim(store: SqliteStore) -> None:
        hosts = [Host(store), Host(store)]
        sources = [host.source() for host in hosts]
        given = await asyncio.gather(
            *(source.next() for _ in range(2 * BLOCK) for source in sources)
        )
        assert len(set(given)) == 4 * BLOCK
        for host in hosts:
            await host.settled()

    with_store(tmp_path, claim)


def test_a_spare_block_outlasts_a_store_that_is_down(tmp_path: Path) -> None:
    async def claim(store: SqliteStore) -> None:
        host = Host(store)
        source = host.source()
        source.prepare()
        await host.settled()
        host.store.is_away = True
        given = [await source.next() for _ in range(BLOCK)]
        assert given == list(range(BLOCK))
        with pytest.raises(KafkaError) as refused:
            await source.next()
        assert refused.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        host.store.is_away = False
        assert await source.next() == BLOCK
        await host.settled()

    with_store(tmp_path, claim)
