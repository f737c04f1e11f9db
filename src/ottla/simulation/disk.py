"""A host's disk: real files in memory, and what of them a power loss would leave.

The files lie in a folder of a memory file system, which stands for the page cache: the broker
reads, writes and sends them with the kernel's own calls. Beside them it is kept what has been
synced.

Rules kept here:
1. A killed process loses nothing: the page cache survives it.
2. A power loss leaves of a file what was synced, and any of the sectors written since; of a folder,
   the entries that were synced and the first few changes after that.
3. Names, like sizes, are in one order everywhere: what a folder lists is sorted.
4. A fault (a full disk, an error of the device) is raised before anything has changed, or, of a
   write, after a part of it.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final, TypeVar, cast

from ottla.log.storage.files import Bytes, Files

SECTOR: Final = 512
T = TypeVar("T")


@dataclass(slots=True)
class _Folder:
    """A folder: what a power loss leaves for certain, and what was changed since."""

    synced: dict[str, int] = field(default_factory=dict)
    changes: list[tuple[str, int | None]] = field(default_factory=list)
    """A name, and the file that it has got, or None where it has gone."""


class SimulatedDisk:
    """One host's disk."""

    def __init__(self, root: Path, chance: Random) -> None:
        self.root = root
        self.chance = chance
        self.full = False
        self.broken = False
        """Writes and syncs fail with EIO."""
        self._synced: dict[int, bytes] = {}
        """The content of each file (by inode) when it was synced last."""
        self._contents: dict[int, int] = {}
        """A descriptor for each inode, so that a file can be read that has lost its name."""
        self._folders: dict[str, _Folder] = {}
        root.mkdir(parents=True, exist_ok=True)

    # What the broker's Files do -----------------------------------------------------------

    def attach(self, files: Files) -> None:
        """Let these file calls go to this disk."""
        files.open = self._open
        files.close = os.close
        files.pread = self._pread
        files.preadv = os.preadv
        files.pwrite = self._pwrite
        files.fsync = self._fsync
        files.fdatasync = self._fsync
        files.ftruncate = os.ftruncate
        files.rename = self._rename
        files.link = self._link
        files.unlink = self._unlink
        files.mkdir = self._mkdir
        files.rmdir = self._rmdir
        files.listdir = lambda path: sorted(os.listdir(path))
        files.stat = os.stat
        files.utime = os.utime

    def _refuse_writes(self) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _open(self, path: str, flags: int, mode: int) -> int:
        creates = bool(flags & os.O_CREAT) and not os.path.exists(path)
        if creates:
            self._refuse_writes()
        fd = os.open(path, flags, mode)
        if creates:
            self._changed(path, self._keep(fd))
        return fd

    def _keep(self, fd: int) -> int:
        """Remember a file as long as the disk is there; its number."""
        inode = os.fstat(fd).st_ino
        if inode not in self._contents:
            self._contents[inode] = os.dup(fd)
            self._synced[inode] = b""
        return inode

    def _pread(self, fd: int, size: int, position: int) -> bytes:
        return os.pread(fd, size, position)

    def _pwrite(self, fd: int, data: Bytes, position: int) -> int:
        self._refuse_writes()
        return os.pwrite(fd, data, position)

    def _fsync(self, fd: int) -> None:
        if self.broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        status = os.fstat(fd)
        path = os.readlink(f"/proc/self/fd/{fd}")
        folder = self._folders.get(path)
        if os.path.isdir(path):
            if folder is not None:
                _apply(folder, len(folder.changes))
            return
        self._synced[status.st_ino] = os.pread(fd, status.st_size, 0)

    def _rename(self, old: str, new: str) -> None:
        inode = os.stat(old).st_ino
        os.replace(old, new)
        self._changed(old, None)
        self._changed(new, inode)
        if os.path.isdir(new):
            self._move_folder(old, new)

    def _move_folder(self, old: str, new: str) -> None:
        for path in [path for path in self._folders if f"{path}/".startswith(f"{old}/")]:
            self._folders[new + path[len(old) :]] = self._folders.pop(path)

    def _link(self, old: str, new: str) -> None:
        self._refuse_writes()
        os.link(old, new)
        self._changed(new, os.stat(new).st_ino)

    def _unlink(self, path: str) -> None:
        os.unlink(path)
        self._changed(path, None)

    def _mkdir(self, path: str) -> None:
        self._refuse_writes()
        os.mkdir(path, 0o700)
        self._changed(path, os.stat(path).st_ino)
        self._folders[path] = _Folder()

    def _rmdir(self, path: str) -> None:
        os.rmdir(path)
        self._changed(path, None)
        self._folders.pop(path, None)

    def _changed(self, path: str, inode: int | None) -> None:
        folder, name = os.path.split(path)
        self._folders.setdefault(folder, _Folder()).changes.append((name, inode))

    # What happens to it -------------------------------------------------------------------

    def lose_power(self) -> None:
        """Leave what was synced, and a part of the rest."""
        chance = self.chance
        for folder in self._folders.values():
            _apply(folder, chance.randint(0, len(folder.changes)))
            folder.changes.clear()
        files = {inode: self._after_power_loss(inode) for inode in sorted(self._contents)}
        is_folder = set(self._folders)
        for path in sorted(self._folders):
            if path != str(self.root) and not self._is_reachable(path):
                continue
            self._write_again(path, files, is_folder)
        for path in list(self._folders):
            if path != str(self.root) and not os.path.isdir(path):
                del self._folders[path]

    def _is_reachable(self, path: str) -> bool:
        parent, name = os.path.split(path)
        folder = self._folders.get(parent)
        if folder is None:
            return True
        if name not in folder.synced:
            shutil.rmtree(path, ignore_errors=True)
            return False
        return os.path.isdir(path)

    def _write_again(self, path: str, files: dict[int, bytes], folders: set[str]) -> None:
        synced = self._folders[path].synced
        for name in sorted(os.listdir(path)):
            full = os.path.join(path, name)
            if name not in synced and not (full in folders and os.path.isdir(full)):
                if os.path.isdir(full):
                    shutil.rmtree(full)
                else:
                    os.unlink(full)
        for name, inode in sorted(synced.items()):
            full = os.path.join(path, name)
            if os.path.isdir(full) or inode not in files:
                continue
            if os.path.lexists(full):
                os.unlink(full)
            fd = os.open(full, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                os.pwrite(fd, files[inode], 0)
                again = self._keep(fd)
                self._synced[again] = files[inode]
                synced[name] = again
            finally:
                os.close(fd)

    def _after_power_loss(self, inode: int) -> bytes:
        """The content of a file: each sector written since the last sync is there or is not."""
        fd = self._contents[inode]
        now = os.pread(fd, os.fstat(fd).st_size, 0)
        before = self._synced[inode]
        if now == before:
            return now
        chance = self.chance
        kind = chance.random()
        if kind < 0.3:
            return before
        if kind < 0.5:
            return now
        shorter, longer = sorted((len(before), len(now)))
        sectors = chance.randint(shorter // SECTOR, longer // SECTOR) * SECTOR
        size = max(shorter, chance.choice([len(before), len(now), sectors]))
        result = bytearray(before.ljust(size, b"\0")[:size])
        for start in range(0, size, SECTOR):
            if now[start : start + SECTOR] != before[start : start + SECTOR] and (
                chance.random() < 0.5
            ):
                piece = now[start : min(start + SECTOR, size)]
                result[start : start + len(piece)] = piece
        return bytes(result)

    def remove_folder(self, name: str) -> None:
        """What an operator does to a damaged partition: its folder is gone, for good."""
        path = str(self.root / name)
        shutil.rmtree(path, ignore_errors=True)
        self._folders.pop(path, None)
        root = self._folders.setdefault(str(self.root), _Folder())
        root.synced.pop(name, None)
        root.changes = [change for change in root.changes if change[0] != name]

    def replace(self) -> None:
        """An empty disk in its place."""
        for name in os.listdir(self.root):
            full = self.root / name
            shutil.rmtree(full) if full.is_dir() else full.unlink()
        self._folders.clear()

    def forget(self) -> None:
        """The simulation is over."""
        for fd in self._contents.values():
            os.close(fd)
        self._contents.clear()
        shutil.rmtree(self.root, ignore_errors=True)


def _apply(folder: _Folder, count: int) -> None:
    """Make the first changes durable."""
    for name, inode in folder.changes[:count]:
        if inode is None:
            folder.synced.pop(name, None)
        else:
            folder.synced[name] = inode
    del folder.changes[:count]


def simulated_init(find_disk: Callable[[], SimulatedDisk | None]) -> Callable[[Files], None]:
    """What `Files.__init__` does in a simulation: the calls go to the disk of the process."""
    real = cast(Any, Files.__init__)

    def init(files: Files) -> None:
        real(files)
        disk = find_disk()
        if disk is not None:
            disk.attach(files)

    return init
