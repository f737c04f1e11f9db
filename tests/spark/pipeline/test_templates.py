"""Names of topics that are made of rows."""

import pytest
from pyspark.sql import SparkSession

from pyspark_ottla.pipeline.document import Text
from pyspark_ottla.pipeline.templates import TOPIC_NAME, topic_expression


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("{v}", "_"),
        ("{concat(v, '.')}", "_"),
        ("{v}.{v}.", "_"),
        ("{v}...", "..."),
        (".{v}a", ".a"),
        ("{repeat('ab', 200)}", "ab" * 124 + "a"),
        ("clicks-{repeat('é', 300)}", "clicks-" + "_" * 242),
        ("clicks-{CAST(NULL AS INT)}", "clicks-null"),
        ("clicks-{'a\tb'}", "clicks-a_b"),
    ],
)
def test_every_row_has_a_name_that_a_topic_can_have(
    spark: SparkSession, template: str, name: str
) -> None:
    rows = spark.createDataFrame([("",)], "v STRING")
    (row,) = rows.selectExpr(f"{topic_expression(Text(template, 1))} AS topic").collect()
    assert row["topic"] == name
    assert TOPIC_NAME.fullmatch(name)
