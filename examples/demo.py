"""The demo: a broker, 100,000 click events through a stock client, and what came of it.

Starts Ottla on a free port and a temporary folder, produces with confluent-kafka, consumes
everything again, checks that nothing is missing, and leaves nothing running.
"""

import json
import random
import sys
import time
import uuid
from collections import Counter

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import ottla

EVENTS = 100_000
PARTITIONS = 4
TOPIC = "clicks"
PAGES = ("/", "/search", "/product", "/cart", "/checkout")

console = Console()


def main() -> int:
    """Run the demo; returns the exit status."""
    started = time.perf_counter()
    with ottla.Broker() as broker:
        took = time.perf_counter() - started
        console.print(f"[bold]Ottla[/] serves Kafka clients at {broker.bootstrap_servers} ", end="")
        console.print(f"(started in {took * 1000:.0f} ms, no JVM)")
        create_topic(broker.bootstrap_servers)
        with progress() as bars:
            produced = produce(broker.bootstrap_servers, bars)
            consumed, pages, lost = consume(broker.bootstrap_servers, bars)
    console.print(summary(produced, consumed))
    console.print(popularity(pages))
    if lost:
        console.print(f"[red]{lost} events are missing[/]")
        return 1
    console.print(f"All {EVENTS:,} events came back, each once. The broker is stopped.")
    return 0


def create_topic(bootstrap: str) -> None:
    """Make the topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)


def produce(bootstrap: str, bars: Progress) -> float:
    """Send the events; returns the seconds it took."""
    choose = random.Random(7)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5})
    failed: list[KafkaError] = []
    bar = bars.add_task("produce", total=EVENTS)

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)
        bars.advance(bar)

    started = time.perf_counter()
    for number in range(EVENTS):
        user = f"user-{choose.randrange(5000)}"
        event = {
            "id": number,
            "user": user,
            "page": choose.choices(PAGES, weights=(30, 25, 25, 12, 8))[0],
            "at": time.time_ns() // 1_000_000,
            "session": str(uuid.UUID(int=choose.getrandbits(128))),
        }
        while True:
            try:
                producer.produce(TOPIC, json.dumps(event), key=user, on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 500 == 0:
            producer.poll(0)
    producer.flush(60)
    if failed:
        raise KafkaException(failed[0])
    return time.perf_counter() - started


def consume(bootstrap: str, bars: Progress) -> tuple[float, Counter[str], int]:
    """Read everything; returns seconds, events by page, and how many are missing."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "demo", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    bar = bars.add_task("consume", total=EVENTS)
    pages: Counter[str] = Counter()
    seen: set[int] = set()
    started = time.perf_counter()
    quiet_since = started
    while len(seen) < EVENTS and time.perf_counter() - quiet_since < 10:
        messages = consumer.consume(10_000, timeout=1)
        if messages:
            quiet_since = time.perf_counter()
        for message in messages:
            if message.error():
                raise KafkaException(message.error())
            event = json.loads(message.value() or b"")
            pages[event["page"]] += 1
            seen.add(event["id"])
        bars.update(bar, completed=len(seen))
    took = time.perf_counter() - started
    consumer.close()
    return took, pages, EVENTS - len(seen)


def progress() -> Progress:
    """Bars for both halves."""
    return Progress(
        TextColumn("{task.description:>8}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def summary(produced: float, consumed: float) -> Table:
    """Rates of both halves."""
    table = Table(title="What the client saw")
    for heading in ("", "events", "seconds", "events/s"):
        table.add_column(heading, justify="right")
    for name, seconds in (("produced, acks=all", produced), ("consumed", consumed)):
        table.add_row(name, f"{EVENTS:,}", f"{seconds:.2f}", f"{EVENTS / seconds:,.0f}")
    return table


def popularity(pages: Counter[str]) -> Table:
    """Events by page."""
    table = Table(title="Clicks by page")
    table.add_column("page")
    table.add_column("clicks", justify="right")
    table.add_column("")
    most = max(pages.values(), default=1)
    for page, clicks in pages.most_common():
        table.add_row(page, f"{clicks:,}", "█" * round(30 * clicks / most))
    return table


if __name__ == "__main__":
    sys.exit(main())
