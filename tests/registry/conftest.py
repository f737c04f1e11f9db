from collections.abc import Iterator

import pytest

from ottla.embedded import Broker
from tests.registry.registries import RegistryProcess, Rest


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(group_initial_rebalance_delay_ms=0) as broker:
        yield broker


@pytest.fixture(scope="module")
def registry(broker: Broker) -> Iterator[RegistryProcess]:
    """A registry that is shared by the tests of a module."""
    with RegistryProcess(broker.bootstrap_servers, "--alone") as registry:
        yield registry
        assert registry.stop() == 0
        assert b"Traceback" not in registry.errors, registry.errors.decode()


@pytest.fixture
def rest(registry: RegistryProcess) -> Rest:
    return registry.rest()
