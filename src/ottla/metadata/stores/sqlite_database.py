"""The SQLite file behind the store: tables, transactions and the change journal. One thread only.

1. `documents` is what is stored. `changes` is the journal: every change in commit order, so that
   other processes learn of deletions too. Only the newest rows stay; a watcher that is further
   behind compares all documents with those it knew.
2. The counter in `state` numbers every change without a hole. A document's `seq` is its last
   change, its `epoch` the one that created it.
3. A write transaction begins IMMEDIATE, so that it never fails half way for a lock, and first
   checks that the session still exists: a dead session cannot write.
4. WAL with synchronous=FULL: a commit returns after its fsync.
5. A full disk keeps neither the store from being opened nor topics from being deleted: both files
   have some spare room, and where that is not enough the reserve file is deleted.
6. A row of the journal identifies its change. Where the last one that a watcher has seen is another
   one now, or the counter has gone back, the file was restored from a copy: HistoryLost.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from ottla.metadata.documents import is_secret
from ottla.metadata.store import (
    Change,
    Delete,
    Document,
    HistoryLost,
    Op,
    Registration,
    SessionEnded,
    StoreError,
    StorePosition,
    UnknownOutcome,
)
from ottla.metadata.stores import sqlite_reserve
from ottla.metadata.stores.sqlite_changes import Changes
from ottla.metadata.stores.sqlite_reserve import RESERVED_BYTES, lacks_room

FORMAT = 1
JOURNAL_KEPT = 50_000
T = TypeVar("T")

_SCHEMA = """
CREATE TABLE documents (
    key TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL,
    epoch INTEGER NOT NULL, seq INTEGER NOT NULL, session INTEGER
) WITHOUT ROWID;
CREATE INDEX documents_by_seq ON documents (seq);
CREATE INDEX documents_by_session ON documents (session) WHERE session IS NOT NULL;
CREATE TABLE changes (
    seq INTEGER PRIMARY KEY, key TEXT NOT NULL, value BLOB,
    version INTEGER NOT NULL, epoch INTEGER NOT NULL
);
CREATE TABLE sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL UNIQUE);
CREATE TABLE state (seq INTEGER NOT NULL);
INSERT INTO state VALUES (0);
"""


class Database:
    """An open file with a session of its own in it."""

    def __init__(self, path: Path, owner: str, lock_timeout: float, journal_kept: int) -> None:
        self.path = path
        self._journal_kept = journal_kept
        self._file = (0, 0)
        self._with_room(lambda: self._open(lock_timeout), self._give_up_reserve)
        try:
            self._session = self._with_more_room(lambda: self._begin_session(owner))
            with self._one_line_errors():
                self._data_version = self._read_data_version()
                self._file = _identity(path)
        except BaseException:
            self._connection.close()
            raise
        sqlite_reserve.keep(path)

    def _open(self, lock_timeout: float) -> None:
        with self._one_line_errors():
            _make_private(self.path)
            self._connection = sqlite3.connect(
                self.path, timeout=lock_timeout, isolation_level=None
            )
        try:
            with self._one_line_errors():
                self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        execute = self._connection.execute
        execute("PRAGMA journal_mode=WAL")
        execute("PRAGMA synchronous=FULL")
        execute("PRAGMA secure_delete=ON")
        (made_by,) = execute("PRAGMA user_version").fetchone()
        if made_by > FORMAT:
            raise StoreError(
                f"{self.path}: the metadata store was written by a newer version of Ottla"
            )
        if made_by == 0:
            # Two processes may find a new file at once: the lock decides who makes the tables.
            execute("BEGIN IMMEDIATE")
            if execute("PRAGMA user_version").fetchone() == (0,):
                for statement in _SCHEMA.split(";"):
                    execute(statement)
                execute(f"PRAGMA user_version={FORMAT}")
            execute("COMMIT")
        self._reserve()

    def _reserve(self) -> None:
        """Reserve some room in both files, as far as the disk has it.

        The WAL keeps its largest size while the file is open, and is reused from its beginning
        after a checkpoint: often enough for it not to grow.
        """
        execute = self._connection.execute
        execute(f"PRAGMA wal_autocheckpoint={RESERVED_BYTES // 5000}")
        try:
            # First checkpoint the WAL that a killed process left: it may be as long as it ever was.
            self._checkpoint()
            if self._has_reserved():
                return
            execute("CREATE TABLE IF NOT EXISTS reserve (room BLOB)")
            execute("INSERT INTO reserve VALUES (zeroblob(?))", (RESERVED_BYTES,))
            execute("DELETE FROM reserve")
            self._checkpoint()
        except sqlite3.Error as problem:
            if not lacks_room(problem):
                raise

    def _has_reserved(self) -> bool:
        """True if the files have their spare room already."""
        execute = self._connection.execute
        (free,), (page,) = (
            execute(f"PRAGMA {name}").fetchone() for name in ("freelist_count", "page_size")
        )
        try:
            log = self.path.with_name(self.path.name + "-wal").stat().st_size
        except OSError:
            return False
        return bool(min(free * page, log) >= RESERVED_BYTES)

    def _checkpoint(self) -> None:
        """Checkpoint the WAL, so that it is reused from its beginning."""
        self._connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()

    def _begin_session(self, owner: str) -> int:
        with self._one_line_errors(), self._transaction() as changes:
            self._end_session(owner, changes)
            row = self._connection.execute(
                "INSERT INTO sessions (owner) VALUES (?) RETURNING id", (owner,)
            ).fetchone()
        session: int = row[0]
        return session

    def read(self, key: str) -> Document | None:
        """One document."""
        with self._one_line_errors():
            row = self._connection.execute(
                "SELECT key, value, version, epoch FROM documents WHERE key = ?", (key,)
            ).fetchone()
        return Document(*row) if row else None

    def scan(self, prefix: str) -> list[Document]:
        """The documents whose keys begin so."""
        query = "SELECT key, value, version, epoch FROM documents"
        with self._one_line_errors():
            if prefix:
                end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
                rows = self._connection.execute(
                    f"{query} WHERE key >= ? AND key < ? ORDER BY key", (prefix, end)
                )
            else:
                rows = self._connection.execute(f"{query} ORDER BY key")
            return [Document(*row) for row in rows]

    def commit(self, ops: Sequence[Op]) -> list[int]:
        """All operations in one transaction."""

        def commit(changes: Changes) -> list[int]:
            changes.load([op.key for op in ops])
            return [changes.apply(op) for op in ops]

        versions = self._write(commit)
        if any(is_secret(op.key) for op in ops):
            self._erase_log()
        return versions

    def _erase_log(self) -> None:
        """Leave no copy of an old secret in the WAL, unless a reader is using it."""
        try:
            with self._one_line_errors():
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                self._reserve()
        except StoreError:
            pass  # the change itself is stored; the WAL is erased with the next one

    def register(self, key: str, value: bytes) -> Registration:
        """A document that belongs to the session."""

        def register(changes: Changes) -> Registration:
            changes.load([key])
            return Registration(key, changes.create(key, value, self._session))

        return self._write(register)

    def declare_dead(self, owner: str) -> None:
        """End the session of that name, if there is one, and all that it registered."""
        self._write(lambda changes: self._end_session(owner, changes))

    def close(self) -> None:
        """End the own session, if it has not been ended already, and close the file."""
        try:
            with self._one_line_errors(), self._transaction() as changes:
                self._end_session_id(self._session, changes)
        finally:
            self._connection.close()
            sqlite_reserve.keep(self.path)

    def snapshot(self) -> tuple[list[Document], StorePosition]:
        """All documents, and the last change in them."""
        with self._one_line_errors(), self._reading():
            documents = self.scan("")
            return documents, self._position()

    def changes_after(
        self, seen: StorePosition, known: Mapping[str, tuple[int, int]]
    ) -> tuple[list[Change], StorePosition]:
        """The changes since, and the last one of them.

        `known` has version and epoch of every document as of `seen`; it is needed when the journal
        does not reach back so far.
        """
        with self._one_line_errors(), self._reading():
            self._check_history(seen)
            last = self._position()
            rows = self._connection.execute(
                "SELECT key, value, version, epoch FROM changes WHERE seq > ? ORDER BY seq",
                (seen.number,),
            ).fetchall()
            if len(rows) == last.number - seen.number:
                return self._with_secrets([Change(*row) for row in rows], known), last
            return self._difference(seen.number, known), last

    def _with_secrets(
        self, changes: list[Change], known: Mapping[str, tuple[int, int]]
    ) -> list[Change]:
        """The changes with the values that the journal lacks: of each secret only the last."""
        if not any(is_secret(change.key) for change in changes):
            return changes
        whole: list[Change] = []
        sent = set(known)
        for change in changes:
            if not is_secret(change.key):
                whole.append(change)
            elif change.value is None:
                if change.key in sent:
                    whole.append(change)
            else:
                found = self.read(change.key)
                if found is not None and found[2:] == change[2:]:
                    whole.append(Change(*found))
                    sent.add(change.key)
        return whole

    def check_history(self, seen: StorePosition) -> None:
        """Raise HistoryLost if that was not the last change once."""
        with self._one_line_errors(), self._reading():
            self._check_history(seen)

    def _check_history(self, seen: StorePosition) -> None:
        token = self._token(seen.number)
        if self._last_seq() < seen.number or token not in ("", seen.token):
            raise HistoryLost(str(self.path))

    def _position(self) -> StorePosition:
        last = self._last_seq()
        return StorePosition(last, self._token(last))

    def _token(self, seq: int) -> str:
        """What identifies a change; empty if it is no longer in the journal."""
        row = self._connection.execute(
            "SELECT key, version, epoch, value FROM changes WHERE seq = ?", (seq,)
        ).fetchone()
        if row is None:
            return ""
        *which, value = row
        return sha256(repr(which).encode() + (value or b"")).hexdigest()

    def was_replaced(self) -> bool:
        """True if the path names another file than the one that is open, or none."""
        try:
            return _identity(self.path) != self._file
        except OSError:  # the disk does not say; reading does, if it fails
            return False

    def session_lives(self) -> bool:
        """False when the session was ended by another connection."""
        with self._one_line_errors():
            return self._has_session()

    def changed_elsewhere(self) -> bool:
        """True when another connection has committed since the last call."""
        with self._one_line_errors():
            version = self._read_data_version()
        changed, self._data_version = version != self._data_version, version
        return changed

    def _difference(self, seq: int, known: Mapping[str, tuple[int, int]]) -> list[Change]:
        execute = self._connection.execute
        present = {key for (key,) in execute("SELECT key FROM documents")}
        changes = [
            Change(key, None, version, epoch)
            for key, (version, epoch) in known.items()
            if key not in present
        ]
        rows = execute(
            "SELECT key, value, version, epoch FROM documents WHERE seq > ? ORDER BY seq", (seq,)
        )
        changes.extend(Change(*row) for row in rows)
        return changes

    def _end_session(self, owner: str, changes: Changes) -> None:
        row = self._connection.execute(
            "SELECT id FROM sessions WHERE owner = ?", (owner,)
        ).fetchone()
        if row:
            self._end_session_id(row[0], changes)

    def _end_session_id(self, session: int, changes: Changes) -> None:
        execute = self._connection.execute
        rows = execute("SELECT key FROM documents WHERE session = ? ORDER BY seq", (session,))
        keys = [key for (key,) in rows]
        changes.load(keys)
        for key in keys:
            changes.apply(Delete(key))
        execute("DELETE FROM sessions WHERE id = ?", (session,))

    def _last_seq(self) -> int:
        last: int = self._connection.execute("SELECT seq FROM state").fetchone()[0]
        return last

    def _read_data_version(self) -> int:
        version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        return version

    def _has_session(self) -> bool:
        row = self._connection.execute("SELECT 1 FROM sessions WHERE id = ?", (self._session,))
        return row.fetchone() is not None

    @contextmanager
    def _reading(self) -> Iterator[None]:
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("COMMIT")

    @contextmanager
    def _writing(self) -> Iterator[Changes]:
        with self._transaction() as changes:
            if not self._has_session():
                raise SessionEnded(
                    f"{self.path}: this broker's session was ended by another process"
                )
            yield changes

    @contextmanager
    def _transaction(self) -> Iterator[Changes]:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            changes = Changes(connection, self._last_seq())
            yield changes
            changes.write(self._journal_kept)
        except BaseException:
            self._roll_back()
            raise
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            # The commit record may have reached the file though its fsync failed.
            if error.sqlite_errorname.startswith("SQLITE_IOERR"):
                raise UnknownOutcome(
                    f"{self.path}: disk error while writing the metadata store: {error}"
                ) from error
            raise

    def _roll_back(self) -> None:
        # After some errors SQLite has rolled back by itself.
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _write(self, work: Callable[[Changes], T]) -> T:
        def write() -> T:
            with self._one_line_errors(), self._writing() as changes:
                return work(changes)

        return self._with_more_room(write)

    def _with_more_room(self, work: Callable[[], T]) -> T:
        # Another process may have filled the WAL, and not yet checkpointed it.
        return self._with_room(work, self._try_to_checkpoint, self._give_up_reserve)

    def _with_room(self, work: Callable[[], T], *make_room: Callable[[], object]) -> T:
        """Run it; where the disk is full, free space one step at a time and retry."""
        for make in make_room:
            try:
                return work()
            except UnknownOutcome:
                raise  # it may be done: not twice
            except StoreError as problem:
                if not lacks_room(problem.__cause__):
                    raise
                make()
        return work()

    def _try_to_checkpoint(self) -> None:
        try:
            self._checkpoint()
        except sqlite3.Error:
            pass  # the next way may help

    def _give_up_reserve(self) -> None:
        sqlite_reserve.give_up(self.path)

    @contextmanager
    def _one_line_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: {_reason(error)}") from error


def _make_private(path: Path) -> None:
    """Let only the owner read the file; SQLite gives its other files the same mode."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except OSError:
        pass  # SQLite says what is wrong with it


def _identity(path: Path) -> tuple[int, int]:
    """Which file that is; (0, 0) where there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_dev, found.st_ino


def _reason(error: sqlite3.Error) -> str:
    name = getattr(error, "sqlite_errorname", "")
    for start, reason in (
        ("SQLITE_BUSY", "the metadata store is locked by another program"),
        ("SQLITE_READONLY", "the metadata store cannot be written: the file is read-only"),
        ("SQLITE_CANTOPEN", "the metadata store cannot be opened"),
        ("SQLITE_FULL", "the metadata store cannot be written: the disk is full"),
        ("SQLITE_CORRUPT", "the metadata store is corrupt"),
        ("SQLITE_NOTADB", "this file is not a metadata store, or it is corrupt"),
        ("SQLITE_IOERR", "disk error in the metadata store"),
    ):
        if name.startswith(start):
            return f"{reason} ({error})"
    return f"the metadata store failed ({error})"
