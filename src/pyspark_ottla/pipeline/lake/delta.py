"""A Delta Lake table, through the `deltalake` package (delta-rs).

The batch's number is the version of an application transaction (`txn` in Delta's protocol) whose
application is the query: the protocol's own way to write exactly once, which Spark's own Delta sink
uses as well.
"""

import re
from collections.abc import Sequence
from time import time
from typing import TYPE_CHECKING

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction

from pyspark_ottla.pipeline.lake.files import File, FileWriter
from pyspark_ottla.pipeline.lake.tables import (
    TRIES,
    LakeTable,
    must_be_divided,
    must_fit,
    must_have_types,
)

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs

MAY_BE_NULL = re.compile(r'(?<="nullable":)false|(?<=ontainsNull":)false')


class DeltaLakeTable(LakeTable):
    """The table in a folder."""

    @property
    def dropped(self) -> Sequence[str]:
        """Delta's log has the values of partition columns; its files do not."""
        return self.folders

    def root(self) -> str:
        """The table's folder."""
        return self.options.path

    def writer(self) -> FileWriter:
        """With storage options, files go the way that the log goes."""
        from pyarrow import fs

        given = self.options.options
        if not given:
            return super().writer()
        storage = fs.PyFileSystem(DeltaStorageHandler(self.root(), given))
        return FileWriter("", self.folders, self.dropped, storage)

    def prepare(self, schema: "pa.Schema") -> None:
        """Make the table if there is none. Neither types nor partitions of one that is there can
        change: its log would read old files by the new ones, and find nulls.
        """
        import pyarrow as pa

        self.check_folders(schema)
        wanted = Schema.from_arrow(schema)
        table = DeltaTable.create(
            self.options.path,
            schema=wanted,
            mode="ignore",
            partition_by=self.folders,
            storage_options=self.options.options or None,
        )
        must_fit(self.name, schema, pa.schema(table.schema().to_arrow()))
        must_have_types(self.name, _types(wanted), _types(table.schema()))
        must_be_divided(self.name, self.folders, table.metadata().partition_columns)

    def commit(self, files: Sequence[File], query: str, batch: int) -> bool:
        """One entry of the log: the files, and (query, batch)."""
        for left in reversed(range(TRIES)):
            table = DeltaTable(self.options.path, storage_options=self.options.options or None)
            if self.is_in(batch, table.transaction_version(query)):
                return False
            try:
                self._add(table, files, Transaction(query, batch, int(time() * 1000)))
                return True
            except CommitFailedError:
                # Another writer was faster: look again at what is there.
                if not left:
                    raise
        raise AssertionError("the last try returns or raises")

    def _add(self, table: DeltaTable, files: Sequence[File], transaction: Transaction) -> None:
        now = int(time() * 1000)
        table.create_write_transaction(
            actions=[
                AddAction(
                    path=file.path,
                    size=file.size,
                    partition_values=dict(zip(self.folders, file.partition, strict=True)),
                    modification_time=now,
                    data_change=True,
                    stats=f'{{"numRecords": {file.rows}}}',
                )
                for file in files
            ],
            mode="append",
            schema=table.schema(),
            partition_by=self.folders,
            commit_properties=CommitProperties(app_transactions=[transaction]),
        )


def _types(schema: Schema) -> dict[str, str]:
    """The columns' types; whether something in them may be null does not matter to files."""
    return {
        column.name: MAY_BE_NULL.sub("true", column.type.to_json()).strip('"')
        for column in schema.fields
    }
