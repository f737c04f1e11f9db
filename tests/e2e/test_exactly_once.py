"""Exactly once under kill -9: the short version of `python -m compat --only exactly-once`."""

import pytest

from testkit import exactly_once
from tests.e2e.conftest import OwnBroker

ROUNDS = 3


@pytest.mark.parametrize(
    "clients",
    [["confluent-kafka", "confluent-kafka"], ["kafka-python"], ["aiokafka"]],
    ids=lambda clients: f"{len(clients)}-{clients[0]}",
)
def test_every_record_is_copied_once(own_broker: OwnBroker, clients: list[str]) -> None:
    exactly_once.run(own_broker(exactly_once.SETTINGS), clients, ROUNDS, seed=1)
