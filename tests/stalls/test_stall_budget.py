"""No request holds the loop: hostile ones run against a broker while its turns are measured.

The quick form of `make stalls`, which sends the largest requests there are and larger bombs.
"""

import gc
import os
from collections.abc import Iterator
from time import time

import pytest

from ottla.embedded import Broker
from testkit.raw import Connection
from tests.e2e.asking import MAX_TIMESTAMP, list_offset, produce
from tests.server.inside import on_loop, running
from tests.stalls.bombs import bombs
from tests.stalls.corpus import TOPIC, requests
from tests.stalls.meter import Meter
from tests.stalls.sending import create, memory_of, send

QUICK_REQUEST = 96 << 10
LARGEST_FETCH = 600 << 10
"""With as many partitions as a Fetch may have."""
QUICK_BODY = 8 << 20
BUDGET_SECONDS = 0.03
MOST_MEMORY = 250 << 20
"""How much more the process may hold than before: other tests may have used it."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    thresholds = gc.get_threshold()
    with Broker(num_partitions=1) as found:
        with Connection(found.bootstrap_servers) as connection:
            create(connection, TOPIC)
            create(connection, "compacted", {"cleanup.policy": "compact"})
            create(connection, "recompressed", {"compression.type": "gzip"})
            create(connection, "uncompressed", {"compression.type": "uncompressed"})
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)  # as `ottla serve` does
        try:
            yield found
        finally:
            gc.set_threshold(*thresholds)
            gc.unfreeze()


def test_no_request_with_many_elements_holds_the_loop(broker: Broker) -> None:
    topic_id = on_loop(broker, lambda: running(broker).node.image.topics[TOPIC].id)
    meter = Meter(broker)
    slow = {}
    for request in requests(QUICK_REQUEST, topic_id):
        meter.take()
        send(broker.bootstrap_servers, request.frame)
        cpu, _ = meter.take()
        if cpu > BUDGET_SECONDS:
            slow[request.name] = round(cpu, 3)
    assert not slow


def test_no_fetch_of_many_partitions_holds_the_loop(broker: Broker) -> None:
    topic_id = on_loop(broker, lambda: running(broker).node.image.topics[TOPIC].id)
    meter = Meter(broker)
    slow = {}
    for request in requests(LARGEST_FETCH, topic_id, "FetchRequest.topics"):
        meter.take()
        send(broker.bootstrap_servers, request.frame)
        cpu, _ = meter.take()
        if cpu > BUDGET_SECONDS:
            slow[request.name] = round(cpu, 3)
    assert not slow


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "keyless"])
@pytest.mark.parametrize("stamp", ["right", "missing", "untimely", "untrue"])
def test_no_compressed_bomb_holds_the_loop(broker: Broker, keyed: bool, stamp: str) -> None:
    now = int(time() * 1000)
    base = now + 10**9 if stamp == "untimely" else now
    largest = {"missing": -1, "untrue": now + 1000}.get(stamp, base)
    meter = Meter(broker)
    before = memory_of(os.getpid())
    slow = {}
    with Connection(broker.bootstrap_servers, 60) as connection:
        for bomb in bombs(QUICK_BODY, base, keyed=keyed, max_timestamp=largest):
            for topic in (TOPIC, "compacted", "recompressed", "uncompressed"):
                meter.take()
                produce(connection, topic, bomb.batch)
                for timestamp in (now + 1, MAX_TIMESTAMP):
                    list_offset(connection, topic, timestamp)
                cpu, _ = meter.take()
                if cpu > BUDGET_SECONDS:
                    slow[bomb.name, topic] = round(cpu, 3)
    assert not slow
    assert memory_of(os.getpid()) - before < MOST_MEMORY
