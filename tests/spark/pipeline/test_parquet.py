"""A Parquet lake stays readable: rows that do not fit what is there are refused."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from ottla.client import Client
from pyspark_ottla.pipeline.lake.parquet import must_stay_readable
from pyspark_ottla.pipeline.problems import PipelineError, WrongFileError

from .running import run, send


def written(rows: DataFrame, folder: Path, *divided: str) -> str:
    rows.write.mode("append").partitionBy(*divided).parquet(str(folder))
    return str(folder)


def test_nothing_there_takes_anything(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql("SELECT 1 AS id").schema
    must_stay_readable(spark, str(tmp_path / "none"), rows, [])
    must_stay_readable(spark, str(tmp_path), rows, [])


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ("1 AS id, array('a') AS tags", None),
        ("1 AS ID", None),
        ("1 AS id, 'new' AS more", None),
        ("2L AS id", "id is int there and bigint here"),
        ("'x' AS id", "id is int there and string here"),
        ("1 AS id, array(1) AS tags", "tags is array<string> there and array<int> here"),
        ("1 AS id, 1 AS late", "late is string there and int here"),
    ],
)
def test_a_column_keeps_its_type(
    spark: SparkSession, tmp_path: Path, columns: str, problem: str | None
) -> None:
    written(spark.sql("SELECT 1 AS id, array('a') AS tags"), tmp_path / "lake")
    written(spark.sql("SELECT 2 AS id, 'x' AS late"), tmp_path / "lake")
    path = written(spark.sql("SELECT 3 AS id"), tmp_path / "lake")
    rows = spark.sql(f"SELECT {columns}").schema
    if problem is None:
        must_stay_readable(spark, path, rows, [])
    else:
        with pytest.raises(PipelineError, match=problem):
            must_stay_readable(spark, path, rows, [])


def test_a_lake_stays_divided_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql("SELECT 1 AS id, '7' AS kind, DATE'2026-11-18' AS day")
    path = written(rows, tmp_path / "a b" / "x=y", "kind", "day")
    must_stay_readable(spark, path, rows.schema, ["kind", "day"])
    for folders in ([], ["kind"], ["id"]):
        with pytest.raises(PipelineError, match="is partitioned by kind, day, not by"):
            must_stay_readable(spark, path, rows.schema, folders)


def test_a_pipeline_whose_column_has_another_type_is_refused_and_the_lake_stays_readable(
    spark: SparkSession, client: Client, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "p.yaml"
    text = (
        f"checkpoint: s\nsources: {{c: {{topic: {topic}, format: json, schema: id INT}}}}\n"
        "steps: {s: SELECT id FROM c}\nsinks:\n  out: {from: s, lake: lake}\n"
    )
    file.write_text(text)
    send(client, topic, [{"id": 1}])
    run(spark, file, bootstrap)
    file.write_text(text.replace("SELECT id", "SELECT CAST(id AS STRING) AS id"))
    send(client, topic, [{"id": 2}])
    with pytest.raises(WrongFileError) as wrong:
        run(spark, file, bootstrap)
    said = f"{file}:5: sink out: {tmp_path}/lake: id is int there and string here"
    assert str(wrong.value).startswith(said), str(wrong.value)
    assert [row["id"] for row in spark.read.parquet(str(tmp_path / "lake")).collect()] == [1]
    file.write_text(text)
    run(spark, file, bootstrap)
    found = spark.read.parquet(str(tmp_path / "lake")).collect()
    assert sorted(row["id"] for row in found) == [1, 2]
