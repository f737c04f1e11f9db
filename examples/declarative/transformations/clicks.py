"""A streaming table from a topic, a view over it, and a sink that writes to another topic.

Spark reads this file to learn what there is; it runs the functions itself, in its own order. The
broker is the environment variable OTTLA_BOOTSTRAP, else one on this machine.
"""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

BOOTSTRAP = os.environ.get("OTTLA_BOOTSTRAP", "127.0.0.1:9092")
SCHEMA = "id BIGINT, type STRING, at TIMESTAMP"

dp.create_sink("buys_topic", "ottla", {"kafka.bootstrap.servers": BOOTSTRAP, "topic": "buys"})


@dp.table
def clicks() -> DataFrame:
    """All clicks, as rows."""
    spark = SparkSession.active()
    source = spark.readStream.format("ottla").option("kafka.bootstrap.servers", BOOTSTRAP)
    records = source.option("subscribe", "clicks").option("startingOffsets", "earliest").load()
    return records.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("c")).select(
        "c.*"
    )


@dp.materialized_view
def types() -> DataFrame:
    """How many there are of each type."""
    return SparkSession.active().read.table("clicks").groupBy("type").count()


@dp.append_flow(target="buys_topic")
def buys() -> DataFrame:
    """What was bought, to a topic, exactly once."""
    rows = SparkSession.active().readStream.table("clicks").where("type = 'buy'")
    return rows.select(
        f.col("id").cast("string").alias("key"), f.to_json(f.struct("*")).alias("value")
    )
