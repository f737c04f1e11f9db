"""A reserve file next to the SQLite store, which is deleted when the disk is full.

Rules kept here:
1. A closed store has no WAL, and opening it needs one: on a full disk the broker would not start,
   and no topic could be deleted to free space. So the room for it is reserved.
2. It is deleted when SQLite runs out of disk space, and written again once there is some: at the
   next opening or closing. Not being able to write it is no error.
"""

import os
import sqlite3
from pathlib import Path

RESERVED_BYTES = 1 << 20
"""What the store has to spare in its own two files while it is open."""
FILE_BYTES = RESERVED_BYTES + (128 << 10)
"""The WAL with that in it, and its index."""
_SUFFIX = "-reserve"


def keep(store: Path) -> None:
    """Write the reserve, if there is room for it."""
    path = _path(store)
    try:
        if path.exists() and path.stat().st_size == FILE_BYTES:
            return
        path.touch(0o600)
        path.write_bytes(bytes(FILE_BYTES))
    except OSError:
        give_up(store)


def give_up(store: Path) -> None:
    """Delete the reserve, if there is one."""
    try:
        os.unlink(_path(store))
    except OSError:
        pass


def lacks_room(problem: BaseException | None) -> bool:
    """True if SQLite failed because the disk is full."""
    # The last is the index of the WAL, which is in a file too.
    name = getattr(problem, "sqlite_errorname", "") if isinstance(problem, sqlite3.Error) else ""
    return name.startswith(("SQLITE_FULL", "SQLITE_IOERR_SHM"))


def _path(store: Path) -> Path:
    return store.with_name(store.name + _SUFFIX)
