"""Arrow batches to Parquet files, one set of files for each value of the partition columns.

Rules kept here:
1. A file's name is new in every attempt: what a failed attempt leaves behind is in nobody's way,
   and is removed by the table's own vacuum.
2. A file lies in folders `column=value` for people to look at. Readers take values from the table's
   log, so characters that some storage would have to escape are left out of the folders' names.
3. Row groups are large, whatever the size of the batches that come in.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs
    from pyarrow import fs, parquet

ROW_GROUP = 128 * 1024
MOST_BUFFERED = 128 << 20
"""Bytes that wait for a full row group, in all folders together."""
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
LONGEST_NAME = 100

Values = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class File:
    """A file that was written, to be named by a commit."""

    path: str
    """Relative to the table's folder."""
    size: int
    rows: int
    partition: Values


class _Folder:
    """What is written, and what waits to be, for one value of the partition columns."""

    def __init__(self) -> None:
        self.waiting: list[pa.Table] = []
        self.rows = 0
        self.writer: parquet.ParquetWriter | None = None
        self.name = ""
        self.written = 0


class FileWriter:
    """Writes the rows of one task."""

    def __init__(
        self,
        root: str,
        folders: Sequence[str],
        dropped: Sequence[str],
        files: "fs.FileSystem | None" = None,
    ) -> None:
        """`folders` are the columns that divide the files, `dropped` those that no file holds.

        `root` is a place in `files`; by default it says by itself where it is, and who may write
        there is in the environment.
        """
        from pyarrow import fs

        self._files: fs.FileSystem = files
        self._root = root
        if files is None and ("://" in root or root.startswith("file:/")):
            self._files, self._root = fs.FileSystem.from_uri(root.replace("s3a://", "s3://", 1))
        elif files is None:
            self._files = fs.LocalFileSystem()
        self._columns = list(folders)
        self._dropped = list(dropped)
        self._folders: dict[Values, _Folder] = {}
        self._buffered = 0

    def write(self, batch: "pa.RecordBatch") -> None:
        """Take some rows."""
        import pyarrow as pa

        table = pa.Table.from_batches([batch])
        for values, part in split(table, self._columns):
            folder = self._folders.setdefault(values, _Folder())
            part = part.drop_columns(self._dropped)
            folder.waiting.append(part)
            folder.rows += len(part)
            self._buffered += part.nbytes
            if folder.rows >= ROW_GROUP:
                self._flush(values, folder)
        if self._buffered > MOST_BUFFERED:
            for values, folder in self._folders.items():
                self._flush(values, folder)

    def close(self) -> list[File]:
        """Finish all files."""
        files: list[File] = []
        for values, folder in self._folders.items():
            self._flush(values, folder)
            if folder.writer is not None:
                folder.writer.close()
                size = self._files.get_file_info(self._path(folder)).size
                files.append(File(folder.name, size, folder.written, values))
        return files

    def _flush(self, values: Values, folder: _Folder) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        if not folder.waiting:
            return
        table = pa.concat_tables(folder.waiting)
        folder.waiting, folder.rows = [], 0
        self._buffered = max(0, self._buffered - table.nbytes)
        if folder.writer is None:
            inner = "/".join(
                f"{column}={NO_VALUE if value is None else UNSAFE.sub('_', value)[:LONGEST_NAME]}"
                for column, value in zip(self._columns, values, strict=True)
            )
            folder.name = f"{inner}/part-{uuid4()}.parquet".lstrip("/")
            path = self._path(folder)
            self._files.create_dir(path.rpartition("/")[0])
            folder.writer = parquet.ParquetWriter(
                path, table.schema, filesystem=self._files, compression="zstd"
            )
        folder.writer.write_table(table, row_group_size=len(table))
        folder.written += len(table)

    def _path(self, folder: _Folder) -> str:
        return f"{self._root}/{folder.name}" if self._root else folder.name


def split(table: "pa.Table", columns: Sequence[str]) -> "Iterator[tuple[Values, pa.Table]]":
    """The rows by what they have in the columns, as texts."""
    import pyarrow as pa
    import pyarrow.compute as pc  # type: ignore[import-untyped]  # it has no stubs

    if not columns:
        yield (), table
        return
    if not len(table):
        return
    code = pa.scalar(0, pa.int64())
    for column in columns:
        encoded = table[column].combine_chunks().dictionary_encode(null_encoding="encode")
        places = pc.cast(encoded.indices, pa.int64())
        code = pc.add(pc.multiply(code, pa.scalar(len(encoded.dictionary), pa.int64())), places)
    order = pc.sort_indices(code)
    table = table.take(order)
    start = 0
    for end in pc.run_end_encode(code.take(order), run_end_type=pa.int64()).run_ends.to_pylist():
        part = table.slice(start, end - start)
        values = [part[column][0].as_py() for column in columns]
        yield tuple(None if value is None else text(value) for value in values), part
        start = end


def text(value: object) -> str:
    """A value as partition folders and Delta's log have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
