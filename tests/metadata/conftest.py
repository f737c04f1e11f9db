"""One ZooKeeper server for all tests of stores; it is started by the first that needs it."""

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from testkit.zookeeper_servers import Ensemble, running_ensemble

from .stores import Backing, SqliteBacking, ZooKeeperBacking


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with running_ensemble(tmp_path_factory.mktemp("zookeeper")) as ensemble:
        yield ensemble


@pytest.fixture(scope="session", params=["sqlite", "zookeeper"])
def new_backing(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], Backing]:
    """Makes empty sets of documents."""
    if request.param == "sqlite":
        return lambda: SqliteBacking(str(tmp_path_factory.mktemp("sqlite") / "metadata.db"))
    ensemble: Ensemble = request.getfixturevalue("zookeeper")
    numbers = count()
    return lambda: ZooKeeperBacking(ensemble.address(f"/contract/{next(numbers)}"))


@pytest.fixture
def backing(new_backing: Callable[[], Backing]) -> Backing:
    return new_backing()
