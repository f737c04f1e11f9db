"""Folders in the data folder that no partition of this broker claims.

A kill between a topic's deletion and the removal of its folders leaves some behind; so does a
replica that is moved away while its broker is down.

Rules kept here:
1. A folder is judged by the topic's id in it, not by its name. It is stray where the metadata have
   no such topic, or have this replica of it on other brokers only.
2. The metadata are whole and of this cluster: all of them are read when a broker opens, from the
   quorum where there is one; a document that cannot be read ends the start, and so does a data
   folder of another cluster, or one with partitions beside a store that has nothing.
3. A stray folder is deleted only where the metadata have a record that its topic was deleted. Any
   other is renamed, as in Kafka (`-stray`), and logged once: a metadata store restored from an
   old copy does not know the topics made since, and their records would be gone. So it is where
   the deletion is so old that its record is no longer kept.
4. A folder without an id may be anyone's. It is left alone.
5. What checkpoints say of it is forgotten first, or it would count for a topic made later.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

import structlog

from ottla.broker.logs.checkpoints import Key
from ottla.broker.logs.log_dir import LogDir
from ottla.broker.logs.log_manager import LogManager
from ottla.broker.replicas.partitions import Partitions
from ottla.log.storage.folder import (
    FolderError,
    PartitionFolder,
    deleted_name,
    deleted_stem,
    stray_name,
)
from ottla.metadata.image import Image

log = structlog.get_logger()


class _Fate(Enum):
    """What becomes of a folder."""

    KEPT = "kept"
    STRAY = "stray"
    DELETED = "deleted"


class StraySweep:
    """Looks through the data folder once, at the start."""

    def __init__(
        self,
        broker_id: int,
        image: Image,
        partitions: Partitions,
        log_dir: LogDir,
        log_manager: LogManager,
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._partitions = partitions
        self._folder = log_dir.folder
        self._files = log_dir.files
        self._log_manager = log_manager

    async def sweep(self, to_be_opened: Collection[Key]) -> None:
        """Finish deletions that a stop interrupted, and set aside what nobody claims."""
        known = {deleted_stem(*key): key for key in self._log_manager.checkpoints.known()}
        for stem, directory in self._folder.deleted():
            self._log_manager.remove_directory(directory, known.get(stem))
        stray: list[PartitionFolder] = []
        deleted: list[PartitionFolder] = []
        unknown: list[str] = []
        for each in self._folder.partitions():
            key = (each.topic, each.partition)
            if key in to_be_opened or self._partitions.get(*key) is not None:
                continue
            fate = self._fate_of(each)
            if fate is _Fate.STRAY:
                stray.append(each)
            elif fate is _Fate.DELETED:
                deleted.append(each)
            elif each.topic not in self._image.topics:
                unknown.append(each.path.name)
        if unknown:
            log.warning(
                "ignoring folders that belong to no topic",
                count=len(unknown),
                folders=", ".join(unknown[:10]),
            )
        if deleted:
            await self._delete(deleted)
        if stray:
            await self._set_aside(stray)

    def _fate_of(self, folder: PartitionFolder) -> _Fate:
        try:
            topic_id = self._folder.read_topic_id(folder.path)
        except (OSError, FolderError):
            return _Fate.KEPT
        if topic_id is None:
            return _Fate.KEPT
        topic = self._image.topics_by_id.get(topic_id)
        if topic is None:
            return _Fate.DELETED if topic_id in self._image.deleted_topics else _Fate.STRAY
        if topic.name != folder.topic:
            return _Fate.KEPT  # it was renamed
        assignment = topic.assignment
        if folder.partition < len(assignment) and self._broker_id in assignment[folder.partition]:
            return _Fate.KEPT
        return _Fate.STRAY

    async def _delete(self, folders: list[PartitionFolder]) -> None:
        """Delete the folders of topics that were deleted while this broker was down."""
        names = []
        try:
            await self._log_manager.checkpoints.forget(
                (each.topic, each.partition) for each in folders
            )
            for each in folders:
                if self._fate_of(each) is not _Fate.DELETED:
                    continue
                target = each.path.with_name(deleted_name(each.topic, each.partition))
                self._files.rename(str(each.path), str(target))
                self._log_manager.remove_directory(target, (each.topic, each.partition))
                names.append(each.path.name)
        except OSError as problem:  # the next start tries again
            log.error(
                "failed to delete folders of deleted topics; retrying at the next start",
                reason=str(problem),
            )
        if names:
            log.info(
                "deleted folders of topics that were deleted while this broker was down",
                count=len(names),
                folders=", ".join(names[:10]),
            )

    async def _set_aside(self, strays: list[PartitionFolder]) -> None:
        names = []
        try:
            await self._log_manager.checkpoints.forget(
                (each.topic, each.partition) for each in strays
            )
            for each in strays:
                if self._fate_of(each) is not _Fate.STRAY:
                    continue  # it was moved here meanwhile, or is deleted already
                name = stray_name(each.topic, each.partition)
                self._files.rename(str(each.path), str(each.path.with_name(name)))
                names.append(name)
        except OSError as problem:  # the next start tries again
            log.error(
                "failed to rename stray folders; retrying at the next start", reason=str(problem)
            )
        if names:
            log.warning(
                "found stray folders, of unknown topics or of partitions of other brokers; "
                "renamed them. Delete them if you do not need their records",
                count=len(names),
                folders=", ".join(names[:10]),
            )
