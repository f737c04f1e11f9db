"""The changes of one transaction of the SQLite store: checked in memory, then written.

The journal has no values of secret documents: an old credential must not stay readable. Watchers
read those documents themselves.
"""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from ottla.metadata.documents import is_secret
from ottla.metadata.store import Check, Conflict, Create, Delete, Op, Put, Update

_KEYS_IN_ONE_QUERY = 500


class _State(NamedTuple):
    """What a transaction knows about one key; no value: it was not touched."""

    version: int
    epoch: int
    session: int | None
    value: bytes | None = None
    seq: int = 0


class Changes:
    """The changes of one transaction: checked in memory, then written in a few statements."""

    def __init__(self, connection: sqlite3.Connection, seq: int) -> None:
        self._connection = connection
        self._seq = seq
        self._first = seq
        self._states: dict[str, _State | None] = {}
        self._journal: list[tuple[int, str, bytes | None, int, int]] = []

    def load(self, keys: Sequence[str]) -> None:
        """Read what is stored under the keys; must come before they are changed."""
        self._states.update(dict.fromkeys(keys))
        for start in range(0, len(keys), _KEYS_IN_ONE_QUERY):
            some = keys[start : start + _KEYS_IN_ONE_QUERY]
            marks = ",".join("?" * len(some))
            rows = self._connection.execute(
                f"SELECT key, version, epoch, session FROM documents WHERE key IN ({marks})", some
            )
            for key, version, epoch, session in rows:
                self._states[key] = _State(version, epoch, session)

    def apply(self, op: Op) -> int:
        """Do one operation, or raise Conflict."""
        state = self._states[op.key]
        if isinstance(op, Create):
            self.create(op.key, op.value, None)
            return 0
        if isinstance(op, Put):
            if state is None:
                self.create(op.key, op.value, None)
                return 0
            return self._update(op.key, op.value, state)
        if isinstance(op, Check) and op.version is None:
            if state is not None:
                raise Conflict(op.key)
            return -1
        if state is None or op.version not in (None, state.version):
            raise Conflict(op.key)
        if isinstance(op, Update):
            return self._update(op.key, op.value, state)
        if isinstance(op, Delete):
            self._note(op.key, None, state.version, state.epoch)
            self._states[op.key] = None
        return state.version

    def create(self, key: str, value: bytes, session: int | None) -> int:
        """Create a document; its epoch."""
        if self._states[key] is not None:
            raise Conflict(key)
        epoch = self._note(key, value, 0, self._seq + 1)
        self._states[key] = _State(0, epoch, session, value, epoch)
        return epoch

    def _update(self, key: str, value: bytes, state: _State) -> int:
        version = state.version + 1
        seq = self._note(key, value, version, state.epoch)
        self._states[key] = _State(version, state.epoch, state.session, value, seq)
        return version

    def _note(self, key: str, value: bytes | None, version: int, epoch: int) -> int:
        self._seq += 1
        stored = b"" if value is not None and is_secret(key) else value
        self._journal.append((self._seq, key, stored, version, epoch))
        return self._seq

    def write(self, journal_kept: int) -> None:
        """Bring the changes into the file's tables."""
        if self._seq == self._first:
            return
        connection = self._connection
        touched = dict.fromkeys(key for _, key, *_ in self._journal)
        kept = [(key, state) for key in touched if (state := self._states[key]) is not None]
        connection.executemany(
            "DELETE FROM documents WHERE key = ?",
            [(key,) for key in touched if self._states[key] is None],
        )
        connection.executemany(
            "REPLACE INTO documents (key, value, version, epoch, seq, session)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            [(key, s.value, s.version, s.epoch, s.seq, s.session) for key, s in kept],
        )
        connection.executemany(
            "INSERT INTO changes (seq, key, value, version, epoch) VALUES (?, ?, ?, ?, ?)",
            self._journal,
        )
        connection.execute("DELETE FROM changes WHERE seq <= ?", (self._seq - journal_kept,))
        connection.execute("UPDATE state SET seq = ?", (self._seq,))
