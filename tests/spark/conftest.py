"""One Spark and one broker for all tests of the Spark side.

`--spark-bootstrap HOST:PORT` runs them against another broker: that is how they were checked on
Apache Kafka. Tests that need a broker with settings of their own start an Ottla in any case.
"""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from ottla.client import Admin, Client, TopicPartition
from ottla.client.admin import LATEST
from ottla.wire.errors import KafkaError
from pyspark_ottla.pipeline.spark_home import home_without_zip

# Workers take the first python on the path otherwise, which has none of our packages.
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--spark-bootstrap", help="run against this broker instead of a fresh Ottla")


@pytest.fixture(scope="session", autouse=True)
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where Spark is, for all tests and what they start: without the zip of PySpark's sources, from
    which each of Spark's Python processes would compile it again (a second of CPU time for each).
    They take the PySpark that is installed.
    """
    home = home_without_zip(tmp_path_factory.mktemp("spark-home"))
    before = os.environ.get("SPARK_HOME")
    os.environ["SPARK_HOME"] = str(home)
    yield home
    if before is None:
        del os.environ["SPARK_HOME"]
    else:
        os.environ["SPARK_HOME"] = before


@pytest.fixture(scope="session")
def spark(spark_home: Path) -> Iterator[SparkSession]:
    """A session on two threads, made for many small queries."""
    session = (
        SparkSession.builder.master("local[2]")
        .appName("ottla-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.stopTimeout", "30s")
        .config("spark.sql.session.timeZone", "UTC")
        # For many small queries: optimising for long ones costs more than it gives.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Where the broker of these tests listens."""
    given: str | None = request.config.getoption("--spark-bootstrap", default=None)
    if given is not None:
        return given
    broker = request.getfixturevalue("ottla_broker")
    return str(broker.bootstrap_servers)


@pytest.fixture
def client(bootstrap: str) -> Iterator[Client]:
    with Client(bootstrap) as client:
        yield client


@pytest.fixture
def admin(client: Client) -> Admin:
    return Admin(client)


@pytest.fixture
def new_topic(client: Client, request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """Makes topics, `new_topic(partitions=1, **settings)`, and deletes them after the test."""
    admin = Admin(client)
    made: list[str] = []

    def make(partitions: int = 1, **settings: str) -> str:
        name = f"{request.node.originalname.removeprefix('test_')[:60]}-{uuid4().hex[:8]}"
        admin.create_topic(
            name,
            partitions=partitions,
            settings={key.replace("_", "."): value for key, value in settings.items()},
        )
        # Apache Kafka answers a moment before its partitions are there.
        admin.list_offsets(
            {TopicPartition(name, partition): LATEST for partition in range(partitions)}
        )
        made.append(name)
        return name

    yield make
    for name in made:
        try:
            admin.delete_topic(name)
        except KafkaError:
            pass  # The test has deleted it, or has stopped its broker.


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    """A topic of one partition."""
    return new_topic()
