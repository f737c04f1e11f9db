"""Batches and logs for the tests of the log, made in one line."""

import os
from collections.abc import Iterator
from pathlib import Path

from ottla.log.appended import Appended
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.storage.file_cache import FileCache
from ottla.log.storage.files import Files
from ottla.records import Codec, Record, encode_batch
from ottla.records.control import Marker, MarkerType, encode_marker
from ottla.wire.batch import BatchHeader, headers

NOW = 1_700_000_000_000
"""The clock of the tests, in milliseconds."""


def batch(
    count: int = 1,
    *,
    timestamp: int = NOW,
    size: int = 10,
    key: bytes | None = b"key",
    codec: Codec = Codec.NONE,
    producer: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> memoryview:
    """A batch as a producer sends it, in memory that the log may stamp."""
    records = [
        Record(base_offset + i, timestamp + i, key, bytes([65 + i % 26]) * size)
        for i in range(count)
    ]
    data = encode_batch(
        records,
        base_offset=base_offset,
        codec=codec,
        leader_epoch=leader_epoch,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    return memoryview(bytearray(data))


def marker(
    kind: MarkerType, *, producer: int, epoch: int = 0, coordinator_epoch: int = 0
) -> memoryview:
    """The control batch that ends a transaction."""
    data = encode_marker(Marker(kind, coordinator_epoch, producer, epoch), NOW)
    return memoryview(bytearray(data))


def append(log: Log, records: memoryview, *, now: int = NOW, leader_epoch: int = 0) -> Appended:
    """Append one batch."""
    return log.append(records, now=now, leader_epoch=leader_epoch)


def flush(log: Log) -> None:
    """Flush a log at once."""
    begun = log.begin_flush()
    if begun is not None:
        try:
            begun.run()
        finally:
            log.end_flush(begun, NOW)


def read_all(log: Log, start: int | None = None, limit: int | None = None) -> bytes:
    """Every byte a consumer gets that reads from an offset to the end."""
    offset = log.start_offset if start is None else start
    limit = log.end_offset if limit is None else limit
    parts = []
    while (found := log.read(offset, 1 << 20, limit, True)) is not None:
        data = os.pread(found.file.fd, found.size, found.position)
        found.file.unpin()
        assert len(data) == found.size
        whole = list(headers(memoryview(data)))
        end = whole[-1][0] + whole[-1][1].size
        parts.append(data[:end])
        offset = whole[-1][1].next_offset
    return b"".join(parts)


def read_headers(log: Log, start: int | None = None, limit: int | None = None) -> list[BatchHeader]:
    """The headers of every batch a consumer gets."""
    return [header for _, header in headers(memoryview(read_all(log, start, limit)))]


class Logs:
    """Opens one log again and again, as restarts of a broker would."""

    def __init__(self, directory: Path, files: Files | None = None, open_files: int = 100) -> None:
        self.directory = directory
        self.files = files or Files()
        self.cache = FileCache(open_files, self.files)
        self._opened: list[Log] = []

    def open(
        self,
        config: LogConfig | None = None,
        *,
        clean: bool = True,
        recovery_point: int = 0,
        start_offset: int = 0,
        now: int = NOW,
    ) -> Log:
        """Open the log."""
        log = Log.open(
            self.directory,
            config or LogConfig(),
            files=self.files,
            cache=self.cache,
            recovery_point=recovery_point,
            start_offset=start_offset,
            clean=clean,
            now=now,
        )
        self._opened.append(log)
        return log

    def crash(self, log: Log) -> None:
        """Let go of a log as a killed process does: nothing more is written."""
        log.fail(RuntimeError("the process was killed"))

    def names(self) -> list[str]:
        """The files of the log, sorted."""
        return sorted(path.name for path in self.directory.iterdir())

    def close(self) -> None:
        """Let go of everything that is still open."""
        for log in self._opened:
            log.fail(RuntimeError("the test is over"))


def every_file(directory: Path, suffix: str) -> Iterator[Path]:
    """The files of a folder with a suffix, in the order of their names."""
    return iter(sorted(directory.glob(f"*{suffix}")))
