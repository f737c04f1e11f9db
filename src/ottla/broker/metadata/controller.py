"""The controller's role on this broker: taking it, and committing what it decides.

Rules kept here (the decisions are in `metadata/controller.py`):
1. A registered broker takes the role when nobody has it.
2. One commit is under way at a time. After a conflict the image must move before the next one.
3. A session that has ended commits nothing more.
4. When nothing else is left to do, internal topics get the replicas that they lack, if there are
   brokers for them (`metadata/internal_topics.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from ottla.broker.context.broker_state import BrokerState
from ottla.broker.context.metadata_writer import MetadataWriter
from ottla.broker.scheduling.supervised import SupervisedTask
from ottla.metadata.controller import Controller, has_controller, is_controller, take_role
from ottla.metadata.image import NO_EPOCH, Delta, Image
from ottla.metadata.internal_topics import raise_replicas
from ottla.metadata.store import Conflict, Op, SessionEnded, StoreError

log = structlog.get_logger()

AGAIN_SECONDS: Final = 1.0
RAISED_AT_ONCE: Final = 100


class ControllerRole:
    """What this broker does as controller, while it is."""

    def __init__(
        self,
        broker: BrokerState,
        image: Image,
        metadata: MetadataWriter,
        internal_topics: Callable[[], dict[str, int]],
    ) -> None:
        """`internal_topics`: those that brokers create, and the replicas that they should have."""
        self._broker = broker
        self._image = image
        self._metadata = metadata
        self._internal_topics = internal_topics
        self._controller = Controller()
        self._acts = False
        self._work = SupervisedTask("controller", self._do_work)
        self._image_moved = asyncio.Event()
        self._internal_topics_are_due = False

    def learned(self, delta: Delta) -> None:
        """The image has changed."""
        image, me = self._image, self._broker
        self._image_moved.set()
        if me.epoch == NO_EPOCH:
            return
        if not is_controller(image, me.id, me.epoch):
            self._acts = False
            if not has_controller(image):
                self._begin_work()
            return
        if self._acts:
            self._controller.learned(image, delta)
        else:
            self._acts = True
            self._controller = Controller()
            self._controller.began(image)
            self._internal_topics_are_due = True
        if delta.brokers_up or not self._internal_topics().keys().isdisjoint(_topics_of(delta)):
            self._internal_topics_are_due = True
        self._begin_work()

    async def settle(self) -> None:
        """This broker has registered: see that there is a controller, and let it do its work."""
        self.learned(Delta())
        await self._work.settled()

    async def stop(self) -> None:
        """Decide nothing more."""
        await self._work.stop()

    def _begin_work(self) -> None:
        if self._broker.running:
            self._work.begin()

    async def _do_work(self) -> None:
        while ops := self._next_commit():
            self._image_moved.clear()
            try:
                await self._metadata.commit(ops)
            except Conflict:
                await self._until_the_image_moves()
            except SessionEnded:
                return
            except StoreError as problem:
                log.error(
                    "controller failed to commit to the metadata store; retrying",
                    reason=str(problem),
                )
                await asyncio.sleep(AGAIN_SECONDS)

    def _next_commit(self) -> list[Op] | None:
        image, me = self._image, self._broker
        if is_controller(image, me.id, me.epoch):
            return self._controller.next_commit(image) or self._raised_topics()
        return take_role(image, me.id, me.epoch)

    def _raised_topics(self) -> list[Op]:
        if not self._internal_topics_are_due:
            return []
        ops = raise_replicas(self._image, self._internal_topics(), RAISED_AT_ONCE)
        self._internal_topics_are_due = bool(ops)
        return ops

    async def _until_the_image_moves(self) -> None:
        try:
            async with asyncio.timeout(AGAIN_SECONDS):
                await self._image_moved.wait()
        except TimeoutError:
            pass


def _topics_of(delta: Delta) -> set[str]:
    topics = {each.name for each in (*delta.created_topics, *delta.changed_topics)}
    return topics | {each.topic for each in delta.changed_partitions}
