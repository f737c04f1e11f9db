"""Exactly once from Kafka to a database: result and offset are in one database transaction.

    python examples/delivery/exactly_once_database.py --crash

Kafka knows nothing of it: nothing is committed to the group, which only shares out partitions. The
database says where to continue, so result and position cannot come apart. Here it is SQLite; in
PostgreSQL the statements are the same, but for the placeholders.
"""

import sqlite3
from collections import Counter

from confluent_kafka import Consumer, TopicPartition
from stage import Stage, read, run, say, text

TABLES = """
CREATE TABLE IF NOT EXISTS invoices (order_name TEXT);
CREATE TABLE IF NOT EXISTS positions (
    topic TEXT, part INTEGER, next_offset INTEGER, PRIMARY KEY (topic, part)
);
"""
BEGIN_AT = "INSERT INTO positions VALUES (?, ?, 0) ON CONFLICT DO NOTHING"
POSITION = "SELECT next_offset FROM positions WHERE topic = ? AND part = ?"
ADVANCE = """
UPDATE positions SET next_offset = ? + 1 WHERE topic = ? AND part = ? AND next_offset <= ?
"""


def work(stage: Stage) -> None:
    """Write an invoice for each order."""
    database = sqlite3.connect(stage.folder / "billing.sqlite")
    database.executescript(TABLES)

    def seek(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            where = (partition.topic, partition.partition)
            with database:
                database.execute(BEGIN_AT, where)
            (partition.offset,) = database.execute(POSITION, where).fetchone()
            say(f"goes on at offset {partition.offset}")
        consumer.assign(partitions)

    consumer = Consumer(stage.consumer_settings)
    consumer.subscribe([stage.orders], on_assign=seek)
    for message in read(consumer):
        stage.may_crash("before-transaction", [message])
        offset = message.offset()
        with database:  # Commits at its end; an exception, or the end of the process, rolls back.
            moved = database.execute(
                ADVANCE, (offset, message.topic(), message.partition(), offset)
            )
            if not moved.rowcount:
                continue  # Another worker has the partition now, and was faster.
            database.execute("INSERT INTO invoices VALUES (?)", (text(message),))
            stage.may_crash("inside-transaction", [message])
        say(f"invoice for {text(message)}")
        stage.may_crash("after-transaction", [message])
    consumer.close()
    database.close()


def invoices(stage: Stage) -> Counter[str]:
    """How many invoices each order has."""
    database = sqlite3.connect(stage.folder / "billing.sqlite")
    found = Counter(name for (name,) in database.execute("SELECT order_name FROM invoices"))
    database.close()
    return found


if __name__ == "__main__":
    run(work, ["inside-transaction", "before-transaction", "after-transaction"], invoices)
