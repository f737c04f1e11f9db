"""The `ottla_broker` fixture: a real broker for a test session, with nothing to set up.

    def test_it(ottla_broker):
        producer = Producer({"bootstrap.servers": ottla_broker.bootstrap_servers})

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
