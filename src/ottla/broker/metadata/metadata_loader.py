"""The metadata store as this broker sees it: its session, the image, and changes of both.

Rules kept here:
1. The image is what the store says; nothing changes topics but a commit to the store. Changes come
   back through the watch and are applied in their order, also our own.
2. A request that changed the store is answered when its change is applied here.
3. There is one image object as long as the broker runs, so that every room can hold it. It never
   goes back: a new session applies the difference to what the store has now.
4. A change that fails to be applied is logged; the next ones are applied all the same.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol, TypeVar

import structlog

from ottla.broker.context.dynamic_config import DynamicConfig
from ottla.broker.metadata.stores import open_store
from ottla.config import BrokerConfig
from ottla.metadata import documents
from ottla.metadata.image import Delta, Image
from ottla.metadata.store import Change, Conflict, HistoryLost, Op, Store, StoreError
from ottla.wire.errors import ErrorCode, KafkaError

log = structlog.get_logger()

CONFLICTS_BEFORE_GIVING_UP: Final = 20
EXPLAINED_BY_LAG: Final = frozenset(
    {
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
T = TypeVar("T")


class MetadataSubscriber(Protocol):
    """Acts on what has changed in the metadata."""

    def learned(self, delta: Delta) -> None:
        """The image has changed; called at once."""

    async def publish(self, delta: Delta) -> None:
        """Apply a change to the rooms of the broker; called for one change after the other."""

    def session_ended(self, reason: str) -> None:
        """The session with the store was ended by others."""


class MetadataLoader:
    """Keeps the image up to date, and commits changes."""

    def __init__(self, config: DynamicConfig, image: Image) -> None:
        self._config = config
        self.image = image
        self.version = 0
        """Grows with every change of the metadata that clients see."""
        self._subscriber: MetadataSubscriber | None = None
        self._store: Store | None = None
        self._deltas: deque[Delta] = deque()
        self._publishing: asyncio.Task[None] | None = None

    @property
    def store(self) -> Store:
        """The metadata store, while the broker is open."""
        assert self._store is not None
        return self._store

    @property
    def config(self) -> BrokerConfig:
        """The settings in force."""
        return self._config.current

    # Sessions -----------------------------------------------------------------------------

    async def open(self, subscriber: MetadataSubscriber) -> None:
        """Begin a session and read everything; raises StoreError."""
        self._subscriber = subscriber
        wait = self.config.initial_broker_registration_timeout_ms / 1000
        self._store = await open_store(self.config, wait)
        self._store.on_session_end(subscriber.session_ended)
        snapshot = await self._store.watch(self._on_changes)
        self.image.apply(Change(*document) for document in snapshot)

    async def renew(self, patience: float) -> None:
        """Begin a new session, and learn what has changed since the last one ended.

        Raises StoreError, also where that is an older copy, or another cluster's: its topics are
        not those of this broker's logs. `patience` is how many session timeouts the store may take
        to answer.
        """
        assert self._store is not None
        assert self._subscriber is not None
        known = self._store.position()
        await self._store.close()
        session = self.config.broker_session_timeout_ms / 1000
        store = await open_store(self.config, session * patience)
        try:
            await store.check_history(known)
            store.on_session_end(self._subscriber.session_ended)
            snapshot = await store.watch(self._on_changes)
            found = Image.of(each for each in snapshot if each.key == documents.CLUSTER)
            if found.cluster_id != self.image.cluster_id:
                raise HistoryLost(self.config.ottla_store)
        except BaseException:
            await store.close()
            raise
        self._store = store
        self._on_changes(self.image.changes_to(snapshot))
        await self.caught_up()

    async def stop(self) -> None:
        """Apply nothing more. A change that is half applied waits for the next start."""
        if self._publishing is not None:
            self._publishing.cancel()
            await asyncio.gather(self._publishing, return_exceptions=True)

    async def close(self) -> None:
        """End the session."""
        try:
            if self._store is not None:
                await self._store.close()
        except StoreError as problem:  # nothing is lost: the next start ends the old session
            log.error("failed to close the metadata store", reason=str(problem))

    # Changing -----------------------------------------------------------------------------

    async def commit(self, ops: Sequence[Op]) -> list[int]:
        """Commit once, without waiting for the change to be applied; raises StoreError."""
        return await self.store.commit(ops)

    async def change(
        self,
        decide: Callable[[Image], tuple[T, list[Op]]],
        refusals: Callable[[T], Iterable[KafkaError]] = lambda _: (),
    ) -> T:
        """Decide on the image, commit, and return when the change is applied here.

        `decide` is called again when a concurrent change won. It refuses with a KafkaError, which
        passes through, or with some in its result (`refusals`). A refusal that an image which lags
        could explain is decided once more on what the store has now: a client may have asked
        another broker for a change just before.
        """
        is_fresh = False
        for _ in range(CONFLICTS_BEFORE_GIVING_UP):
            try:
                result, ops = decide(self.image)
                refused = [*refusals(result)]
            except KafkaError as problem:
                if is_fresh or problem.code not in EXPLAINED_BY_LAG:
                    raise
                refused = [problem.with_traceback(None)]  # whose frames have `refused`
            if not is_fresh and any(each.code in EXPLAINED_BY_LAG for each in refused):
                await self._learn_what_is_stored()
                is_fresh = True
                continue
            if ops:
                try:
                    await self.store.commit(ops)
                except Conflict:
                    await self._learn_what_is_stored()
                    continue
                await self.caught_up()
            return result
        raise StoreError("too many concurrent changes of the metadata; try again")

    async def _learn_what_is_stored(self) -> None:
        """Have everything in the image that was committed until now."""
        await self.store.catch_up()
        await self.caught_up()

    async def caught_up(self) -> None:
        """Wait until every change that the store has announced is applied."""
        # The store announces a commit to the loop before the commit returns.
        await asyncio.sleep(0)
        while self._publishing is not None:
            await asyncio.shield(self._publishing)

    # Applying -----------------------------------------------------------------------------

    def _on_changes(self, changes: list[Change]) -> None:
        assert self._subscriber is not None
        self.version += 1
        delta = self.image.apply(changes)
        self._deltas.append(delta)
        try:
            self._subscriber.learned(delta)
        except Exception:  # rule 4
            log.exception("failed to act on a metadata change")
        if self._publishing is None:
            self._publishing = asyncio.get_running_loop().create_task(self._publish_all())

    async def _publish_all(self) -> None:
        assert self._subscriber is not None
        try:
            while self._deltas:
                try:
                    await self._subscriber.publish(self._deltas.popleft())
                except Exception:  # rule 4
                    log.exception("failed to apply a metadata change")
        finally:
            self._publishing = None
