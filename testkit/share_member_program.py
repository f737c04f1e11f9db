"""One member of a share group as a program of its own, so that it can be killed like one.

    python -m testkit.share_member_program BOOTSTRAP GROUP TOPIC

It accepts every record, and says what happens in the words of Kafka's VerifiableShareConsumer: an
event `records_consumed` before it acknowledges, `offsets_acknowledged` when that was answered.
It leaves its group when it gets SIGTERM.
"""

import json
import signal
import sys
import time
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from confluent_kafka import AcknowledgeType, KafkaException, ShareConsumer

POLL_SECONDS = 0.2
ANSWER_SECONDS = 30
Place = tuple[int, int]
"""Partition and offset."""


def _say(name: str, topic: str, places: Iterable[Place], **more: object) -> None:
    partitions = [
        {"topic": topic, "partition": partition, "offsets": [offset for _, offset in found]}
        for partition, found in groupby(sorted(places), key=lambda place: place[0])
    ]
    event = {"timestamp": time.time_ns() // 1_000_000, "name": name, "partitions": partitions}
    print(json.dumps({**event, **more}), flush=True)


def main(bootstrap: str, group: str, topic: str) -> None:
    """Read, accept and report until the signal comes."""
    goes_on = True

    def end(*_: Any) -> None:
        nonlocal goes_on
        goes_on = False

    signal.signal(signal.SIGTERM, end)
    consumer = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    while goes_on:
        messages = [each for each in consumer.poll(POLL_SECONDS) if each.error() is None]
        if not messages:
            continue
        places = [(each.partition() or 0, each.offset() or 0) for each in messages]
        _say("records_consumed", topic, places)
        for message in messages:
            consumer.acknowledge(message, AcknowledgeType.ACCEPT)
        try:
            answers = consumer.commit_sync(ANSWER_SECONDS)
        except KafkaException as problem:
            _say("offsets_acknowledged", topic, places, success=False, error=str(problem))
            continue
        refused = {where.partition for where, error in answers.items() if error is not None}
        answered = {where.partition for where in answers} - refused
        kept = [place for place in places if place[0] in answered]
        _say("offsets_acknowledged", topic, kept, success=True)
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
