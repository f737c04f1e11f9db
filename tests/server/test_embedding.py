"""What a broker inside a program must leave alone."""

import random

from ottla.client import Client, Producer
from ottla.embedded import Broker


def test_a_broker_and_a_client_leave_the_programs_random_numbers_alone() -> None:
    """A program that seeds them has the same numbers with and without a broker in it."""
    random.seed(7)
    before = random.getstate()
    with Broker() as broker, Client(broker.bootstrap_servers) as client:
        with Producer(client) as producer:
            producer.send("t", b"a")
        assert random.getstate() == before
