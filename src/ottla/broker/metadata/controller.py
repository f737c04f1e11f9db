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
from typing import TYPE_CHECKING, Final

import structlog

from ottla.audit.events import AUDIT_TOPIC
from ottla.broker.coordinators.coordinators import MOST_REPLICAS
from ottla.metadata.controller import Controller, has_controller, is_controller, take_role
from ottla.metadata.image import NO_EPOCH, Delta
from ottla.metadata.internal_topics import raise_replicas
from ottla.metadata.store import Conflict, Op, SessionEnded, StoreError

if TYPE_CHECKING:
    from ottla.broker.node import Node

log = structlog.get_logger()

AGAIN_SECONDS: Final = 1.0
RAISED_AT_ONCE: Final = 100


class Control:
    """What this broker does as controller, while it is."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._controller = Controller()
        self._acts = False
        self._work: asyncio.Task[None] | None = None
        self._image_moved = asyncio.Event()
        self._internal_topics_are_due = False

    def learned(self, delta: Delta) -> None:
        """The image has changed."""
        node = self._node
        self._image_moved.set()
        if node.broker_epoch == NO_EPOCH:
            return
        if not is_controller(node.image, node.id, node.broker_epoch):
            self._acts = False
            if not has_controller(node.image):
                self._begin_work()
            return
        if self._acts:
            self._controller.learned(node.image, delta)
        else:
            self._acts = True
            self._controller = Controller()
            self._controller.began(node.image)
            self._internal_topics_are_due = True
        if delta.brokers_up or not self._internal_topics().keys().isdisjoint(_topics_of(delta)):
            self._internal_topics_are_due = True
        self._begin_work()

    async def settle(self) -> None:
        """This broker has registered: see that there is a controller, and let it do its work."""
        self.learned(Delta())
        while self._work is not None:
            await asyncio.shield(self._work)

    async def stop(self) -> None:
        """Decide nothing more."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    def _begin_work(self) -> None:
        if self._work is None and self._node.running:
            self._work = asyncio.get_running_loop().create_task(self._do_work())

    async def _do_work(self) -> None:
        try:
            while ops := self._next_commit():
                self._image_moved.clear()
                try:
                    await self._node.store.commit(ops)
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
        finally:
            self._work = None

    def _next_commit(self) -> list[Op] | None:
        node = self._node
        if is_controller(node.image, node.id, node.broker_epoch):
            return self._controller.next_commit(node.image) or self._raised_topics()
        return take_role(node.image, node.id, node.broker_epoch)

    def _raised_topics(self) -> list[Op]:
        if not self._internal_topics_are_due:
            return []
        ops = raise_replicas(self._node.image, self._internal_topics(), RAISED_AT_ONCE)
        self._internal_topics_are_due = bool(ops)
        return ops

    def _internal_topics(self) -> dict[str, int]:
        """The topics that brokers make for themselves, and the replicas that they should have."""
        node = self._node
        made = {each.topic: each.replication_factor() for each in (node.groups, node.transactions)}
        return {**made, AUDIT_TOPIC: MOST_REPLICAS}

    async def _until_the_image_moves(self) -> None:
        try:
            async with asyncio.timeout(AGAIN_SECONDS):
                await self._image_moved.wait()
        except TimeoutError:
            pass


def _topics_of(delta: Delta) -> set[str]:
    topics = {each.name for each in (*delta.created_topics, *delta.changed_topics)}
    return topics | {each.topic for each in delta.changed_partitions}
