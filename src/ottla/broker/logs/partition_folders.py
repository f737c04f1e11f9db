"""The folders of this broker's partitions: which topic they belong to, and what becomes of others.

Rules kept here:
1. A folder belongs to a topic's id, not to its name. That of another topic is set aside, or deleted
   if the store has a record of that topic's deletion.
2. What checkpoints say of such a folder is forgotten first (OfAnotherTopicError). So it is where
   there is no folder but one that was deleted: the partition is new.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import structlog

from ottla.broker.logs.checkpoints import Key
from ottla.broker.logs.log_dir import LogDir
from ottla.broker.logs.log_manager import LogManager
from ottla.broker.logs.lost_logs import LostLogs
from ottla.log.storage.folder import FolderError, deleted_name, deleted_stem, stray_name
from ottla.metadata.image import Image, TopicImage

log = structlog.get_logger()


class LocalReplica(NamedTuple):
    """A replica of this broker that is to be opened, and what the checkpoints say of it."""

    topic: TopicImage
    partition: int
    directory: Path
    recovery_point: int
    start_offset: int
    term: int
    """How often the replica had been taken away from this broker when this was noted."""

    @property
    def key(self) -> Key:
        """The partition."""
        return self.topic.name, self.partition


class OfAnotherTopicError(Exception):
    """What the checkpoints say is of another folder: of another topic's, or of one that is gone."""


class PartitionFolders:
    """The folders of one broker's partitions."""

    def __init__(
        self, image: Image, log_dir: LogDir, log_manager: LogManager, lost: LostLogs
    ) -> None:
        self._image = image
        self._folder = log_dir.folder
        self._files = log_dir.files
        self._log_manager = log_manager
        self._checkpoints = log_manager.checkpoints
        self._lost = lost
        self._deleted = {stem for stem, _ in self._folder.deleted()}
        """Partitions that were deleted before this start, by the stem of their folders' names."""

    def is_of(self, topic: TopicImage, place: LocalReplica) -> bool:
        """Whether the folder belongs to this topic."""
        try:
            return self._folder.read_topic_id(place.directory) == topic.id
        except FolderError:
            return False

    def is_of_another_topic(self, place: LocalReplica) -> bool:
        """Whether the folder belongs to another topic with this name."""
        try:
            found = self._folder.read_topic_id(place.directory)
        except (OSError, FolderError):  # opening it says what is wrong
            return False
        return found is not None and found != place.topic.id

    def prepare(self, place: LocalReplica) -> LocalReplica:
        """Have a folder that belongs to this topic and not to an older one of the same name."""
        folder, files = self._folder, self._files
        directory = place.directory
        found = folder.read_topic_id(directory)
        if found == place.topic.id:
            return place
        if found is not None:
            if self._checkpoints.knows(place.key):
                raise OfAnotherTopicError
            self._take_away(place, found)
            place = place._replace(recovery_point=0, start_offset=0)
        if not files.exists(str(directory)):
            if deleted_stem(*place.key) in self._deleted and self._checkpoints.knows(place.key):
                raise OfAnotherTopicError
            place = self._begin_without_folder(place)
            files.mkdir(str(directory))
        folder.write_topic_id(directory, place.topic.id)
        return place

    def _take_away(self, place: LocalReplica, owner: UUID) -> None:
        """Make room where the folder of another topic with this name is."""
        if owner in self._image.deleted_topics:
            self._delete(place)
            return
        stray = place.directory.with_name(stray_name(*place.key))
        log.warning(
            "folder belongs to another topic with this name; renaming it",
            folder=place.directory.name,
            now=stray.name,
        )
        self._files.rename(str(place.directory), str(stray))

    def _begin_without_folder(self, place: LocalReplica) -> LocalReplica:
        """Where a log begins whose folder is not there: it is new, or its records are lost."""
        known = max(place.recovery_point, self._checkpoints.high_watermark(place.key))
        if known <= place.start_offset:
            return place
        start = self._lost.begins_at(place.key, place.topic, place.directory, known)
        if start is None:
            raise OfAnotherTopicError
        return place._replace(start_offset=start)

    def set_aside(self, place: LocalReplica) -> str:
        """Rename a folder and keep it; the new name. Raises OSError."""
        name = stray_name(*place.key)
        self._files.rename(str(place.directory), str(place.directory.with_name(name)))
        return name

    def delete_all(self, topic: TopicImage, places: list[LocalReplica]) -> None:
        """Delete the folders of replicas of a topic that have gone."""
        for place in places:
            try:
                if self._folder.read_topic_id(place.directory) == topic.id:
                    self._delete(place)
            except (OSError, FolderError) as problem:
                log.error(
                    "failed to delete the folder of a deleted partition; retrying at the next "
                    "start",
                    partition=place.directory.name,
                    reason=str(problem),
                )

    def _delete(self, place: LocalReplica) -> None:
        target = place.directory.with_name(deleted_name(*place.key))
        self._files.rename(str(place.directory), str(target))
        self._log_manager.remove_directory(target, place.key)
