"""Disks that can be filled: a small file system of its own for each folder, or a limit on files.

Rules kept here:
1. A full disk has no byte left; what is there stays. When it is freed there is room again.
2. Mounting needs root. Without it the size of a process's files is limited instead: it cannot write
   past what its largest log has now, which fails in the same places.
3. `close` leaves no mount; what is to be kept is in the folder afterwards.
"""

import os
import resource
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

ROOM = "8g"
"""What a disk may hold; a tmpfs takes memory only for what is in it."""
SLACK = 64 * 1024


class Disk(Protocol):
    """Something that can be full."""

    def fill(self) -> None:
        """No byte more from now on."""

    def free(self) -> None:
        """There is room again."""

    def close(self, keep: bool) -> None:
        """Let go of it, and keep what is on it or not."""


def can_mount(folder: Path) -> bool:
    """True if this user may mount a file system."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    folder.mkdir(parents=True)
    try:
        disk = MountedDisk(folder)
    except OSError:
        return False
    disk.close(keep=False)
    return True


class MountedDisk:
    """A tmpfs over a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        _run("mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(folder))

    def fill(self) -> None:
        """Make the disk as small as what is on it."""
        for _ in range(20):
            found = os.statvfs(self._folder)
            used = (found.f_blocks - found.f_bfree) * found.f_frsize
            try:
                self._resize(str(used))
            except OSError:
                continue  # it has grown meanwhile
            return
        self._resize(str(used + SLACK))

    def free(self) -> None:
        """Give it its size back."""
        self._resize(ROOM)

    def _resize(self, size: str) -> None:
        _run("mount", "-o", f"remount,size={size}", str(self._folder))

    def close(self, keep: bool) -> None:
        """Unmount."""
        kept = self._folder.with_name(self._folder.name + ".kept")
        if keep:
            shutil.copytree(self._folder, kept)
        _run("umount", "--lazy", str(self._folder))
        if keep:
            self._folder.rmdir()
            kept.rename(self._folder)


class LimitedFiles:
    """A limit on the size of a process's files."""

    def __init__(self, folder: Path, pid: Callable[[], int]) -> None:
        self._folder = folder
        self._pid = pid

    def fill(self) -> None:
        """Nothing past the end of the largest log."""
        sizes = [path.stat().st_size for path in self._folder.glob("*/*.log")]
        self._limit(max(sizes, default=0))

    def free(self) -> None:
        """No limit."""
        self._limit(resource.RLIM_INFINITY)

    def _limit(self, size: int) -> None:
        _, hard = resource.prlimit(self._pid(), resource.RLIMIT_FSIZE)
        resource.prlimit(self._pid(), resource.RLIMIT_FSIZE, (size, hard))

    def close(self, keep: bool) -> None:
        """Nothing was made."""


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
