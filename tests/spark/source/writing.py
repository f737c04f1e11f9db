"""Records for a source to read, and what a query read of them."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from confluent_kafka import Producer as ConfluentProducer
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader

from ottla.client import Client, Producer


def write(client: Client, topic: str, values: Iterable[str], partition: int = 0) -> None:
    """Write some values to one partition."""
    with Producer(client) as producer:
        for value in values:
            producer.send(topic, value.encode(), partition=partition)


def write_numbers(client: Client, topic: str, count: int, partitions: int = 1) -> None:
    """Write "0", "1", ... in turn to the partitions of a topic."""
    with Producer(client) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=number % partitions)


def write_transaction(
    bootstrap: str, topic: str, values: Iterable[str], *, commit: bool | None
) -> ConfluentProducer:
    """Write values in a transaction that is committed, aborted or (None) left open."""
    producer = ConfluentProducer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-{commit}"}
    )
    producer.init_transactions()
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.flush()
    if commit is True:
        producer.commit_transaction()
    if commit is False:
        producer.abort_transaction()
    return producer


def reading(spark: SparkSession, bootstrap: str, **options: object) -> DataFrame:
    """A batch read; `kafka_x_y` stands for the option kafka.x.y."""
    return spark.read.format("ottla").options(**named(bootstrap, options)).load()


def streaming(spark: SparkSession, bootstrap: str, **options: object) -> DataFrame:
    """A stream."""
    reader: DataStreamReader = spark.readStream.format("ottla")
    return reader.options(**named(bootstrap, options)).load()


def named(bootstrap: str, options: Mapping[str, object]) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": bootstrap,
        **{
            name.replace("_", "."): str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in options.items()
        },
    }


def values(rows: Iterable[Row]) -> list[str]:
    """The values of rows as text, in the order of topics, partitions and offsets."""
    ordered = sorted(rows, key=lambda row: (row.topic, row.partition, row.offset))
    return [bytes(row.value).decode() for row in ordered]


class Batches:
    """What the micro-batches of a query held."""

    def __init__(self) -> None:
        self.by_id: dict[int, list[Row]] = {}

    def take(self, frame: DataFrame, batch_id: int) -> None:
        self.by_id[batch_id] = frame.collect()

    @property
    def rows(self) -> list[Row]:
        return [row for _, rows in sorted(self.by_id.items()) for row in rows]


def read_available(frame: DataFrame, checkpoint: Path) -> tuple[Batches, StreamingQuery]:
    """Run a query over what is there now, to its end."""
    batches = Batches()
    query = (
        frame.writeStream.foreachBatch(batches.take)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return batches, query
