"""What is counted of a topic's traffic, as clients see it."""

from threading import Event

import pytest

from ottla.broker.metrics.counters import TopicMetrics
from ottla.broker.scheduling import flusher
from ottla.embedded import Broker
from ottla.log.flush import Flush, run_together
from ottla.wire.batch import headers
from ottla.wire.messages.produce import ProduceResponse
from testkit.raw import PATIENCE_SECONDS, Connection
from tests.e2e.asking import PRODUCE, From, fetch, produce, produce_request
from tests.e2e.conftest import create_topic
from tests.log.making import batch
from tests.server.inside import on_loop, running, until


def _metrics(broker: Broker, topic: str) -> TopicMetrics:
    return on_loop(broker, lambda: running(broker).node.topic_metrics.of(topic))


@pytest.mark.parametrize("max_bytes", [1, 700, 3000, 1 << 20])
def test_messages_are_counted_in_and_out(max_bytes: int) -> None:
    with Broker() as broker, Connection(broker.bootstrap_servers) as connection:
        create_topic(connection, "t")
        for count in range(1, 30):
            produce(connection, "t", bytes(batch(count)))
        sent = sum(range(1, 30))
        offset = 0
        while offset < sent:
            answer = fetch(connection, From("t", offset, max_bytes=max_bytes))
            found = list(headers(memoryview(answer.records or b"")))
            offset = found[-1][1].next_offset
        metrics = _metrics(broker, "t")
        assert (metrics.messages_in, metrics.messages_out) == (sent, sent)


def test_a_produce_that_waits_for_the_disk_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = Event()

    def slowly(flushes: list[Flush]) -> None:
        may_end.wait(PATIENCE_SECONDS)
        run_together(flushes)

    monkeypatch.setattr(flusher, "run_together", slowly)
    with Broker() as broker, Connection(broker.bootstrap_servers) as connection:
        create_topic(connection, "t", configs={"flush.messages": "1"})
        node = running(broker).node
        connection.send(produce_request("t", bytes(batch())), PRODUCE)
        until(broker, lambda: node.delayed.produces == 1)
        may_end.set()
        connection.receive(ProduceResponse, PRODUCE)
        assert on_loop(broker, lambda: node.delayed.produces) == 0
