"""This broker's place in the cluster: its registration, its lease, and its leaving.

Rules kept here:
1. A broker registers once it is bound. Its registration's epoch is its life.
2. Where the store may declare a broker dead that still runs, a lease says how long it may answer on
   its own; a store that never does so needs none.
3. Before it stops a broker asks for its leaders to be moved away, and waits for that a while.
4. A session that others have ended leaves no role. Where it can have been by mistake (silence), the
   broker begins another session and another life; where its process was declared dead, or another
   one has taken its id, it ends.
   The store tells of it, or another broker does while the store is out of reach. Clients are sent
   away for as long as that is so: a client that is connected to this broker alone would ask it for
   ever who leads.
5. A registration counts in the session that made it: what is heard of it after that session's end
   is nothing.
6. A registration that outlives its process (ZooKeeper keeps it for the session's timeout) is waited
   for, before it counts as another broker of the same id. One that this process has made itself is
   never another broker's, however long ZooKeeper takes to end its session.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final

import structlog

from ottla.broker.metadata.replacement import Replacement
from ottla.broker.metadata.stores import id_in_use
from ottla.broker.start_error import StartError
from ottla.metadata import documents
from ottla.metadata.controller import remaining
from ottla.metadata.image import NO_EPOCH
from ottla.metadata.store import Conflict, StoreError, Update
from ottla.replication.lease import Lease

if TYPE_CHECKING:
    from ottla.broker.node import Node

log = structlog.get_logger()

LEADERS_MOVED_WITHIN_SECONDS: Final = 20.0
LOOK_AGAIN_SECONDS: Final = 0.02
JOIN_AGAIN_SECONDS: Final = 0.2
MOST_PATIENCE: Final = 16.0
REJOIN_SECONDS: Final = 1.0
AS_REGISTERED: Final = 0
"""The version of a registration that was not changed."""


class IdInUseError(StartError):
    """Another broker has this one's id."""


class StoreLease(Lease):
    """A lease that reads what the store knows of its session. It ends once, with that session."""

    __slots__ = ("_node", "_over")

    def __init__(self, node: Node) -> None:
        super().__init__()
        self._node = node
        self._over = False

    def ended(self) -> None:
        """The session is over; its last answer may be a moment ago."""
        super().ended()
        self._over = True

    def held(self, now: float) -> bool:
        """Whether this broker may still answer on its own."""
        if self._over:
            return False
        facts = self._node.store.session_facts()
        self.answered(facts.answered, facts.timeout)
        return super().held(now)


class Membership:
    """The registration of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.epoch = NO_EPOCH
        self._latest_epoch = NO_EPOCH
        """Of the registration that this broker has, or had last."""
        self.storage: documents.Storage | None = None
        """What the logs are kept on."""
        self.lease: Lease | None = None
        self._replacement = Replacement(node)
        self._rejoining: asyncio.Task[None] | None = None
        self._ends = 0
        """How many sessions have been ended by others."""

    async def join(self) -> None:
        """Register; raises StartError."""
        node = self._node
        timeout = node.store.session_facts().timeout
        patience = 0.0 if math.isinf(timeout) else timeout + 1.0
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        ends = self._ends
        while True:
            try:
                registered = await node.store.register(
                    documents.broker_key(node.id), documents.encode(self._document())
                )
                break
            except Conflict:
                if loop.time() >= deadline and not self._is_own_registration():
                    raise IdInUseError(id_in_use(node.id)) from None
                await asyncio.sleep(JOIN_AGAIN_SECONDS)
            except StoreError as problem:
                raise StartError(str(problem)) from None
        if ends != self._ends:
            raise StartError("the session with the metadata store ended")
        self.lease = None if math.isinf(timeout) else StoreLease(node)
        self.epoch = self._latest_epoch = registered.epoch
        if self.lease is not None:
            node.producer_ids.prepare()
            self._replacement.watch(timeout)

    def _is_own_registration(self) -> bool:
        """Whether the id is taken by what is left of an earlier session of this process."""
        registered = self._node.image.brokers.get(self._node.id)
        return registered is not None and registered.epoch == self._latest_epoch

    def session_ended(self, reason: str, *, is_cut_off: bool = False) -> None:
        """Others have ended this broker's session: it has no role until it has another.

        Where it is cut off from the store that will take a while.
        """
        node = self._node
        self._ends += 1
        if not node.running or self._rejoining is not None:
            return
        log.error("session with the metadata store ended; leading no partitions", reason=reason)
        self.epoch = NO_EPOCH
        if self.lease is not None:
            self.lease.ended()
        node.metadata_changes += 1  # what it led, it leads no more
        node.roles.take_all()
        if is_cut_off:
            self._go_away()
        if math.isinf(node.store.session_facts().timeout):
            node.on_end(f"broker {node.id} lost its session: {reason}")
            return
        self._rejoining = asyncio.get_running_loop().create_task(self._rejoin())

    async def stop(self) -> None:
        """Join no more."""
        await self._replacement.stop()
        if self._rejoining is not None:
            self._rejoining.cancel()
            await asyncio.gather(self._rejoining, return_exceptions=True)

    async def _rejoin(self) -> None:
        node = self._node
        told, patience = "", 1.0
        try:
            while node.running and self.epoch == NO_EPOCH:
                try:
                    await node.renew_store(patience)
                    await self.join()
                except (StoreError, StartError) as problem:
                    self._go_away()
                    # A store that is slow, not gone, is reached by whoever waits long enough.
                    patience = min(patience * 2, MOST_PATIENCE)
                    if str(problem) != told:  # the store may be out of reach for hours
                        told = str(problem)
                        log.error("failed to register with the cluster again", reason=told)
                    if isinstance(problem, IdInUseError):
                        node.on_end(told)
                        return
                    await asyncio.sleep(REJOIN_SECONDS)
            node.away = False
        finally:
            self._rejoining = None
        await node.control.settle()
        node.roles.take_all()
        node.roles.claims.look_at_all()
        log.info("registered with the cluster again", epoch=self.epoch)

    def _go_away(self) -> None:
        if not self._node.away:
            self._node.away = True
            self._node.on_away()

    async def hand_over(self) -> None:
        """Let others lead what is led here, before this broker stops."""
        node = self._node
        if (
            self.epoch == NO_EPOCH
            or len(node.image.brokers) < 2
            or not node.config.controlled_shutdown_enable
        ):
            return
        leaving = documents.encode(self._document(shutting_down=True))
        change = Update(documents.broker_key(node.id), leaving, AS_REGISTERED)
        try:
            await node.store.commit([change])
            async with asyncio.timeout(LEADERS_MOVED_WITHIN_SECONDS):
                while remaining(node.image, node.id, self.epoch):  # noqa: ASYNC110 (rarely)
                    await asyncio.sleep(LOOK_AGAIN_SECONDS)
            await node.caught_up()
        except StoreError as problem:
            log.warning("controlled shutdown failed; leaders not moved", reason=str(problem))
        except TimeoutError:
            log.warning(
                "controlled shutdown timed out; some leaders not moved",
                left=len(remaining(node.image, node.id, self.epoch)),
            )

    def _document(self, *, shutting_down: bool = False) -> documents.Broker:
        node = self._node
        return documents.Broker(
            node.id,
            [
                documents.Endpoint(one.name, one.host, one.port, one.protocol)
                for one in node.advertised
            ],
            node.config.broker_rack,
            shutting_down,
            self.storage,
        )
