"""Which records are broken, whatever a query wants of them, and why."""

import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from pyspark_ottla.pipeline.parsing import dead_letters, parsed_rows, strictly_parsed_rows


def schema(text: str) -> StructType:
    """Spark parses it, so there must be a session."""
    made = StructType.fromDDL(text)
    assert isinstance(made, StructType)
    return made


SCHEMA = "id BIGINT NOT NULL, name STRING, `a.b` INT, tags ARRAY<STRING>"
NESTED = (
    "id BIGINT NOT NULL, o STRUCT<x: INT, l: ARRAY<STRUCT<y: STRING>>>, m MAP<STRING, DOUBLE>, "
    "l ARRAY<ARRAY<INT>>, t TIMESTAMP, d DOUBLE, s STRING"
)
RECORDS = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
TIME = datetime(2026, 11, 16, tzinfo=UTC)


def records(spark: SparkSession, *values: str | bytes | None) -> DataFrame:
    """Records of one partition."""
    rows = [
        (None, value.encode() if isinstance(value, str) else value, "t", 0, number, TIME, None)
        for number, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, RECORDS)


GOOD = [
    '{"id":1}',
    ' \n{ "id" : 2 , "name" : "Grüße ☃ \\u0041 ]} \\" , [" }\r\n',
    '{"id":3,"o":{"x":1,"l":[{"y":"a"},{"y":null},null,{}]},"m":{"k":1.5},"l":[[1,2],[],null]}',
    '{"id":4,"o":null,"m":{},"l":[],"t":"2026-11-16T10:00:00Z","d":1e3,"s":"","other":[{"a":{}}]}',
    '{"id":5,"d":NaN}',
    "{'id':6,'s':'single quotes'}",
    '{"id":7,"s":{"kept":["as","text"]}}',
]


def test_good_records_have_all_their_values(spark: SparkSession) -> None:
    rows = parsed_rows(records(spark, *GOOD), schema(NESTED), metadata=False)
    found = {row["id"]: row.asDict(recursive=True) for row in rows.collect()}
    assert sorted(found) == list(range(1, 8))
    assert found[3]["o"] == {"x": 1, "l": [{"y": "a"}, {"y": None}, None, {"y": None}]}
    assert (found[3]["m"], found[3]["l"]) == ({"k": 1.5}, [[1, 2], [], None])
    assert (found[4]["m"], found[4]["l"], found[4]["d"], found[4]["s"]) == ({}, [], 1000.0, "")
    assert found[4]["o"] is None
    assert found[6]["s"] == "single quotes"
    assert json.loads(found[7]["s"]) == {"kept": ["as", "text"]}
    names = parsed_rows(records(spark, GOOD[1], '{"id":1,"a.b":2}'), schema(SCHEMA), metadata=True)
    assert [(row["name"], row["a.b"], row["kafka"]["offset"]) for row in names.collect()] == [
        ('Grüße ☃ A ]} " , [', None, 0),
        (None, 2, 1),
    ]


MORE = "unexpected data after the JSON"
BROKEN: dict[str | None, str] = {
    None: "the value is null",
    '{"id":3}{"id":4}': MORE,
    '{"id":3},{"id":4}': MORE,
    '{"id":3}\n{"id":4}': MORE,
    '{"id":2} garbage': MORE,
    '{"id":2}]': MORE,
    '{"id":2}}': MORE,
    '{"id":2},': MORE,
    '{"id":2},"x":1': MORE,
    '{"id":2}],"x":[1': MORE,
    '{"id":2},null],"x":[1': MORE,
    '{"id":2}]} garbage': MORE,
    '{"id":2},null]}': MORE,
    '{"id":2}],"_found":[{"id":3}': MORE,
    "[1]": "the value is JSON, but not an object",
    "null": "the value is JSON, but not an object",
    '{"id":1,"tags":"x"}': "tags is not ARRAY<STRING>",
    '{"id":1,"a.b":"x"} garbage': "a.b is not INT",
    '{"name":"x"}': "id is missing",
    '{"id":1': "the value is not JSON",
    "": "the value is empty",
}


def test_each_broken_record_has_its_reason(spark: SparkSession) -> None:
    given = records(spark, *BROKEN)
    assert parsed_rows(given, schema(SCHEMA), metadata=False).count() == 0
    letters = dead_letters(given, schema(SCHEMA), "p").collect()
    reasons = {
        None if row["value"] is None else bytes(row["value"]).decode(): bytes(
            row["headers"][0]["value"]
        ).decode()
        for row in letters
    }
    assert reasons == BROKEN


@pytest.mark.parametrize(
    "query",
    [
        lambda rows: rows.groupBy().count(),
        lambda rows: rows.select(f.lit(1)),
        lambda rows: rows.select("kafka.offset"),
        lambda rows: rows.where("id > 100").select("name"),
        lambda rows: rows.select("id"),
    ],
    ids=["count", "nothing", "metadata", "filter", "column"],
)
@pytest.mark.parametrize("broken", ['{"id":"x"}', '{"id":2} garbage', None])
def test_a_broken_record_is_found_whatever_the_query_needs(
    spark: SparkSession, query: Callable[[DataFrame], DataFrame], broken: str | None
) -> None:
    given = records(spark, '{"id":1}', broken)
    rows = query(strictly_parsed_rows(given, schema(SCHEMA), metadata=True))
    with pytest.raises(Exception, match="record 1 in partition 0 of topic t: "):
        rows.collect()
    good = records(spark, '{"id":1}', '{"id":101}')
    assert query(strictly_parsed_rows(good, schema(SCHEMA), metadata=True)).collect()
