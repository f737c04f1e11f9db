"""A file beside the SQLite store that only takes up room, and is given up when the disk is full.

Rules kept here:
1. A store that is closed has no log of changes, and opening it needs one: without room the broker
   would not start, and no topic could be deleted to make some. So the room for that is kept.
2. It is given up where SQLite finds none, and kept again once there is some: at the next opening
   or closing. That a reserve cannot be kept is no error.
"""

import os
import sqlite3
from pathlib import Path

RESERVED_BYTES = 1 << 20
"""What the store has to spare in its own two files while it is open."""
FILE_BYTES = RESERVED_BYTES + (128 << 10)
"""The log of changes with that in it, and its index."""
_SUFFIX = "-reserve"


def keep(store: Path) -> None:
    """Have the reserve, if there is room for it."""
    path = _path(store)
    try:
        if path.exists() and path.stat().st_size == FILE_BYTES:
            return
        path.touch(0o600)
        path.write_bytes(bytes(FILE_BYTES))
    except OSError:
        give_up(store)


def give_up(store: Path) -> None:
    """Give the room back, if some is kept."""
    try:
        os.unlink(_path(store))
    except OSError:
        pass


def lacks_room(problem: BaseException | None) -> bool:
    """True where SQLite failed because the disk is full."""
    # The last is the index of its log, which lies in a file too.
    name = getattr(problem, "sqlite_errorname", "") if isinstance(problem, sqlite3.Error) else ""
    return name.startswith(("SQLITE_FULL", "SQLITE_IOERR_SHM"))


def _path(store: Path) -> Path:
    return store.with_name(store.name + _SUFFIX)
