"""Sends click events as a web shop would see them, with confluent-kafka: the demo's producer.

    python examples/click_events.py --bootstrap 127.0.0.1:9092 --events 1000000

Without --bootstrap it sends to OTTLA_BOOTSTRAP, as the `ottla` command does.

An hour of a shop, in order but for the late ones: some events come minutes late, some twice, some
broken. The number of events that were sent so far is printed now and then, and at the end one
line of JSON that says what is in the topic: what a pipeline must find.
"""

import argparse
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from confluent_kafka import KafkaException, Producer

from ottla.audit.confluent import AuditedProducer
from ottla.client import Admin, Client, ClientSettings
from ottla.wire.errors import KafkaError

TYPES = ("view", "search", "cart", "buy")
TYPE_WEIGHTS = (62, 22, 11, 5)
PAGES = {
    "view": ("/", "/product", "/product", "/help"),
    "search": ("/search",),
    "cart": ("/cart",),
    "buy": ("/checkout",),
}
HOUR = 3600
MOST_LATE = 8 * 60
"""Seconds; the pipeline waits for 10 minutes."""
LATE, TWICE, BROKEN = 0.02, 0.005, 0.002
"""How many of the events are so."""
REPORT_EVERY = 20_000

Message = tuple[str, str | None]
"""Key and value of a record."""


def events(count: int, start: datetime, truth: Counter[str]) -> Iterator[Message]:
    """As many events, and what they are, in `truth`."""
    chance = random.Random(7)
    seconds = [
        (start + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S")
        for second in range(-MOST_LATE, HOUR)
    ]
    types = chance.choices(TYPES, TYPE_WEIGHTS, k=count)
    for number in range(count):
        kind = types[number]
        luck = chance.random()
        second = MOST_LATE + number * HOUR // count
        if luck < LATE:
            second -= chance.randrange(60, MOST_LATE)
            truth["late"] += 1
        price = f"{chance.random() * 90 + 5:.2f}" if kind == "buy" else "null"
        user = chance.randrange(50_000)
        key = str(user)
        value = (
            f'{{"event_id":"e{number:08d}","type":"{kind}","at":"{seconds[second]}.'
            f'{number % 1000:03d}Z","user":{user},"page":"{chance.choice(PAGES[kind])}",'
            f'"price":{price},"agent":"Mozilla/5.0 (X11; Linux x86_64; rv:145.0)"}}'
        )
        if luck > 1 - BROKEN:
            truth["broken"] += 1
            yield key, broken(value, truth["broken"])
            continue
        truth["events"] += 1
        truth[kind] += 1
        yield key, value
        if luck > 1 - BROKEN - TWICE:
            truth["duplicates"] += 1
            truth[kind] += 1
            yield key, value


def broken(value: str, number: int) -> str | None:
    """What applications do to JSON."""
    ways = (
        value[: len(value) // 2],
        value.replace('"user":', '"user":"guest ').replace(',"page"', '","page"'),
        value.replace('"event_id"', '"id"'),
        "<html>502 Bad Gateway</html>",
        None,
    )
    return ways[number % len(ways)]


def send(producer: Producer, topic: str, count: int, truth: Counter[str]) -> None:
    """Send them all; KafkaException if one was refused."""
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    failed: list[Exception] = []

    def on_delivery(error: object, message: object) -> None:
        if error is not None:
            failed.append(KafkaException(error))

    for number, (key, value) in enumerate(events(count, now - timedelta(hours=1), truth), 1):
        while True:
            try:
                producer.produce(topic, value, key, on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.05)
        if number % REPORT_EVERY == 0:
            producer.poll(0)
            print(number, flush=True)
    unsent = producer.flush(60)
    if failed:
        raise failed[0]
    if unsent:
        raise SystemExit(f"{unsent} events were not acknowledged")


def probe(bootstrap: str) -> None:
    """End with a line where no broker answers; librdkafka would try for minutes."""
    try:
        with Client(ClientSettings(bootstrap_servers=bootstrap, deadline=5)) as client:
            Admin(client).describe_cluster()
    except KafkaError as problem:
        raise SystemExit(f"{problem} (start a broker with: ottla serve)") from None


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    bootstrap = os.environ.get("OTTLA_BOOTSTRAP", "127.0.0.1:9092")
    parser.add_argument("--bootstrap", default=bootstrap)
    parser.add_argument("--topic", default="clicks")
    parser.add_argument("--events", type=int, default=1_000_000)
    given = parser.parse_args()
    settings = {
        "bootstrap.servers": given.bootstrap,
        "client.id": "shop",
        "enable.idempotence": True,
        "linger.ms": 20,
        "compression.type": "lz4",
    }
    truth: Counter[str] = Counter()
    probe(given.bootstrap)
    producer = AuditedProducer(settings)
    send(producer, given.topic, given.events, truth)
    producer.close()
    print(json.dumps(truth))
    return 0


if __name__ == "__main__":
    sys.exit(main())
