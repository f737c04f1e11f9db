"""Exactly once from Kafka to Kafka: results and offsets are committed in one transaction.

    python examples/delivery/exactly_once_kafka.py --crash

Orders are read, and for each an invoice is written to another topic. A consumer of the invoices
with `isolation.level=read_committed` (the default of librdkafka and so of confluent-kafka; Java's
consumer has to be told) sees each one once, whatever happens here.
"""

from collections import Counter
from collections.abc import Iterator

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from stage import EXCEPTION, FATAL_ORDER, Stage, read, run, say, text

ORDERS_IN_A_TRANSACTION = 4


def work(stage: Stage) -> None:
    """Turn orders into invoices, some in each transaction."""
    producer = Producer(
        {"bootstrap.servers": stage.bootstrap, "transactional.id": f"billing-{stage.name}-0"}
    )
    # Fences the producer that had the id before, and aborts what it left open: first of all, so
    # that the offsets read below are not about to change.
    producer.init_transactions()
    consumer = Consumer({**stage.consumer_settings, "isolation.level": "read_committed"})
    consumer.subscribe([stage.orders])
    stumble = stage.crash == EXCEPTION
    for messages in in_batches(read(consumer)):
        producer.begin_transaction()
        try:
            stage.may_crash("before-send", messages)
            for message in messages:
                if stumble and text(message) == FATAL_ORDER:
                    stumble = False
                    raise InvalidOrder(FATAL_ORDER)
                producer.produce(stage.invoices, f"invoice for {text(message)}")
            producer.flush()
            stage.may_crash("after-send", messages)
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()), consumer.consumer_group_metadata()
            )
            stage.may_crash("after-offsets", messages)
            producer.commit_transaction()
        except (InvalidOrder, KafkaException) as problem:
            if isinstance(problem, KafkaException) and not problem.args[0].txn_requires_abort():
                raise  # An abort does not help: perhaps another worker has the transactional id.
            say(f"aborts the transaction: {problem!r}")
            producer.abort_transaction()
            rewind(consumer)
            continue
        say(f"committed invoices for {', '.join(map(text, messages))}")
        stage.may_crash("after-commit", messages)
    consumer.close()


class InvalidOrder(Exception):  # noqa: N818 (it names what happened)
    """What an order may be to the program that processes it."""


def in_batches(messages: Iterator[Message]) -> Iterator[list[Message]]:
    """A few messages at a time: a transaction costs more than a message."""
    batch: list[Message] = []
    for message in messages:
        batch.append(message)
        if len(batch) == ORDERS_IN_A_TRANSACTION:
            yield batch
            batch = []
    if batch:
        yield batch


def rewind(consumer: Consumer) -> None:
    """Go back to what is committed: an abort takes back the records, not the reading."""
    for partition in consumer.committed(consumer.assignment(), timeout=30):
        if partition.offset < 0:
            partition.offset = OFFSET_BEGINNING
        consumer.seek(partition)


def invoices(stage: Stage) -> Counter[str]:
    """How many invoices each order has, as readers of committed records see them."""
    everything, end = read_invoices(stage, "read_uncommitted", 0)
    committed, _ = read_invoices(stage, "read_committed", end)
    print(f"The topic of invoices holds {len(everything)} records, {len(committed)} committed.")
    return Counter(invoice.removeprefix("invoice for ") for invoice in committed)


def read_invoices(stage: Stage, isolation: str, end: int) -> tuple[list[str], int]:
    """The invoices, and where the topic ends."""
    settings = {**stage.consumer_settings, "group.id": "auditor", "isolation.level": isolation}
    del settings["group.instance.id"]
    consumer = Consumer(settings)
    where = TopicPartition(stage.invoices, 0, OFFSET_BEGINNING)
    consumer.assign([where])
    found = [text(message) for message in read(consumer, end)]
    end = consumer.get_watermark_offsets(where)[1]
    consumer.close()
    return found, end


if __name__ == "__main__":
    run(
        work,
        ["after-send", "before-send", "after-offsets", "after-commit", EXCEPTION],
        invoices,
    )
