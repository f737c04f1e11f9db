"""Delta and Iceberg tables, without Spark: what a commit holds, and that it happens once."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from pyspark_ottla.pipeline.lake.files import FileWriter, split
from pyspark_ottla.pipeline.lake.tables import LakeTable, TableOptions, open_table
from pyspark_ottla.pipeline.problems import PipelineError

QUERY = "0b5c5b6e-0000-4000-8000-000000000000"
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("type", pa.string()),
        ("at_day", pa.date32()),
    ]
)
WITHOUT_DAY = SCHEMA.remove(SCHEMA.get_field_index("at_day"))
TIMES = [datetime(2026, 11, day, 12, tzinfo=UTC) for day in (15, 16, 15, 16)]
TYPES = ["view", "buy", "a/b: 100%", None]

Made = Callable[[str], LakeTable]


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> LakeTable:
    """A new table, divided by day and type."""
    options = TableOptions(
        format=request.param,
        path=str(tmp_path / "lake"),
        folders=["at_day", "type"],
        units=["day", None],
        columns=["at", "type"],
        name="shop.clicks",
        options={},
    )
    made = open_table(options.document())
    made.prepare(SCHEMA)
    return made


def rows(first: int) -> pa.RecordBatch:
    days = [time.date() for time in TIMES]
    ids = list(range(first, first + 4))
    return pa.RecordBatch.from_arrays(
        [pa.array(ids), pa.array(TIMES, SCHEMA.field("at").type), pa.array(TYPES), pa.array(days)],
        schema=SCHEMA,
    )


def commit(table: LakeTable, first: int, batch: int, query: str = QUERY) -> bool:
    writer = table.writer()
    writer.write(table.fit(rows(first)))
    return table.commit(writer.close(), query, batch)


def read(table: LakeTable) -> list[tuple[int, datetime, str | None]]:
    """What any reader finds."""
    path = table.options.path
    if table.options.format == "delta":
        found = DeltaTable(path).to_pyarrow_table()
    else:
        properties = {"uri": f"sqlite:///{path}/catalog.db", "warehouse": f"file://{path}"}
        found = (
            load_catalog("ottla", type="sql", **properties)
            .load_table("shop.clicks")
            .scan()
            .to_arrow()
        )
    columns = (found[name].to_pylist() for name in ("id", "at", "type"))
    return sorted(zip(*columns, strict=True))


def test_a_batch_is_in_the_table_once(table: LakeTable) -> None:
    assert commit(table, 0, 0)
    assert commit(table, 4, 1)
    assert not commit(table, 4, 1)
    assert read(table) == list(zip(range(8), TIMES * 2, TYPES * 2, strict=True))


def test_a_batch_before_the_last_one_fails(table: LakeTable) -> None:
    """As with a checkpoint that was restored: the batch may hold what came since."""
    commit(table, 0, 0)
    commit(table, 4, 3)
    with pytest.raises(PipelineError, match="batch 2 is to be added, but the table has batch 3"):
        commit(table, 8, 2)
    assert len(read(table)) == 8
    assert commit(table, 8, 4)


def test_another_query_counts_by_itself(table: LakeTable) -> None:
    assert commit(table, 0, 7)
    assert commit(table, 4, 0, query="another")
    assert len(read(table)) == 8


def test_a_failed_attempt_leaves_nothing_to_see(table: LakeTable) -> None:
    writer = table.writer()
    writer.write(table.fit(rows(0)))
    assert len(writer.close()) == 4
    assert read(table) == []


def test_rows_of_other_columns_are_refused_with_their_names(table: LakeTable) -> None:
    other = SCHEMA.append(pa.field("price", pa.float64()))
    with pytest.raises(PipelineError, match="it lacks price double"):
        table.prepare(other)
    without = pa.schema([column for column in SCHEMA if column.name != "id"])
    with pytest.raises(PipelineError, match="the rows lack id"):
        table.prepare(without)
    table.prepare(SCHEMA)


def changed(table: LakeTable, **options: object) -> LakeTable:
    """The same table, as a sink with other settings sees it."""
    return open_table(table.options.document() | options)


def with_type(column: str, kind: pa.DataType) -> pa.Schema:
    return SCHEMA.set(SCHEMA.get_field_index(column), pa.field(column, kind))


@pytest.mark.parametrize("kind", [pa.string(), pa.float64(), pa.list_(pa.int64()), pa.binary()])
def test_a_column_cannot_change_its_type(table: LakeTable, kind: pa.DataType) -> None:
    commit(table, 0, 0)
    with pytest.raises(PipelineError, match=r"id is long there and .* here\. Write to another"):
        table.prepare(with_type("id", kind))
    assert len(read(table)) == 4


def test_nested_columns_are_compared_without_regard_to_nulls(tmp_path: Path) -> None:
    def schema(*, nullable: bool, inner: pa.DataType) -> pa.Schema:
        return pa.schema([("n", pa.list_(pa.field("element", inner, nullable=nullable)))])

    options = TableOptions("delta", str(tmp_path / "lake"), [], [], [], "x", {})
    table = open_table(options.document())
    table.prepare(schema(nullable=True, inner=pa.int32()))
    table.prepare(schema(nullable=False, inner=pa.int32()))
    with pytest.raises(PipelineError, match=r'n is \{"type":"array","elementType":"integer"'):
        table.prepare(schema(nullable=True, inner=pa.string()))


def test_narrower_numbers_fit_an_iceberg_table(tmp_path: Path) -> None:
    options = TableOptions("iceberg", str(tmp_path / "lake"), [], [], [], "shop.clicks", {})
    table = open_table(options.document())
    table.prepare(pa.schema([("id", pa.int64())]))
    table.prepare(pa.schema([("id", pa.int32())]))


@pytest.mark.parametrize(
    ("folders", "units", "columns"),
    [
        (["type"], [None], ["type"]),
        (["at_day", "type", "id"], ["day", None, None], ["at", "type", "id"]),
        ([], [], []),
    ],
)
def test_partition_by_cannot_change(
    table: LakeTable, folders: list[str], units: list[str | None], columns: list[str]
) -> None:
    commit(table, 0, 0)
    other = changed(table, folders=folders, units=units, columns=columns)
    # Iceberg has no column for a day, so other units are other columns to it.
    schema = SCHEMA if "at_day" in other.folders or table.options.format == "delta" else WITHOUT_DAY
    with pytest.raises(
        PipelineError, match="partition_by cannot change: the table is partitioned by"
    ):
        other.prepare(schema)
    again = changed(table, folders=["type", "at_day"], units=[None, "day"], columns=["type", "at"])
    again.prepare(SCHEMA)
    assert commit(again, 4, 1)
    assert read(table) == list(zip(range(8), TIMES * 2, TYPES * 2, strict=True))


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_bytes_cannot_name_folders(tmp_path: Path, kind: str) -> None:
    options = TableOptions(kind, str(tmp_path / "lake"), ["type"], [None], ["type"], "a.b", {})
    with pytest.raises(PipelineError, match="partition_by cannot take type: it is BINARY"):
        open_table(options.document()).prepare(with_type("type", pa.binary()))
    assert not (tmp_path / "lake").exists()


def test_a_delta_table_knows_its_partitions(tmp_path: Path) -> None:
    options = TableOptions("delta", str(tmp_path), ["at_day"], ["day"], ["at"], "x", {})
    table = open_table(options.document())
    table.prepare(SCHEMA)
    commit(table, 0, 0)
    found = DeltaTable(str(tmp_path))
    assert found.metadata().partition_columns == ["at_day"]
    day = date(2026, 11, 15)
    days = found.to_pyarrow_table(filters=[("at_day", "=", day)])["at_day"]
    assert days.to_pylist() == [day] * 2
    assert found.transaction_version(QUERY) == 0


def test_files_go_through_the_catalog_that_the_options_name(tmp_path: Path) -> None:
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/c.db",
        "warehouse": f"file://{tmp_path}/w",
    }
    options = TableOptions("iceberg", "unused", ["type"], [None], ["type"], "a.b", catalog)
    table = open_table(options.document())
    table.prepare(SCHEMA)
    assert commit(table, 0, 0)
    found = load_catalog("ottla", **catalog).load_table("a.b").scan().to_arrow()
    assert sorted(found["id"].to_pylist()) == [0, 1, 2, 3]


STORE = """
from http.server import BaseHTTPRequestHandler, HTTPServer

class Store(BaseHTTPRequestHandler):
    def answer(self, size, text=b""):
        self.send_response(200)
        self.send_header("ETag", "1")
        self.send_header("Last-Modified", "Tue, 17 Nov 2026 11:00:00 GMT")
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(text)

    def do_HEAD(self):
        self.answer(7)

    def do_GET(self):
        text = b"<ListBucketResult><Name>lakes</Name></ListBucketResult>"
        self.answer(len(text), text)

    def do_PUT(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        print(self.path, self.headers["Authorization"], flush=True)
        self.answer(0)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        kind = "Initiate" if self.path.endswith("?uploads=") else "Complete"
        inner = "<Bucket>b</Bucket><Key>k</Key><UploadId>1</UploadId><ETag>1</ETag>"
        text = f"<{kind}MultipartUploadResult>{inner}</{kind}MultipartUploadResult>"
        self.answer(len(text), text.encode())

server = HTTPServer(("127.0.0.1", 0), Store)
print(server.server_port, flush=True)
server.serve_forever()
"""
"""A storage that says who has put what. It is a process of its own: delta-rs may hold the GIL."""


@pytest.fixture
def store() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", STORE],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        yield process
        process.kill()


def test_storage_options_are_for_files_too(store: subprocess.Popen[str]) -> None:
    assert store.stdout is not None
    storage = {
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{store.stdout.readline().strip()}",
        "AWS_REGION": "here",
        "AWS_ALLOW_HTTP": "true",
    }
    options = TableOptions("delta", "s3://lakes/clicks", ["type"], [None], ["type"], "x", storage)
    table = open_table(options.document())
    writer = table.writer()
    writer.write(table.fit(rows(0).slice(0, 1)))
    (file,) = writer.close()
    assert (file.path.partition("/")[0], file.size) == ("type=view", 7)
    said = store.stdout.readline()
    assert said.startswith(f"/lakes/clicks/{file.path}?".replace("=", "%3D"))
    assert "Credential=someone/" in said


def test_rows_are_split_by_all_columns_together() -> None:
    table = pa.table({"a": [1, 2, 1, None, 1], "b": [True, True, False, True, True], "c": range(5)})
    found = {values: part["c"].to_pylist() for values, part in split(table, ["a", "b"])}
    assert found == {
        ("1", "true"): [0, 4],
        ("1", "false"): [2],
        ("2", "true"): [1],
        (None, "true"): [3],
    }
    assert list(split(table.slice(0, 0), ["a"])) == []


def test_many_small_batches_become_few_row_groups(tmp_path: Path) -> None:
    from pyarrow import parquet

    writer = FileWriter(str(tmp_path), [], [])
    for first in range(0, 300_000, 10_000):
        writer.write(pa.RecordBatch.from_pydict({"n": range(first, first + 10_000)}))
    (file,) = writer.close()
    assert file.rows == 300_000
    assert parquet.ParquetFile(tmp_path / file.path).metadata.num_row_groups == 3
