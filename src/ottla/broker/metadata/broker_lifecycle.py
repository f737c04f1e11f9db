"""This broker's place in the cluster: its registration, its lease, and its leaving.

Rules kept here:
1. A broker registers once it is bound. Its registration has the broker epoch.
2. Where the store may declare a broker dead that still runs, a lease says how long it may answer on
   its own; a store that never does so needs none.
3. Before it stops a broker asks for its leaders to be moved, and waits for that a while.
4. A session that others have ended leaves no role. Where it can have been by mistake (silence), the
   broker begins another session, with a new broker epoch; where its process was declared dead, or
   another one has taken its id, it ends. The store tells of it, or another broker does while the
   store is out of reach. Clients are disconnected for as long as that is so: a client that is
   connected to this broker alone would ask it for ever who leads.
5. A registration counts in the session that made it: what is heard of it after that session's end
   is nothing.
6. A registration that outlives its process (ZooKeeper keeps it for the session's timeout) is waited
   for, before it counts as another broker of the same id. One that this process has made itself is
   never another broker's, however long ZooKeeper takes to end its session.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final

import structlog

from ottla.broker.context.broker_context import BrokerContext
from ottla.broker.metadata.controller import ControllerRole
from ottla.broker.metadata.fencing import FencingProbe
from ottla.broker.metadata.metadata_loader import MetadataLoader
from ottla.broker.metadata.producer_id_manager import ProducerIdManager
from ottla.broker.metadata.stores import id_in_use
from ottla.broker.replication.peers import Peers
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.broker.start_error import StartError
from ottla.config.listeners import Listener
from ottla.metadata import documents
from ottla.metadata.controller import remaining
from ottla.metadata.image import NO_EPOCH
from ottla.metadata.store import Conflict, StoreError, Update
from ottla.replication.lease import Lease

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

    __slots__ = ("_metadata", "_over")

    def __init__(self, metadata: MetadataLoader) -> None:
        super().__init__()
        self._metadata = metadata
        self._over = False

    def ended(self) -> None:
        """The session is over; its last answer may be a moment ago."""
        super().ended()
        self._over = True

    def held(self, now: float) -> bool:
        """Whether this broker may still answer on its own."""
        if self._over:
            return False
        facts = self._metadata.store.session_facts()
        self.answered(facts.answered, facts.timeout)
        return super().held(now)


class BrokerLifecycleManager:
    """The registration of one broker."""

    def __init__(
        self,
        context: BrokerContext,
        *,
        metadata: MetadataLoader,
        replica_manager: ReplicaManager,
        controller: ControllerRole,
        producer_ids: ProducerIdManager,
        peers: Peers,
    ) -> None:
        broker, config, _, image = context
        self._broker = broker
        self._config = config
        self._image = image
        self._metadata = metadata
        self._replica_manager = replica_manager
        self._controller = controller
        self._producer_ids = producer_ids
        self.advertised: tuple[Listener, ...] = ()
        """The listeners, as clients and other brokers reach them."""
        self.on_end: Callable[[str], object] = lambda _: None
        """Called where the broker cannot continue, with the reason in one line."""
        self.on_fenced: Callable[[], object] = lambda: None
        """Called when the broker is fenced and cannot serve clients."""
        self._latest_epoch = NO_EPOCH
        """Of the registration that this broker has, or had last."""
        self.storage: documents.Storage | None = None
        """What the logs are kept on."""
        self._replacement = FencingProbe(broker, image, peers, self.session_ended)
        self._rejoining: asyncio.Task[None] | None = None
        self._ends = 0
        """How many sessions have been ended by others."""

    async def join(self) -> None:
        """Register; raises StartError."""
        broker, store = self._broker, self._metadata.store
        timeout = store.session_facts().timeout
        patience = 0.0 if math.isinf(timeout) else timeout + 1.0
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        ends = self._ends
        while True:
            try:
                registered = await store.register(
                    documents.broker_key(broker.id), documents.encode(self._document())
                )
                break
            except Conflict:
                if loop.time() >= deadline and not self._is_own_registration():
                    raise IdInUseError(id_in_use(broker.id)) from None
                await asyncio.sleep(JOIN_AGAIN_SECONDS)
            except StoreError as problem:
                raise StartError(str(problem)) from None
        if ends != self._ends:
            raise StartError("the session with the metadata store ended")
        broker.lease = None if math.isinf(timeout) else StoreLease(self._metadata)
        broker.epoch = self._latest_epoch = registered.epoch
        if broker.lease is not None:
            self._producer_ids.prepare()
            self._replacement.watch(timeout)

    def _is_own_registration(self) -> bool:
        """Whether the id is taken by what is left of an earlier session of this process."""
        registered = self._image.brokers.get(self._broker.id)
        return registered is not None and registered.epoch == self._latest_epoch

    def session_ended(self, reason: str, *, is_cut_off: bool = False) -> None:
        """Others have ended this broker's session: it has no role until it has another.

        Where it is cut off from the store that will take a while.
        """
        broker = self._broker
        self._ends += 1
        if not broker.running or self._rejoining is not None:
            return
        log.error("session with the metadata store ended; leading no partitions", reason=reason)
        broker.epoch = NO_EPOCH
        if broker.lease is not None:
            broker.lease.ended()
        self._metadata.version += 1  # it no longer leads what it led
        self._replica_manager.take_all()
        if is_cut_off:
            self._fence()
        if math.isinf(self._metadata.store.session_facts().timeout):
            self.on_end(f"broker {broker.id} lost its session: {reason}")
            return
        self._rejoining = asyncio.get_running_loop().create_task(self._rejoin())

    async def stop(self) -> None:
        """Stop joining."""
        await self._replacement.stop()
        if self._rejoining is not None:
            self._rejoining.cancel()
            await asyncio.gather(self._rejoining, return_exceptions=True)

    async def _rejoin(self) -> None:
        broker = self._broker
        logged, patience = "", 1.0
        try:
            while broker.running and broker.epoch == NO_EPOCH:
                try:
                    await self._metadata.renew(patience)
                    await self.join()
                except (StoreError, StartError) as problem:
                    self._fence()
                    # A store that is only slow can be reached with a longer timeout.
                    patience = min(patience * 2, MOST_PATIENCE)
                    if str(problem) != logged:  # the store may be out of reach for hours
                        logged = str(problem)
                        log.error("failed to register with the cluster again", reason=logged)
                    if isinstance(problem, IdInUseError):
                        self.on_end(logged)
                        return
                    await asyncio.sleep(REJOIN_SECONDS)
            broker.fenced = False
            self._rejoining = None  # another end of the session begins another one
            await self._controller.settle()
            self._replica_manager.take_all()
            self._replica_manager.claims.look_at_all()
        except Exception as error:
            # A broker that serves nobody and does not try to come back must not stay.
            log.exception("failed to register with the cluster again; stopping")
            self._fence()
            self.on_end(f"broker {broker.id} failed to register again: {error!r}")
            return
        finally:
            if self._rejoining is asyncio.current_task():
                self._rejoining = None
        log.info("registered with the cluster again", epoch=broker.epoch)

    def _fence(self) -> None:
        if not self._broker.fenced:
            self._broker.fenced = True
            self.on_fenced()

    async def hand_over(self) -> None:
        """Let others lead what is led here, before this broker stops."""
        broker, image = self._broker, self._image
        if (
            broker.epoch == NO_EPOCH
            or len(image.brokers) < 2
            or not self._config.current.controlled_shutdown_enable
        ):
            return
        leaving = documents.encode(self._document(shutting_down=True))
        change = Update(documents.broker_key(broker.id), leaving, AS_REGISTERED)
        try:
            await self._metadata.commit([change])
            async with asyncio.timeout(LEADERS_MOVED_WITHIN_SECONDS):
                while remaining(image, broker.id, broker.epoch):  # noqa: ASYNC110 (rarely)
                    await asyncio.sleep(LOOK_AGAIN_SECONDS)
            await self._metadata.caught_up()
        except StoreError as problem:
            log.warning("controlled shutdown failed; leaders not moved", reason=str(problem))
        except TimeoutError:
            log.warning(
                "controlled shutdown timed out; some leaders not moved",
                left=len(remaining(image, broker.id, broker.epoch)),
            )

    def _document(self, *, shutting_down: bool = False) -> documents.BrokerRegistration:
        return documents.BrokerRegistration(
            self._broker.id,
            [
                documents.BrokerEndpoint(one.name, one.host, one.port, one.protocol)
                for one in self.advertised
            ],
            self._config.current.broker_rack,
            shutting_down,
            self.storage,
            bool(self._config.current.cordoned_log_dirs),
        )
