import re
from collections.abc import Iterator

import pytest

from ottla.audit.events import AUDIT_TOPIC
from ottla.embedded import Broker
from tests.audit.auditing import COUNTING, Audited
from tests.cli.conftest import offline

__all__ = ["offline"]


@pytest.fixture(scope="session")
def audited() -> Iterator[Audited]:
    """A broker that counts, for all tests."""
    with Broker(config=COUNTING) as broker:
        audited = Audited(broker.bootstrap_servers)
        audited.create(AUDIT_TOPIC)
        yield audited


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of the test's own."""
    return re.sub("[^a-zA-Z0-9._-]", ".", f"{request.path.stem}.{request.node.name}")
