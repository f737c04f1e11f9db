"""Transactions of real clients: commit, abort, fencing, and readers of each kind."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from testkit.clients.transactional import TRANSACTIONAL, FencedError, Transactional
from tests.e2e.reading import READERS

Starts = Callable[[], Transactional]


@pytest.fixture(params=sorted(TRANSACTIONAL))
def new_writer(
    request: pytest.FixtureRequest, bootstrap: str, new_name: Callable[[], str]
) -> Iterator[Starts]:
    """Starts producers that all have the same transactional id."""
    transactional_id = new_name()
    with ExitStack() as stack:

        def start() -> Transactional:
            writer = TRANSACTIONAL[request.param](bootstrap, transactional_id)
            stack.callback(writer.close)
            return writer

        yield start


@pytest.mark.parametrize("reader", READERS)
def test_readers_see_what_was_committed(
    bootstrap: str, new_writer: Starts, topic: str, reader: str
) -> None:
    writer = new_writer()
    for number in range(6):
        writer.begin()
        writer.send(topic, b"%d a" % number)
        writer.send(topic, b"%d b" % number)
        if number % 2:
            writer.abort()
        else:
            writer.commit()
    writer.begin()
    writer.send(topic, b"last")
    writer.commit()
    committed = READERS[reader](bootstrap, topic, b"last", "read_committed")
    assert committed == [b"0 a", b"0 b", b"2 a", b"2 b", b"4 a", b"4 b", b"last"]
    everything = READERS[reader](bootstrap, topic, b"last", "read_uncommitted")
    assert len(everything) == 13


def send_and_commit(writer: Transactional, topic: str) -> None:
    """One of the two must tell a fenced producer that it is one."""
    writer.send(topic, b"too late")
    writer.commit()


def test_a_second_producer_fences_the_first(bootstrap: str, new_writer: Starts, topic: str) -> None:
    first = new_writer()
    first.begin()
    first.send(topic, b"of the first")
    second = new_writer()
    with pytest.raises(FencedError):
        send_and_commit(first, topic)
    second.begin()
    second.send(topic, b"of the second")
    second.commit()
    committed = READERS["confluent-kafka"](bootstrap, topic, b"of the second", "read_committed")
    assert committed == [b"of the second"]
