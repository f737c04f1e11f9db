"""Pipelines as a whole, on a real broker: what comes out of what goes in."""

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from ottla.client import Client
from ottla.client.group_admin import GroupAdmin
from ottla.client.pipeline_reports import PipelineReport, State, read_reports
from pyspark_ottla.pipeline.problems import PipelineError, WrongFileError

from .running import event, headers, read, run, send, values

EVERYTHING = """\
pipeline: shop
checkpoint: state
sources:
  clicks:
    topic: {topic}
    format: json
    schema: id BIGINT NOT NULL, type STRING, at TIMESTAMP, price DOUBLE
    dead_letters: {topic}.broken
    watermark: {{column: at, delay: 10 minutes}}
  kinds:
    files: kinds.csv
    format: csv
    schema: type STRING, section STRING
    options: {{header: true}}
steps:
  known: SELECT clicks.*, section FROM clicks LEFT JOIN kinds ON clicks.type = kinds.type
  once:
    sql: SELECT id, type, at, section FROM known
    unique: id
  minutes: |
    SELECT window.start AS minute, count(*) AS clicks FROM known GROUP BY window(at, '1 minute')
sinks:
  split:
    from: clicks
    topic: "{topic}.{{upper(type)}}"
    key: id
    value: to_json(struct(id, price))
    headers: {{kind: type}}
  windows:
    from: minutes
    topic: {topic}.minutes
  delta:
    from: once
    lake: lake/delta
    format: delta
    partition_by: [day(at), section]
  iceberg:
    from: known
    lake: lake/iceberg
    format: iceberg
    partition_by: hour(at)
  parquet:
    from: known
    lake: lake/parquet
    partition_by: [month(at)]
"""

MORNING = [
    event(1, "view", "10:00:01", price=1.5),
    event(2, "buy", "10:00:59", price=2),
    event(3, "what?", "10:01:00"),
    event(2, "buy", "10:00:59", price=2),
]
NOON = [event(4, "view", "12:00:00"), event(5, "buy", "12:00:00")]
BROKEN = [
    "not json",
    None,
    "[1]",
    '{"id": 1, "price": "much"}',
    '{"type": "view"}',
    b"\xff\xfe",
    "",
]


@pytest.fixture
def pipeline(tmp_path: Path, topic: str) -> Path:
    (tmp_path / "kinds.csv").write_text("type,section\nview,shop\nbuy,till\n")
    file = tmp_path / "shop.yaml"
    file.write_text(EVERYTHING.format(topic=topic))
    return file


def reported(client: Client, pipeline: str) -> PipelineReport:
    """What a pipeline has told the cluster at last."""
    return {each.pipeline: each for each in read_reports(client)}[pipeline]


def test_a_pipeline_splits_counts_joins_loads_and_sorts_out(
    spark: SparkSession, client: Client, bootstrap: str, topic: str, pipeline: Path
) -> None:
    send(client, topic, [*MORNING, *BROKEN])
    first = run(spark, pipeline, bootstrap)
    assert {name: done.rows for name, done in first.items()} == {
        "split": 4,
        "windows": 0,
        "delta": 3,
        "iceberg": 4,
        "parquet": 4,
        "clicks.dead_letters": len(BROKEN),
    }
    assert all(done.lag == 0 for done in first.values())
    report = reported(client, "shop")
    assert (report.state, report.error, report.lag) == (State.DONE, "", 0)
    assert report.dead_letters == len(BROKEN)
    assert {each.name: each.rows for each in report.queries if not each.dead_letters} == {
        name: done.rows for name, done in first.items() if name != "clicks.dead_letters"
    }

    # The next run continues where this one ended. Two sinks are enough to see it.
    text = pipeline.read_text()
    kept = text.index("  windows:\n"), text.index("  iceberg:\n")
    pipeline.write_text(text[: text.index("  split:\n")] + text[slice(*kept)])
    send(client, topic, NOON)
    second = run(spark, pipeline, bootstrap)
    assert {name: done.rows for name, done in second.items()} == {
        "windows": 2,
        "delta": 2,
        "clicks.dead_letters": 0,
    }

    # A topic for each type, with names that a topic can have.
    buys = read(spark, bootstrap, f"{topic}.BUY")
    assert [value["id"] for value in values(buys)] == [2, 2]
    assert {(bytes(row["key"]), headers(row)["kind"]) for row in buys} == {(b"2", "buy")}
    assert values(read(spark, bootstrap, f"{topic}.WHAT_")) == [{"id": 3}]

    # Windows are written when the watermark has passed them, so noon's is still open.
    assert values(read(spark, bootstrap, f"{topic}.minutes")) == [
        {"minute": "2026-11-16T10:00:00.000Z", "clicks": 3},
        {"minute": "2026-11-16T10:01:00.000Z", "clicks": 1},
    ]

    lake = pipeline.parent / "lake"
    delta = DeltaTable(str(lake / "delta")).to_pyarrow_table()
    assert sorted(zip(delta["id"].to_pylist(), delta["section"].to_pylist(), strict=True)) == [
        (1, "shop"),
        (2, "till"),
        (3, None),
        (4, "shop"),
        (5, "till"),
    ]
    assert set(map(str, delta["at_day"].to_pylist())) == {"2026-11-16"}

    catalog = load_catalog(
        "ottla",
        type="sql",
        uri=f"sqlite:///{lake}/iceberg/catalog.db",
        warehouse=f"file://{lake}/iceberg",
    )
    table = catalog.load_table("shop.iceberg")
    assert [field.name for field in table.spec().fields] == ["at_hour"]
    iceberg = table.scan().to_arrow()
    assert sorted(iceberg["id"].to_pylist()) == [1, 2, 2, 3]

    parquet = spark.read.parquet(str(lake / "parquet"))
    assert sorted(row["id"] for row in parquet.collect()) == [1, 2, 2, 3]
    assert parquet.where("at_month = '2026-11'").count() == 4

    groups = {group.group_id for group in GroupAdmin(client).list_groups()}
    assert {"shop.split", "shop.windows", "shop.clicks.dead_letters"} <= groups


def test_broken_records_become_dead_letters_with_the_reason(
    spark: SparkSession, client: Client, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    send(client, topic, [event(1, "view", "10:00:00"), *BROKEN])
    file = tmp_path / "p.yaml"
    file.write_text(
        f"pipeline: p\ncheckpoint: s\nsources: {{c: {{topic: {topic}, format: json, "
        f"schema: 'id INT NOT NULL, price DOUBLE', dead_letters: {topic}.dead}}}}\n"
        f"sinks: {{ok: {{from: c, topic: {topic}.ok}}}}\n"
    )
    run(spark, file, bootstrap)
    assert values(read(spark, bootstrap, f"{topic}.ok")) == [{"id": 1}]
    dead = {bytes(row["key"]): row for row in read(spark, bootstrap, f"{topic}.dead")}
    reasons = {key.decode(): headers(row)["ottla.reason"] for key, row in dead.items()}
    assert reasons == {
        "1": "the value is not JSON",
        "2": "the value is null",
        "3": "the value is JSON, but not an object",
        "4": "price is not DOUBLE",
        "5": "id is missing",
        "6": "the value is not JSON",
        "7": "the value is empty",
    }
    letter = headers(dead[b"4"])
    assert (letter["ottla.topic"], letter["ottla.partition"], letter["ottla.offset"]) == (
        topic,
        "0",
        "4",
    )
    assert (letter["ottla.pipeline"], letter["was"]) == ("p", "here")
    assert bytes(dead[b"6"]["value"]) == b"\xff\xfe"
    assert dead[b"2"]["value"] is None


def test_without_dead_letters_a_broken_record_stops_the_pipeline_and_is_named(
    spark: SparkSession, client: Client, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    send(client, topic, [event(1, "view", "10:00:00"), '{"id": "x"}'])
    file = tmp_path / "p.yaml"
    file.write_text(
        f"checkpoint: s\nsources: {{c: {{topic: {topic}, format: json, schema: id INT}}}}\n"
        f"sinks: {{out: {{from: c, lake: lake}}}}\n"
    )
    with pytest.raises(PipelineError) as failed:
        run(spark, file, bootstrap)
    assert str(failed.value).startswith(
        f"sink out failed: record 1 in partition 0 of topic {topic}: id is not INT"
    ), str(failed.value)
    assert "\n" not in str(failed.value)
    report = reported(client, "p")
    assert (report.state, report.error) == (State.FAILED, str(failed.value))


def test_text_and_metadata(
    spark: SparkSession, client: Client, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    send(client, topic, ["hello", "world"])
    file = tmp_path / "p.yaml"
    file.write_text(
        f"checkpoint: s\nsources: {{lines: {{pattern: '{topic}', format: text}}}}\n"
        "steps: {long: 'SELECT key, upper(value) AS value, offset FROM lines'}\n"
        "sinks: {out: {from: long, lake: lake}}\n"
    )
    assert run(spark, file, bootstrap)["out"].rows == 2
    rows = spark.read.parquet(str(tmp_path / "lake")).orderBy("offset").collect()
    assert [tuple(row) for row in rows] == [("0", "HELLO", 0), ("1", "WORLD", 1)]


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("SELECT nothing(id) FROM c", "6: step s: [UNRESOLVED_ROUTINE]"),
        ("SELECT id\n      FROM c WHERE id.x = 1", "7: step s: [INVALID_EXTRACT_BASE_FIELD_TYPE]"),
    ],
)
def test_what_spark_finds_wrong_is_reported_with_the_line(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, step: str, problem: str
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        f"checkpoint: s\nsources:\n  c: {{topic: {topic}, format: json, schema: id INT}}\n"
        f"steps:\n  s: |\n      {step}\nsinks: {{out: {{from: s, lake: lake}}}}\n"
    )
    with pytest.raises(WrongFileError) as wrong:
        run(spark, file, bootstrap)
    assert str(wrong.value).startswith(f"{file}:{problem}"), str(wrong.value)
    assert not (tmp_path / "lake").exists()


def test_a_plan_that_spark_refuses_is_one_line_that_names_the_step(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    tmp_path: Path,
) -> None:
    """And starts nothing, also where another sink could be started."""
    file = tmp_path / "p.yaml"
    file.write_text(
        f"checkpoint: s\nsources:\n  c: {{topic: {topic}, format: json, schema: 'id INT, at "
        "TIMESTAMP'}\nsteps:\n  fine: SELECT * FROM c\n  ids: |\n    SELECT id, count(*) AS n\n"
        "    FROM fine GROUP BY id\n  more: SELECT id + 1 AS id, n FROM ids\n"
        "sinks:\n  all: {from: fine, lake: lake}\n  out: {from: more, topic: o}\n"
    )
    with pytest.raises(WrongFileError) as wrong:
        run(spark, file, bootstrap)
    said = f"{file}:7: step ids, for the sink out in mode append: [STREAMING_OUTPUT_MODE"
    assert str(wrong.value).startswith(said), str(wrong.value)
    assert "\n" not in str(wrong.value)
    assert not (tmp_path / "lake").exists()
    assert not (tmp_path / "s" / "all").exists()


@pytest.mark.parametrize(
    ("step", "line"),
    [("SELECT nope FROM c", 6), ("SELECT id + array(1) AS id FROM c", 6), ("SELECT id FROM c", 3)],
)
def test_no_stack_comes_with_what_spark_finds_wrong(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    line: int,
) -> None:
    watermark = ", watermark: {column: at, delay: 1 minute}" if line == 3 else ""
    file = tmp_path / "p.yaml"
    file.write_text(
        f"checkpoint: s\nsources:\n  c: {{topic: {topic}, format: json, schema: 'id INT, at "
        f"STRING'{watermark}}}\nsteps:\n  s: |\n    {step}\nsinks: {{out: {{from: s, lake: l}}}}\n"
    )
    logged: list[logging.LogRecord] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", logged.append)
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        monkeypatch.setattr(PySparkLogger.getLogger(name), "handlers", [handler])
    with pytest.raises(WrongFileError) as wrong:
        run(spark, file, bootstrap)
    assert str(wrong.value).startswith(f"{file}:{line}: "), str(wrong.value)
    assert "\n" not in str(wrong.value)
    assert logged == []


def test_a_wrong_option_is_one_line_in_the_file(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        "checkpoint: s\nsources:\n  c: {topic: t, format: text, options: {minPartition: 2}}\n"
        "sinks: {out: {from: c, lake: lake}}\n"
    )
    with pytest.raises(WrongFileError) as wrong:
        run(spark, file, bootstrap)
    assert str(wrong.value).startswith(f"{file}:3: source c: ")
    assert "minPartition" in str(wrong.value)
    assert "\n" not in str(wrong.value)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ("format: delta", ""),
        ("format: iceberg, options: {type: nonsense}", "nonsense"),
    ],
)
def test_a_lake_that_cannot_be_prepared_is_one_line_in_the_file(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, settings: str, reason: str
) -> None:
    (tmp_path / "lake").write_text("not a folder")
    file = tmp_path / "p.yaml"
    file.write_text(
        f"checkpoint: s\nsources: {{c: {{topic: {topic}, format: text}}}}\n"
        f"sinks:\n  out: {{from: c, lake: lake, {settings}}}\n"
    )
    with pytest.raises(WrongFileError) as wrong:
        run(spark, file, bootstrap)
    assert str(wrong.value).startswith(f"{file}:4: sink out: ")
    assert reason in str(wrong.value)
    assert "\n" not in str(wrong.value)


def test_a_missing_topic_is_one_sentence(
    spark: SparkSession, bootstrap: str, tmp_path: Path, new_topic: Callable[..., str]
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        "checkpoint: s\nsources: {c: {topic: not-there, format: text}}\n"
        "sinks: {out: {from: c, lake: lake}}\n"
    )
    with pytest.raises(PipelineError) as failed:
        run(spark, file, bootstrap)
    assert "not-there" in str(failed.value)
    assert "\n" not in str(failed.value)
    assert len(str(failed.value)) < 300, json.dumps(str(failed.value))


def test_update_mode_writes_windows_whenever_they_change_each_time_once(
    spark: SparkSession, client: Client, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        f"checkpoint: s\naudit: true\nsources: {{c: {{topic: {topic}, format: json, "
        "schema: 'id INT, at TIMESTAMP', watermark: {column: at, delay: 10 minutes}}}\n"
        "steps:\n  minutes: |\n    SELECT window.start AS minute, count(*) AS clicks FROM c\n"
        "    GROUP BY window(at, '1 minute')\n"
        f"sinks: {{out: {{from: minutes, topic: {topic}.out, key: minute, mode: update}}}}\n"
    )
    send(client, topic, [event(1, "view", "10:00:01"), event(2, "view", "10:00:02")])
    assert run(spark, file, bootstrap)["out"].rows == 1
    send(client, topic, [event(3, "view", "10:00:03"), event(4, "view", "10:01:03")])
    assert run(spark, file, bootstrap)["out"].rows == 2
    # Spark forgets that its last batch was committed, as after a crash just then.
    commits = tmp_path / "s" / "out" / "commits"
    last = max(int(path.name) for path in commits.glob("[0-9]*"))
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)
    run(spark, file, bootstrap)
    assert [value["clicks"] for value in values(read(spark, bootstrap, f"{topic}.out"))] == [
        2,
        3,
        1,
    ]
