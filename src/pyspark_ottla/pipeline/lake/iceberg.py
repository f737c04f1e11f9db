"""An Iceberg table, through `pyiceberg` and any catalog that it knows.

The batch's number is a property of the table, `ottla.batch.{query}`, set in the transaction that
adds the files: one commit of the catalog has both or none. The snapshot's summary names query and
batch as well, for people; it is not what is relied on, since snapshots expire.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, ResolveError
from pyiceberg.io.pyarrow import PyArrowFileIO, pyarrow_to_schema
from pyiceberg.schema import Schema, promote
from pyiceberg.transforms import (
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    VoidTransform,
    YearTransform,
)

from pyspark_ottla.pipeline.lake.files import File, FileWriter
from pyspark_ottla.pipeline.lake.tables import (
    TRIES,
    LakeTable,
    must_be_divided,
    must_fit,
    must_have_types,
)
from pyspark_ottla.pipeline.places import is_local, local_path

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs
    from pyiceberg.table import Table

BATCH_PROPERTY = "ottla.batch"
CATALOG = "ottla"
"""The catalog's name, which is a part of the key in an SQL catalog."""
TRANSFORMS: dict[str, Transform[Any, Any]] = {
    "hour": HourTransform(),
    "day": DayTransform(),
    "month": MonthTransform(),
    "year": YearTransform(),
}


class IcebergTable(LakeTable):
    """A table of a catalog: by default one in SQLite beside the data."""

    @property
    def name(self) -> str:
        """The table's name in the catalog."""
        return f"Iceberg table {self.options.name}"

    @property
    def dropped(self) -> Sequence[str]:
        """Iceberg derives time units from the column, so no file has a column for them."""
        pairs = zip(self.folders, self.options.units, strict=True)
        return [folder for folder, unit in pairs if unit is not None]

    def root(self) -> str:
        """Where the catalog says that the table's data are."""
        return f"{self._table().location().rstrip('/')}/data"

    def writer(self) -> FileWriter:
        """With a catalog's properties, files go the way that the table's metadata go."""
        root, io = self.root(), self._table().io
        if not self.options.options or not isinstance(io, PyArrowFileIO):
            return super().writer()
        scheme, host, path = io.parse_location(root, io.properties)
        return FileWriter(path, self.folders, self.dropped, io.fs_by_scheme(scheme, host))

    def prepare(self, schema: "pa.Schema") -> None:
        """Make the table, its namespace and its catalog if there are none."""
        import pyarrow as pa

        kept = pa.schema([column for column in schema if column.name not in self.dropped])
        self.check_folders(schema)
        catalog = self._catalog()
        catalog.create_namespace_if_not_exists(self.options.name.rpartition(".")[0])
        if not catalog.table_exists(self.options.name):
            making = catalog.create_table_transaction(self.options.name, schema=kept)
            with making, making.update_spec() as spec:
                parts = zip(self.folders, self.options.units, self.options.columns, strict=True)
                for folder, unit, column in parts:
                    spec.add_field(column, _transform(unit), None if unit is None else folder)
        table = catalog.load_table(self.options.name)
        found = table.schema()
        must_fit(self.name, kept, found.as_arrow())
        must_have_types(self.name, *_types(kept, found))
        divided_by = zip(self.options.columns, self.options.units, strict=True)
        must_be_divided(
            self.name,
            [f"{_transform(unit)}({column})" for column, unit in divided_by],
            [
                f"{field.transform}({found.find_column_name(field.source_id)})"
                for field in table.spec().fields
                if not isinstance(field.transform, VoidTransform)
            ],
        )

    def commit(self, files: Sequence[File], query: str, batch: int) -> bool:
        """One transaction: the files, and (query, batch)."""
        key = f"{BATCH_PROPERTY}.{query}"
        summary = {"ottla.query-id": query, "ottla.batch-id": str(batch)}
        root = self.root()
        paths = [f"{root}/{file.path}" for file in files]
        for left in reversed(range(TRIES)):
            table = self._table()
            last = table.properties.get(key)
            if self.is_in(batch, None if last is None else int(last)):
                return False
            try:
                with table.transaction() as change:
                    change.add_files(paths, summary, check_duplicate_files=False)
                    change.set_properties({key: str(batch)})
                return True
            except CommitFailedException:
                # Another writer was faster: look again at what is there.
                if not left:
                    raise
        raise AssertionError("the last try returns or raises")

    def _table(self) -> "Table":
        return self._catalog().load_table(self.options.name)

    def _catalog(self) -> Catalog:
        given = self.options.options
        if given:
            return load_catalog(given.get("name", CATALOG), **given)
        folder = self.options.path
        path = local_path(folder) if is_local(folder) else Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        return load_catalog(
            CATALOG, type="sql", uri=f"sqlite:///{path}/catalog.db", warehouse=f"file://{path}"
        )


def _transform(unit: str | None) -> Transform[Any, Any]:
    return IdentityTransform() if unit is None else TRANSFORMS[unit]


def _types(rows: "pa.Schema", found: Schema) -> tuple[dict[str, str], dict[str, str]]:
    """The types of the rows and of the table, for those columns where the rows' cannot be read as
    the table's. Into nested types the commit looks.
    """
    import pyarrow as pa

    there = {column.name: column.field_type for column in found.fields}
    flat = pa.schema([column for column in rows if not pa.types.is_nested(column.type)])
    here = {
        column.name: column.field_type
        for column in pyarrow_to_schema(flat, found.name_mapping).fields
    }
    wrong = {
        column.name: str(column.type)
        for column in rows
        if column.name not in here and there[column.name].is_primitive
    }
    for name, kind in here.items():
        try:
            promote(kind, there[name])
        except ResolveError:
            wrong[name] = str(kind)
    return wrong, {name: str(kind) for name, kind in there.items()}
