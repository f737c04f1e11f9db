"""What is particular to the SQLite store: its sessions, its journal, and how its file fails."""

import asyncio
import errno
import os
import resource
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest

from ottla.metadata.store import (
    Change,
    Create,
    Delete,
    Put,
    SessionEnded,
    StoreError,
    UnknownOutcome,
)
from ottla.metadata.stores import sqlite_reserve
from ottla.metadata.stores.sqlite_changes import Changes
from ottla.metadata.stores.sqlite_database import JOURNAL_KEPT, Database
from ottla.metadata.stores.sqlite_reserve import FILE_BYTES
from ottla.metadata.stores.sqlite_store import OwnerInUse, SqliteStore
from testkit.waiting import until_on_loop as until

from .stores import Watcher, on_a_loop


def _database(path: Path) -> Database:
    return Database(path, "one", lock_timeout=0.0, journal_kept=JOURNAL_KEPT)


def _complaint(path: Path) -> str:
    with pytest.raises(StoreError) as raised:
        _database(path)
    text = str(raised.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text


@on_a_loop
async def test_a_broker_that_was_killed_finds_its_registration_gone(tmp_path: Path) -> None:
    # The killed one: its store is never closed.
    killed = await SqliteStore.open(tmp_path / "db", "broker-1")
    old = await killed.register("brokers/1", b"old")
    again = await SqliteStore.open(tmp_path / "db", "broker-1")
    assert await again.scan("") == []
    new = await again.register("brokers/1", b"new")
    assert new.epoch > old.epoch
    # Its end comes late, and must not take the new registration away.
    await killed.close()
    assert [one.value for one in await again.scan("")] == [b"new"]
    await again.close()


@on_a_loop
async def test_a_living_owner_keeps_its_name(tmp_path: Path) -> None:
    path = tmp_path / "db"
    first = await SqliteStore.open(path, "broker-1", exclusive=True)
    await first.register("brokers/1", b"first")
    with pytest.raises(OwnerInUse):
        await SqliteStore.open(path, "broker-1", exclusive=True)
    other = await SqliteStore.open(path, "broker-2", exclusive=True)
    assert [one.value for one in await other.scan("brokers/")] == [b"first"]
    await first.close()
    again = await SqliteStore.open(path, "broker-1", exclusive=True)
    await again.close()
    await other.close()


@on_a_loop
async def test_a_watcher_further_behind_than_the_journal_gets_the_difference(
    tmp_path: Path,
) -> None:
    away = await SqliteStore.open(tmp_path / "db", "away", journal_kept=3)
    busy = await SqliteStore.open(tmp_path / "db", "busy", journal_kept=3)
    await busy.commit([Create(key, b"1") for key in ("kept", "changed", "deleted", "made again")])
    watcher = Watcher()
    await watcher.watch(away)
    for number in range(10):
        await busy.commit([Put("changed", b"%d" % number)])
    await busy.commit([Delete("deleted"), Delete("made again")])
    await busy.commit([Create("made again", b"2"), Create("new", b"3")])
    # Nothing is polled here: the own commit brings the others' changes with it.
    await away.commit([Put("own", b"")])
    assert sorted(watcher.documents.values()) == await busy.scan("")
    assert [one.key for one in watcher.changes] == [
        "deleted",
        "changed",
        "made again",
        "new",
        "own",
    ]
    await away.close()
    await busy.close()


@on_a_loop
async def test_a_watcher_gets_no_change_before_the_snapshot(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "db", "one")
    watcher = Watcher()
    documents_when_told: list[int] = []

    def listener(changes: list[Change]) -> None:
        documents_when_told.append(len(watcher.documents))
        watcher(changes)

    async def watch() -> None:
        watcher.documents = {one.key: one for one in await store.watch(listener)}

    await store.commit([Create("before", b"")])
    async with asyncio.TaskGroup() as both:
        both.create_task(watch())
        both.create_task(store.commit([Create("after", b"")]))
        await asyncio.sleep(0)
        # The loop stands still until the thread has done both, so it learns of both at once.
        done = Event()
        store._jobs.put(done.set)
        done.wait()
    await watcher.until(lambda: "after" in watcher.documents)
    assert documents_when_told == [1]
    await store.close()


def test_the_journal_is_trimmed(tmp_path: Path) -> None:
    database = Database(tmp_path / "db", "one", lock_timeout=0.0, journal_kept=10)
    for number in range(30):
        database.commit([Put("a", b"%d" % number)])
    database.close()
    with sqlite3.connect(tmp_path / "db") as raw:
        assert raw.execute("SELECT count(*) FROM changes").fetchone() == (10,)


def test_every_commit_is_synced_to_the_disk(tmp_path: Path) -> None:
    database = _database(tmp_path / "db")
    full = 2
    assert database._connection.execute("PRAGMA synchronous").fetchone() == (full,)
    assert database._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    database.close()


def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "db").write_bytes(b"something else entirely " * 100)
    assert "not a metadata store" in _complaint(tmp_path / "db")
    assert (tmp_path / "db").read_bytes().startswith(b"something else")


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    database = _database(tmp_path / "db")
    database.commit([Create(f"key/{number}", b"x" * 500) for number in range(200)])
    database.close()
    data = bytearray((tmp_path / "db").read_bytes())
    for page in range(4096, len(data), 4096):
        data[page : page + 2048] = b"\xa5" * 2048
    (tmp_path / "db").write_bytes(data)
    assert "damaged" in _complaint(tmp_path / "db")


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    _database(tmp_path / "db").close()
    with sqlite3.connect(tmp_path / "db") as raw:
        raw.execute("PRAGMA user_version=99")
    assert "newer version of Ottla" in _complaint(tmp_path / "db")


def test_a_locked_file_is_reported(tmp_path: Path) -> None:
    _database(tmp_path / "db").close()
    raw = sqlite3.connect(tmp_path / "db", isolation_level=None)
    raw.execute("BEGIN EXCLUSIVE")
    assert "locked by another program" in _complaint(tmp_path / "db")
    raw.close()


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    assert "cannot be opened" in _complaint(tmp_path / "no" / "db")


def test_a_full_disk_fails_the_commit_and_nothing_else(tmp_path: Path) -> None:
    database = _database(tmp_path / "db")
    database.commit([Create("a", b"x")])
    (pages,) = database._connection.execute("PRAGMA page_count").fetchone()
    database._connection.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(StoreError, match="the disk is full"):
        database.commit([Create("big", b"x" * 1_000_000)])
    assert [one.key for one in database.scan("")] == ["a"]
    database._connection.execute("PRAGMA max_page_count=1000000")
    database.commit([Create("big", b"x" * 1_000_000)])
    assert [one.key for one in database.scan("")] == ["a", "big"]
    database.close()


def _needs_room(database: Database, spare_pages: int) -> None:
    """Let the file grow by so many pages and no more while the reserve is there."""
    (pages,) = database._connection.execute("PRAGMA page_count").fetchone()
    database._connection.execute(f"PRAGMA max_page_count={pages + spare_pages}")


def test_a_commit_that_finds_a_full_disk_gets_that_of_the_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, reserve = tmp_path / "db", tmp_path / "db-reserve"
    database = _database(path)
    assert reserve.stat().st_size == FILE_BYTES
    _needs_room(database, 0)
    given_up = sqlite_reserve.give_up

    def give_up(store: Path) -> None:
        _needs_room(database, 1000)
        given_up(store)

    monkeypatch.setattr(sqlite_reserve, "give_up", give_up)
    versions = database.commit([Create("a", b"x" * 2_000_000), Create("b", b"")])
    assert versions == [0, 0]
    assert not reserve.exists()
    database.close()
    assert reserve.stat().st_size == FILE_BYTES


def test_a_store_is_opened_with_the_room_of_the_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, reserve = tmp_path / "db", tmp_path / "db-reserve"
    database = _database(path)
    database.commit([Create("a", b"x")])
    database.close()
    opened = Database._open

    def open_with_room(self: Database, lock_timeout: float) -> None:
        if reserve.exists():
            (path.parent / "db-wal").unlink(missing_ok=True)
            raise StoreError("full") from _error("SQLITE_IOERR_SHMSIZE")
        opened(self, lock_timeout)

    monkeypatch.setattr(Database, "_open", open_with_room)
    database = _database(path)
    assert [one.key for one in database.scan("")] == ["a"]
    assert reserve.exists()  # there was room for it again
    database.close()


def test_a_log_of_changes_that_is_full_is_brought_into_the_file_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = _database(tmp_path / "db")
    checkpointed: list[object] = []
    write = Changes.write

    def write_then(changes: Changes, journal_kept: int) -> None:
        if not checkpointed:
            raise _error("SQLITE_FULL")
        write(changes, journal_kept)

    def checkpoint(self: Database) -> None:
        checkpointed.append(self)

    monkeypatch.setattr(Changes, "write", write_then)
    monkeypatch.setattr(Database, "_checkpoint", checkpoint)
    assert database.commit([Create("a", b"x")]) == [0]
    assert len(checkpointed) == 1
    assert (tmp_path / "db-reserve").exists()
    database.close()


def test_opening_a_store_that_has_its_spare_room_writes_nothing(tmp_path: Path) -> None:
    """The log would be full twice over where several processes open it at once."""
    first = _database(tmp_path / "db")
    length = (tmp_path / "db-wal").stat().st_size
    second = Database(tmp_path / "db", "another", 0.05, JOURNAL_KEPT)
    session_only = 1
    assert second._connection.total_changes == session_only
    assert (tmp_path / "db-wal").stat().st_size == length
    second.close()
    first.close()


@pytest.mark.parametrize(
    ("name", "is_opened"), [("SQLITE_FULL", True), ("SQLITE_IOERR_FSYNC", False)]
)
def test_a_store_is_opened_where_there_is_no_room_to_spare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, is_opened: bool
) -> None:
    _database(tmp_path / "db").close()

    def refuse(_: Database) -> None:
        raise _error(name)

    monkeypatch.setattr(Database, "_checkpoint", refuse)
    if is_opened:
        _database(tmp_path / "db").close()
    else:
        assert "disk error" in _complaint(tmp_path / "db")


def test_a_reserve_that_is_there_is_left_alone(tmp_path: Path) -> None:
    _database(tmp_path / "db").close()
    reserve = tmp_path / "db-reserve"
    os.utime(reserve, (1, 1))
    _database(tmp_path / "db").close()
    assert reserve.stat().st_mtime == 1


def test_the_format_is_the_one_that_older_brokers_wrote(tmp_path: Path) -> None:
    database = _database(tmp_path / "db")
    assert database._connection.execute("PRAGMA user_version").fetchone() == (1,)
    database.close()


def test_a_store_without_room_for_its_reserve_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", refuse)
    database = _database(tmp_path / "db")
    assert not (tmp_path / "db-reserve").exists()
    database.commit([Create("a", b"x")])
    database.close()


@pytest.mark.parametrize("name", ["SQLITE_CORRUPT", "SQLITE_IOERR_FSYNC", "SQLITE_BUSY"])
def test_the_reserve_is_kept_where_it_is_not_room_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    database = _database(tmp_path / "db")

    def refuse(*_: object) -> None:
        raise _error(name)

    with monkeypatch.context() as patched:
        patched.setattr(Changes, "write", refuse)
        with pytest.raises(StoreError):
            database.commit([Create("a", b"x")])
    assert (tmp_path / "db-reserve").exists()
    database.close()


def test_a_commit_that_may_be_done_is_not_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = _database(tmp_path / "db")
    tried: list[object] = []

    def lose(*_: object) -> None:
        tried.append(None)
        raise UnknownOutcome("lost") from _error("SQLITE_IOERR_SHMSIZE")

    with monkeypatch.context() as patched:
        patched.setattr(Changes, "write", lose)
        with pytest.raises(UnknownOutcome):
            database.commit([Create("a", b"x")])
    assert len(tried) == 1
    assert (tmp_path / "db-reserve").exists()
    database.close()


def _error(name: str) -> sqlite3.Error:
    problem = sqlite3.OperationalError(name)
    problem.sqlite_errorname = name
    return problem


def test_a_write_that_fails_in_the_commit_has_an_unknown_outcome(tmp_path: Path) -> None:
    database = _database(tmp_path / "db")
    database.commit([Create("a", b"x")])
    allowed = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, allowed[1]))
    try:
        with pytest.raises(UnknownOutcome, match="disk error"):
            database.commit([Create("big", b"x" * 400_000)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, allowed)
    assert [one.key for one in database.scan("")] in (["a"], ["a", "big"])
    database.commit([Put("big", b"x" * 400_000)])
    database.close()
    database = _database(tmp_path / "db")
    assert [one.key for one in database.scan("")] == ["a", "big"]
    database.close()


def test_a_file_that_became_read_only_is_reported(tmp_path: Path) -> None:
    database = _database(tmp_path / "db")
    database._connection.execute("PRAGMA query_only=ON")
    with pytest.raises(StoreError, match="read-only"):
        database.commit([Create("a", b"x")])
    database._connection.execute("PRAGMA query_only=OFF")
    database.close()


@on_a_loop
async def test_a_store_that_cannot_be_opened_leaves_no_thread(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be opened"):
        await SqliteStore.open(tmp_path / "no" / "db", "one")


def test_a_closed_store_is_polled_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    polled = threading.Event()
    poll = SqliteStore._poll

    def noted(store: SqliteStore) -> None:
        polled.set()
        poll(store)

    monkeypatch.setattr(SqliteStore, "_poll", noted)

    async def live() -> None:
        complaints: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, report: complaints.append(report))
        for _ in range(20):
            store = await SqliteStore.open(tmp_path / "store", "broker", poll_interval=0.0001)
            polled.clear()
            assert await asyncio.to_thread(polled.wait, 10)
            await store.close()
        await asyncio.sleep(0)
        assert complaints == []

    asyncio.run(live())


@pytest.mark.parametrize("how", ["restored in place", "replaced", "removed"])
@on_a_loop
async def test_a_file_restored_from_a_copy_is_not_followed(tmp_path: Path, how: str) -> None:
    path = tmp_path / "db"
    store = await SqliteStore.open(path, "one", poll_interval=0.005)
    ended: list[str] = []
    store.on_session_end(ended.append)
    await store.commit([Put("early", b"")])
    with (
        closing(sqlite3.connect(path)) as here,
        closing(sqlite3.connect(tmp_path / "copy")) as copy,
    ):
        here.backup(copy)
    watcher = Watcher()
    await watcher.watch(store)
    await store.commit([Put("late", b"")])
    if how == "restored in place":
        with (
            closing(sqlite3.connect(tmp_path / "copy")) as copy,
            closing(sqlite3.connect(path)) as here,
        ):
            copy.backup(here)
    elif how == "replaced":
        (tmp_path / "copy").rename(path)
    else:
        path.unlink()
    await until(lambda: bool(ended))
    assert "holds different metadata" in ended[0]
    with pytest.raises(SessionEnded):
        await store.commit([Put("more", b"")])
    assert "late" in watcher.documents
    await store.close()


# Secrets -------------------------------------------------------------------------------------


def _bytes_of_all_files(folder: Path) -> bytes:
    return b"".join(each.read_bytes() for each in sorted(folder.iterdir()))


@on_a_loop
async def test_an_old_secret_is_in_none_of_the_stores_files(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "db", "broker-1")
    await store.commit([Create("scram/alice", b"FIRST-SECRET"), Put("topics/t", b"not secret")])
    await store.commit([Put("scram/alice", b"SECOND-SECRET")])
    assert b"FIRST-SECRET" not in _bytes_of_all_files(tmp_path)
    assert b"SECOND-SECRET" in _bytes_of_all_files(tmp_path)
    await store.commit([Delete("scram/alice")])
    assert b"SECOND-SECRET" not in _bytes_of_all_files(tmp_path)
    await store.close()
    assert b"-SECRET" not in _bytes_of_all_files(tmp_path)


@on_a_loop
async def test_another_process_learns_the_last_value_of_a_secret(tmp_path: Path) -> None:
    one = await SqliteStore.open(tmp_path / "db", "broker-1")
    two = await SqliteStore.open(tmp_path / "db", "broker-2", poll_interval=60)
    watcher = Watcher()
    await two.watch(watcher)
    await one.commit([Create("scram/alice", b"1"), Create("scram/bob", b"b")])
    await one.commit([Put("scram/alice", b"2")])
    await one.commit([Create("scram/carol", b"c")])
    await one.commit([Delete("scram/carol")])
    await two.catch_up()
    await until(lambda: len(watcher.changes) >= 2)
    await one.commit([Delete("scram/bob")])
    await two.catch_up()
    await until(lambda: len(watcher.changes) >= 3)
    seen = [(each.key, each.value) for each in watcher.changes]
    assert seen == [("scram/bob", b"b"), ("scram/alice", b"2"), ("scram/bob", None)]
    await two.close()
    await one.close()


def _modes(folder: Path) -> dict[str, int]:
    return {each.name: each.stat().st_mode & 0o777 for each in folder.iterdir()}


@on_a_loop
async def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    (tmp_path / "db").touch(0o644)
    (tmp_path / "db").chmod(0o644)
    store = await SqliteStore.open(tmp_path / "db", "broker-1", exclusive=True)
    await store.commit([Create("a", b"1")])
    modes = _modes(tmp_path)
    await store.close()
    assert len(modes) >= 4
    assert set(modes.values()) == {0o600}, modes
