"""Fixtures `ottla_broker` and `ottla_secure_broker`: real brokers for a test session.

    def test_it(ottla_broker):
        producer = Producer({"bootstrap.servers": ottla_broker.bootstrap_servers})

    def test_login(ottla_secure_broker):
        producer = Producer(ottla_secure_broker.client_config())

Nothing of the broker is imported until a test asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.embedded import Broker


@pytest.fixture(scope="session")
def ottla_broker() -> Iterator[Broker]:
    """A broker on a free port and a temporary folder, shared by the session's tests."""
    from ottla.embedded import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def ottla_secure_broker() -> Iterator[Broker]:
    """A broker with TLS and logins: `client_config()` is how its super user logs in."""
    from ottla.embedded import Broker

    with Broker(security="tls") as broker:
        yield broker
