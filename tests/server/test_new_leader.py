"""A new leader does not know yet what was committed before it: it does not say that nothing was."""

from collections.abc import Iterator

import pytest

from ottla.embedded import Broker
from ottla.wire.errors import ErrorCode
from testkit.batches import now_ms, values
from testkit.raw import Connection
from tests.e2e.asking import LATEST, list_offset, produce
from tests.e2e.conftest import create_topic
from tests.server.sharing import shared

MAX_TIMESTAMP = -3
LONG_AGO = 1


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def test_an_offset_that_may_be_committed_is_not_said_to_be_missing(broker: Broker) -> None:
    with Connection(broker.bootstrap_servers) as client:
        create_topic(client, "t")
        for value in (b"first", b"second"):
            assert produce(client, "t", values(value)).error_code == 0
        shared(broker, "t", committed=0)
        for timestamp in (LATEST, MAX_TIMESTAMP, LONG_AGO, now_ms() + 1_000_000):
            assert list_offset(client, "t", timestamp).error_code == ErrorCode.OFFSET_NOT_AVAILABLE


def test_an_offset_that_is_known_as_committed_is_reported(broker: Broker) -> None:
    with Connection(broker.bootstrap_servers) as client:
        create_topic(client, "t")
        for value in (b"first", b"second"):
            assert produce(client, "t", values(value)).error_code == 0
        shared(broker, "t", committed=1)
        assert list_offset(client, "t", LONG_AGO).offset == 0
        shared(broker, "t", committed=2)
        found = list_offset(client, "t", now_ms() + 1_000_000)
        assert (found.error_code, found.offset) == (0, -1)
