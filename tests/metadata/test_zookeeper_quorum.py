"""The store over three real servers: one of them dies or falls silent, or the quorum goes."""

import asyncio
from collections.abc import Iterator
from itertools import count

import pytest

from ottla.metadata.store import Put, Registration, StoreError
from ottla.metadata.stores.zookeeper_address import parse_address
from ottla.metadata.stores.zookeeper_store import ZooKeeperStore
from testkit.waiting import stretched
from testkit.zookeeper_servers import Ensemble, ZooKeeperServer, running_ensemble

from .stores import Watcher, on_a_loop

TIMEOUT = 6.0
_numbers = count()


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with running_ensemble(tmp_path_factory.mktemp("quorum"), size=3) as ensemble:
        yield ensemble


class Fault:
    """Two stores with watchers; the session of the first must live through what is done."""

    def __init__(self, quorum: Ensemble) -> None:
        self.address = quorum.address(f"/quorum/{next(_numbers)}")
        self.watcher = Watcher()
        self.store: ZooKeeperStore
        self.other: ZooKeeperStore
        self.registration: Registration

    async def __aenter__(self) -> "Fault":
        self.store, self.other = [
            await ZooKeeperStore.open(
                parse_address(self.address), name, session_timeout=stretched(TIMEOUT)
            )
            for name in ("one", "other")
        ]
        self.registration = await self.store.register("brokers/1", b"")
        await self.watcher.watch(self.other)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.store.close()
        await self.other.close()

    def server(self, quorum: Ensemble) -> ZooKeeperServer:
        """The one that the first store is connected to."""
        peer = self.store._session._client._connection._socket.getpeername()
        return next(one for one in quorum.servers if one.port == peer[1])

    async def goes_on(self) -> None:
        """Commits work, are seen by the other store, and nothing was lost."""
        await self.store.commit([Put("after", b"")])
        await self.watcher.until(lambda: "after" in self.watcher.documents)
        assert self.watcher.documents["brokers/1"].epoch == self.registration.epoch
        assert sorted(self.watcher.documents.values()) == await self.store.scan("")


@on_a_loop
async def test_commits_and_sessions_survive_the_death_of_the_leader(quorum: Ensemble) -> None:
    async with Fault(quorum) as fault:
        leader = quorum.leader()
        leader.kill()
        await fault.goes_on()
        await asyncio.to_thread(leader.restart)


@on_a_loop
async def test_a_server_that_falls_silent_is_left(quorum: Ensemble) -> None:
    async with Fault(quorum) as fault:
        silent = fault.server(quorum)
        silent.pause()
        try:
            await fault.goes_on()
        finally:
            silent.resume()


@on_a_loop
async def test_without_a_quorum_changes_fail_in_time_and_sessions_live_on(
    quorum: Ensemble,
) -> None:
    async with Fault(quorum) as fault:
        killed = quorum.servers[:2]
        for server in killed:
            server.kill()
        with pytest.raises(StoreError):
            await fault.store.commit([Put("during", b"")])
        for server in killed:
            server.start()
        for server in killed:
            await asyncio.to_thread(server.wait_until_up)
        await fault.goes_on()
