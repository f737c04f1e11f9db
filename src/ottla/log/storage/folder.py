"""A broker's data folder: its lock, its identity, its checkpoints, and the logs' folders in it.

Rules kept here:
1. One process owns the folder. The lock is the kernel's (flock), so a killed owner leaves none.
2. Every file is Kafka's, in Kafka's format, and is replaced as a whole: a crash leaves the old one
   or the new one.
3. A checkpoint only saves work or sharpens knowledge: one that cannot be read counts as missing, as
   in Kafka, and is warned about. A folder's identity is not like that: it is an error.
4. The clean shutdown file is removed before anything is written again.
5. `storage.properties` (Ottla's own) has the boot id of the machine, as of the last start, and the
   storage epoch. A start with another boot id that finds no mark of a clean stop raises the epoch:
   the page cache is gone, and with it what was not flushed. A damaged one gets an epoch that it
   never had. It has the directory id, too: the folder is the same one without meta.properties.
   Where the epoch is raised, high watermarks are lowered to the recovery points first.
"""

import base64
import errno
import fcntl
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from secrets import randbits
from typing import NamedTuple
from uuid import UUID, uuid4

import structlog

from ottla.log.storage.checkpoint import CorruptCheckpoint, decode_lines, encode_lines
from ottla.log.storage.files import DISK_IS_FULL, Files

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"

LOCK = ".lock"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
STORAGE_PROPERTIES = "storage.properties"
PARTITION_METADATA = "partition.metadata"

_PARTITION = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)", re.ASCII)
_DELETED = re.compile(r"\S+-\d+\.[0-9a-f]{32}-delete", re.ASCII)

_LONGEST_NAME = 255
_UNUSED_EPOCHS = 1 << 31
"""More restarts than a machine ever has."""

_log = structlog.get_logger()


class FolderError(Exception):
    """The data folder cannot be used; the message is one line for a person and names the folder."""


class PartitionFolder(NamedTuple):
    """A folder that holds a partition's log."""

    topic: str
    partition: int
    path: Path


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The identity of a data folder: meta.properties."""

    cluster_id: str
    node_id: int
    directory_id: UUID


def uuid_to_text(value: UUID) -> str:
    """An id as Kafka writes it: 22 characters of base64."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def uuid_from_text(text: str) -> UUID:
    """An id as Kafka writes it; raises ValueError."""
    return UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))


def deleted_name(topic: str, partition: int) -> str:
    """A name, Kafka's, for the folder of a deleted partition; a long topic name is shortened."""
    return _marked_name(topic, partition, "delete")


def deleted_stem(topic: str, partition: int) -> str:
    """What the names of a deleted partition's folders begin with, up to the dot."""
    return deleted_name(topic, partition).rpartition(".")[0]


def stray_name(topic: str, partition: int) -> str:
    """A name, Kafka's, for a folder whose partition this broker does not have."""
    return _marked_name(topic, partition, "stray")


def _marked_name(topic: str, partition: int, mark: str) -> str:
    suffix = f"-{partition}.{uuid4().hex}-{mark}"
    return topic[: _LONGEST_NAME - len(suffix)] + suffix


def _properties(text: bytes) -> dict[str, str]:
    lines = [line.partition("=") for line in text.decode(errors="replace").splitlines()]
    return {key.strip(): value.strip() for key, _, value in lines if not key.startswith("#")}


class DataFolder:
    """The folder `log.dirs` names."""

    def __init__(self, path: Path, files: Files | None = None) -> None:
        self.path = path
        self._files = files or Files()
        self._lock = -1

    # Owning -------------------------------------------------------------------------------

    def lock(self) -> None:
        """Make the folder if it is not there, and own it until unlock() or the process ends."""
        try:
            self.path.mkdir(0o700, parents=True, exist_ok=True)
            fd = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise FolderError(f"cannot use data folder {self.path}: {error.strerror}") from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise FolderError(
                f"data folder {self.path} is in use by another process; "
                "stop it, or choose another folder"
            ) from None
        self._lock = fd

    def unlock(self) -> None:
        """Let another process own the folder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def identify(self, cluster_id: str, node_id: int) -> MetaProperties:
        """Read the folder's identity, or write ours; raises FolderError if it is another's."""
        found = self.read_meta()
        if found is None:
            found = MetaProperties(cluster_id, node_id, self._known_directory() or uuid4())
            self.write_meta(found)
        elif self._lacks_directory_id():
            self.write_meta(found)
        if found.cluster_id != cluster_id or found.node_id != node_id:
            raise FolderError(
                f"data folder {self.path} belongs to node {found.node_id} of cluster "
                f"{found.cluster_id}, not to node {node_id} of cluster {cluster_id}"
            )
        return found

    def read_meta(self) -> MetaProperties | None:
        """The folder's cluster and node; None for a new folder. Raises FolderError."""
        text = self._read(self.path / META_PROPERTIES)
        if text is None:
            return None
        values = _properties(text)
        try:
            if values["version"] != "1":
                raise ValueError
            directory_id = values.get("directory.id")
            return MetaProperties(
                values["cluster.id"],
                int(values["node.id"]),
                uuid_from_text(directory_id)
                if directory_id
                else self._known_directory() or uuid4(),
            )
        except (KeyError, ValueError):
            raise FolderError(f"{self.path / META_PROPERTIES} is corrupt") from None

    def _lacks_directory_id(self) -> bool:
        text = self._read(self.path / META_PROPERTIES)
        return text is not None and not _properties(text).get("directory.id")

    def write_meta(self, meta: MetaProperties) -> None:
        """Write the folder's identity."""
        lines = (
            "version=1",
            f"cluster.id={meta.cluster_id}",
            f"node.id={meta.node_id}",
            f"directory.id={uuid_to_text(meta.directory_id)}",
            "",
        )
        self._replace(self.path / META_PROPERTIES, "\n".join(lines).encode())

    # Clean stops --------------------------------------------------------------------------

    def take_clean_mark(self) -> bool:
        """Whether the last stop was clean; removes the file, so that it holds for one start."""
        path = str(self.path / CLEAN_SHUTDOWN)
        if not self._files.exists(path):
            return False
        self._files.unlink(path)
        self._files.sync_directory(str(self.path))
        return True

    def storage_epoch(self, boot_id: str, directory_id: UUID | None = None) -> int:
        """How often what was written here may have been lost, this start included.

        To be asked before the mark of a clean stop is taken: a kill in between finds both again.
        A boot id that is not known, now or at the start before, is taken for the same one.
        """
        path = self.path / STORAGE_PROPERTIES
        text = self._read(path)
        values = {"storage.epoch": "0"} if text is None else _properties(text)
        before = values.get("boot.id", "")
        is_clean = self._files.exists(str(self.path / CLEAN_SHUTDOWN))
        try:
            epoch = int(values.get("storage.epoch", ""))
            if before and boot_id and before != boot_id and not is_clean:
                epoch += 1
                self._lower_high_watermarks()
        except ValueError:
            epoch = _UNUSED_EPOCHS + randbits(31)
            _log.warning(
                "storage properties file is corrupt; replacing it",
                file=str(path),
                storage_epoch=epoch,
            )
        lines = ["version=1", f"boot.id={boot_id or before}", f"storage.epoch={epoch}"]
        if directory_id is not None:
            lines.append(f"directory.id={uuid_to_text(directory_id)}")
        data = "\n".join([*lines, ""]).encode()
        if data != text:
            self._replace_also_when_full(path, data)
        return epoch

    def _lower_high_watermarks(self) -> None:
        """Take back what is known as committed above the recovery points: the page cache is lost.

        A truncation that was not synced is undone by that. Logs may end with records of an older
        leader epoch, at offsets that the checkpoint, which is synced, calls committed.
        """
        flushed = self.read_checkpoint(RECOVERY_POINTS)
        known = self.read_checkpoint(HIGH_WATERMARKS)
        lowered = {key: min(offset, flushed.get(key, 0)) for key, offset in known.items()}
        if lowered != known:
            try:
                self.write_checkpoint(HIGH_WATERMARKS, lowered)
            except OSError as problem:
                if problem.errno not in DISK_IS_FULL:
                    raise
                _log.warning("disk full; keeping the checkpoint", file=HIGH_WATERMARKS)

    def _replace_also_when_full(self, path: Path, data: bytes) -> None:
        """Replace a small file; on a full disk overwrite it, or do without one.

        What a crash leaves of a file that was overwritten is the old one, the new, or damaged.
        """
        try:
            self._replace(path, data)
            return
        except OSError as problem:
            if problem.errno not in DISK_IS_FULL:
                raise
        try:
            self._files.overwrite_file(str(path), data)
        except OSError as problem:
            if problem.errno not in {*DISK_IS_FULL, errno.ENOENT}:
                raise
            _log.warning("disk full; continuing without the file", file=str(path))

    def _known_directory(self) -> UUID | None:
        """The directory id as of the last start."""
        text = self._read(self.path / STORAGE_PROPERTIES)
        try:
            return uuid_from_text(_properties(text or b"")["directory.id"])
        except (KeyError, ValueError):
            return None

    def write_clean_mark(self, broker_epoch: int = -1) -> None:
        """Note that every log is closed and on disk."""
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        self._replace(self.path / CLEAN_SHUTDOWN, content.encode())

    # Checkpoints --------------------------------------------------------------------------

    def read_checkpoint(self, name: str) -> dict[tuple[str, int], int]:
        """Offsets by topic and partition. A file that is missing or damaged has none."""
        path = self.path / name
        data = self._read(path)
        if data is None:
            return {}
        offsets: dict[tuple[str, int], int] = {}
        try:
            for words in decode_lines(data):
                if len(words) != 3:
                    raise CorruptCheckpoint(f"not an entry: {' '.join(words)!r}")
                offsets[words[0], int(words[1])] = int(words[2])
        except CorruptCheckpoint as problem:
            _log.warning(
                "checkpoint file is corrupt; ignoring it", file=str(path), problem=str(problem)
            )
            return {}
        return offsets

    def write_checkpoint(self, name: str, offsets: dict[tuple[str, int], int]) -> None:
        """Write offsets by topic and partition."""
        lines = [f"{topic} {index} {offset}" for (topic, index), offset in offsets.items()]
        self._replace(self.path / name, encode_lines(lines))

    # The logs' folders --------------------------------------------------------------------

    def partition_path(self, topic: str, partition: int) -> Path:
        """The folder of a partition's log."""
        return self.path / f"{topic}-{partition}"

    def partitions(self) -> list[PartitionFolder]:
        """The partitions whose logs are here."""
        found = []
        for name in self._files.listdir(str(self.path)):
            match = _PARTITION.fullmatch(name)
            if match is not None:
                path = self.path / name
                found.append(PartitionFolder(match["topic"], int(match["partition"]), path))
        return found

    def deleted(self) -> list[tuple[str, Path]]:
        """Folders of deleted partitions that are still to be removed, each with its stem."""
        names = self._files.listdir(str(self.path))
        return [
            (name.rpartition(".")[0], self.path / name)
            for name in names
            if _DELETED.fullmatch(name)
        ]

    def link_files(self, directory: Path, name: str) -> None:
        """Keep the files of a partition under another folder's name, too; raises OSError.

        They must not be written to from now on. Files that go meanwhile are left out.
        """
        target = self.path / name
        self._files.mkdir(str(target))
        try:
            for file in self._files.listdir(str(directory)):
                try:
                    self._files.link(f"{directory}/{file}", f"{target}/{file}")
                except FileNotFoundError:
                    continue
            self._files.sync_directory(str(target))
            self._files.sync_directory(str(self.path))
        except OSError:
            self.empty(target)
            self.remove(target)
            raise

    def empty(self, directory: Path) -> None:
        """Remove the files of a deleted partition's folder; missing files are ignored."""
        try:
            for name in self._files.listdir(str(directory)):
                self._files.unlink_if_exists(f"{directory}/{name}")
        except FileNotFoundError:
            pass

    def remove(self, directory: Path) -> None:
        """Remove a deleted partition's folder that is empty; it may be gone already."""
        try:
            self._files.rmdir(str(directory))
        except FileNotFoundError:
            pass

    def read_topic_id(self, directory: Path) -> UUID | None:
        """The id of the topic a partition's folder belongs to; None if it was never noted.

        Raises FolderError if it is damaged.
        """
        path = directory / PARTITION_METADATA
        data = self._read(path)
        if not data or not data.strip(b"\0"):
            return None  # what a power loss leaves of a file that was not synced
        words = [line.split() for line in data.decode(errors="replace").splitlines()]
        try:
            (version_key, version), (id_key, text) = words[:2]
            if version_key != "version:" or int(version) < 0 or id_key != "topic_id:":
                raise ValueError
            return uuid_from_text(text)
        except ValueError:
            raise FolderError(f"{path} is corrupt") from None

    def write_topic_id(self, directory: Path, topic_id: UUID, *, sync: bool = False) -> None:
        """Note the topic's id in a partition's folder, before its first record is.

        Not waited for by default: ten thousand partitions would wait ten thousand times, and what
        a power loss leaves of the file is the id, nothing, or zeros.
        """
        text = f"version: 0\ntopic_id: {uuid_to_text(topic_id)}\n"
        path = str(directory / PARTITION_METADATA)
        self._files.replace_file(path, text.encode(), sync=sync)

    def _read(self, path: Path) -> bytes | None:
        try:
            return self._files.read_file(str(path))
        except FileNotFoundError:
            return None

    def _replace(self, path: Path, data: bytes) -> None:
        self._files.replace_file(str(path), data)
