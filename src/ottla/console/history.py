"""24 hours of samples in SQLite: rings that survive a restart and never grow.

Rules kept here:
1. A series has a slot for each step of time in 24 hours; a new day's sample replaces the old one.
   At most `MOST_SERIES` series are kept: the file has a largest size.
2. A series is written only while it is not zero. Where a sample was taken and a series has none, it
   was zero; where no sample was taken, nothing is known and a chart has a gap.
3. A file that cannot be read is replaced: it holds nothing but charts.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Final

import structlog

log = structlog.get_logger()

DAY_SECONDS: Final = 24 * 3600
MOST_SERIES: Final = 2000
TAKEN: Final = "taken"
"""The series that says when samples were taken."""

_SCHEMA: Final = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS series (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, used INTEGER);
CREATE TABLE IF NOT EXISTS sample (
    series INTEGER NOT NULL, slot INTEGER NOT NULL, at INTEGER NOT NULL, value REAL NOT NULL,
    PRIMARY KEY (series, slot)
) WITHOUT ROWID;
"""

Line = list[float | None]


class History:
    """Samples by series; times are seconds since 1970."""

    def __init__(self, path: Path, step: int) -> None:
        """Opens or creates the file; raises OSError."""
        self._step = step
        self._slots = DAY_SECONDS // step
        self._lock = Lock()
        self._rates: dict[str, float] = {}
        self._database = _opened(path)

    def rates(self) -> dict[str, float]:
        """Messages a second by topic, at the last sample; topics at rest are left out."""
        return self._rates

    def add(self, at: int, values: Mapping[str, float], rates: Mapping[str, float]) -> None:
        """Take in one sample: the series that are not zero."""
        at -= at % self._step
        slot = at // self._step % self._slots
        with self._lock, self._database as database:
            rows = []
            for name, value in {TAKEN: 1.0, **values}.items():
                series = self._series(database, name, at)
                if series is not None:
                    rows.append((series, slot, at, value))
            database.executemany("INSERT OR REPLACE INTO sample VALUES (?, ?, ?, ?)", rows)
        self._rates = dict(rates)

    def _series(self, database: sqlite3.Connection, name: str, at: int) -> int | None:
        found = database.execute("SELECT id FROM series WHERE name = ?", (name,)).fetchone()
        if found is not None:
            database.execute("UPDATE series SET used = ? WHERE id = ?", (at, found[0]))
            return int(found[0])
        (count,) = database.execute("SELECT count(*) FROM series").fetchone()
        if count >= MOST_SERIES:
            old = database.execute(
                "SELECT id FROM series WHERE used < ? ORDER BY used LIMIT 1", (at - DAY_SECONDS,)
            ).fetchone()
            if old is None:
                return None
            database.execute("DELETE FROM sample WHERE series = ?", old)
            database.execute("DELETE FROM series WHERE id = ?", old)
        added = database.execute("INSERT INTO series (name, used) VALUES (?, ?)", (name, at))
        return added.lastrowid

    def lines(self, names: Sequence[str], now: int | None = None) -> tuple[list[int], list[Line]]:
        """The times of all samples of the last day, and each series at these times. Between two
        samples with a gap of time stands one without values, so that no line is drawn across.
        """
        with self._lock:
            taken = self._read(TAKEN)
            found = [self._read(name) for name in names]
        if not taken:
            return [], [[] for _ in names]
        first = (max(taken) if now is None else now) - DAY_SECONDS
        times: list[int] = []
        for at in sorted(at for at in taken if at > first):
            if times and at - times[-1] > 4 * self._step:
                times.append(times[-1] + self._step)
            times.append(at)
        lines: list[Line] = [
            [samples.get(at, 0.0) if at in taken else None for at in times] for samples in found
        ]
        return times, lines

    def _read(self, name: str) -> dict[int, float]:
        rows = self._database.execute(
            "SELECT at, value FROM sample WHERE series = (SELECT id FROM series WHERE name = ?)",
            (name,),
        )
        return dict(rows.fetchall())

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()


def _opened(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        return _connected(path)
    except sqlite3.DatabaseError as problem:
        log.warning(
            "history cannot be read; starting a new one", file=str(path), reason=str(problem)
        )
        for each in path.parent.glob(f"{path.name}*"):
            each.unlink()
        return _connected(path)


def _connected(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, check_same_thread=False)
    try:
        database.executescript(_SCHEMA)
    except BaseException:
        database.close()
        raise
    return database
