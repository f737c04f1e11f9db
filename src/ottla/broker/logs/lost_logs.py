"""Replicas whose logs are lost: damaged, or their folders gone while they count as in sync.

Rules kept here:
1. Such a replica leaves the ISR before it does anything else: it must not lead, nor be taken for in
   sync after a restart. Until then its checkpoints stay, which show that records are missing.
2. Where the folder is gone it begins empty then, as a new replica does, and copies everything from
   its leader. A damaged log stays offline: a person decides what becomes of it.
3. The only replica of a partition continues from the offset at which the lost records ended.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import structlog

from ottla.broker.logs.checkpoints import Key
from ottla.broker.replicas.isr_leaving import IsrLeaving
from ottla.log.segments.scan import CorruptLog
from ottla.log.storage.folder import FolderError
from ottla.metadata.image import Delta, Image, TopicImage

log = structlog.get_logger()


class LostLogError(CorruptLog):
    """The folder of a replica that counts as in sync is gone, and its records with it."""


class LostLogs:
    """The lost logs of one broker; `begin_empty` opens a replica as a new one."""

    def __init__(
        self,
        broker_id: int,
        image: Image,
        isr_leaving: IsrLeaving,
        begin_empty: Callable[[TopicImage, int], object],
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._isr_leaving = isr_leaving
        self._begin_empty = begin_empty
        self._lost: dict[Key, bool] = {}
        """True where the folder is gone."""

    def learned(self, delta: Delta) -> None:
        """Partitions have changed: see who has to leave an ISR, or has left it."""
        for state in delta.changed_partitions if self._lost else ():
            key = (state.topic, state.index)
            topic = self._image.topics.get(state.topic)
            if key not in self._lost or topic is None:
                continue
            if self._is_in_sync(key):
                self._isr_leaving.leave(key, topic.id, is_lost=True)
            elif self._lost.pop(key):
                self._begin_empty(topic, key[1])

    def failed(self, key: Key, topic: TopicImage, problem: Exception) -> None:
        """A log cannot be opened: let the others continue without it."""
        is_lost = isinstance(problem, CorruptLog | FolderError)
        if is_lost:
            self._lost[key] = isinstance(problem, LostLogError)
        self._isr_leaving.leave(key, topic.id, is_lost=is_lost)

    def forget(self, key: Key) -> None:
        """The replica was deleted, or moved away."""
        self._lost.pop(key, None)

    def begins_at(self, key: Key, topic: TopicImage, directory: Path, known: int) -> int | None:
        """Where a log begins whose folder is gone, with records below a known offset.

        None where it begins as a new one. Raises LostLogError where it must leave the ISR first.
        """
        if len(topic.assignment[key[1]]) == 1:
            log.error(
                "partition folder is missing; its records are lost",
                partition=directory.name,
                next_offset=known,
            )
            return known
        if self._is_in_sync(key):
            raise LostLogError(
                f"{directory} and its records below {known} are missing; it is copied again "
                "when another in-sync replica leads"
            )
        log.warning(
            "partition folder is missing; copying it from the leader", partition=directory.name
        )
        return None

    def _is_in_sync(self, key: Key) -> bool:
        state = self._image.partitions.get(key)
        return state is not None and self._broker_id in state.isr
