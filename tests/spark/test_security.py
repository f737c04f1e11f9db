"""Source, sink and pipelines on a broker with TLS and logins; where secrets can be seen.

The password is in the environment or in a file that the tasks read: it is resolved there, and is in
no plan, error or log.
"""

import json
import logging
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import ottla
from ottla.client import Admin, Client, ClientSettings
from ottla.client.security import client_security
from pyspark_ottla.errors import OptionError
from pyspark_ottla.kafka_options import KafkaOptions
from pyspark_ottla.options import Use
from pyspark_ottla.source.settings import SourceSettings

from .pipeline.running import run, send

PASSWORD = "correct-horse-battery"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
PIPELINE = """\
pipeline: secured
checkpoint: state
kafka:
{kafka}
sources:
  numbers:
    topic: numbers
    format: json
    schema: id BIGINT NOT NULL
    dead_letters: broken
sinks:
  copy:
    from: numbers
    topic: copies
    value: to_json(struct(id))
"""


@pytest.fixture(scope="module")
def secured() -> Iterator[ottla.Broker]:
    with ottla.Broker(security=ottla.Security(users={"alice": PASSWORD})) as broker:
        yield broker


@pytest.fixture(scope="module")
def kafka(secured: ottla.Broker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Kafka's settings for alice, with the password in a file."""
    secrets = tmp_path_factory.mktemp("secrets") / "alice.properties"
    secrets.write_text(f"password={PASSWORD}\n")
    config = {
        name: str(value) for name, value in secured.client_config("alice", client="java").items()
    }
    config.pop("bootstrap.servers", None)
    login = f'{MODULE} required username="alice" password="${{file:{secrets}:password}}";'
    return config | {"sasl.jaas.config": login}


def options(secured: ottla.Broker, kafka: dict[str, str], **more: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": secured.bootstrap_servers,
        **{f"kafka.{name}": value for name, value in kafka.items()},
        **more,
    }


def client(secured: ottla.Broker, kafka: dict[str, str]) -> Client:
    servers = secured.bootstrap_servers
    return Client(ClientSettings(bootstrap_servers=servers, security=client_security(kafka)))


def test_rows_are_written_and_read_over_tls_with_a_login(
    spark: SparkSession, secured: ottla.Broker, kafka: dict[str, str]
) -> None:
    with client(secured, kafka) as own:
        Admin(own).create_topic("rows", partitions=2)
    rows = spark.range(50).selectExpr("CAST(id AS STRING) AS value")
    rows.write.format("ottla").options(**options(secured, kafka, topic="rows")).save()
    found = spark.read.format("ottla").options(**options(secured, kafka, subscribe="rows")).load()
    assert sorted(int(row.value) for row in found.collect()) == list(range(50))


def test_a_pipeline_logs_in_with_the_settings_under_kafka(
    spark: SparkSession, secured: ottla.Broker, kafka: dict[str, str], tmp_path: Path
) -> None:
    with client(secured, kafka) as own:
        for topic in ("numbers", "copies", "broken"):
            Admin(own).create_topic(topic, partitions=1)
        send(own, "numbers", [{"id": 1}, "not JSON", {"id": 2}])
    file = tmp_path / "secured.yaml"
    lines = "\n".join(f"  {name}: {json.dumps(text)}" for name, text in kafka.items())
    file.write_text(PIPELINE.format(kafka=lines))
    run(spark, file, secured.bootstrap_servers)
    for topic, expected in (("copies", [b'{"id":1}', b'{"id":2}']), ("broken", [b"not JSON"])):
        found = spark.read.format("ottla").options(**options(secured, kafka, subscribe=topic))
        assert [bytes(row.value) for row in found.load().collect()] == expected


def test_a_password_given_as_it_is_is_in_no_plan_and_no_error(
    spark: SparkSession,
    secured: ottla.Broker,
    kafka: dict[str, str],
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)  # at DEBUG py4j logs each call, with its arguments
    wrong = "swordfish-swordfish"
    login = f'{MODULE} required username="alice" password="{wrong}";'
    given = options(secured, {**kafka, "sasl.jaas.config": login}, subscribe="rows")
    frame = spark.read.format("ottla").options(**given).load()
    frame.explain(extended=True)
    with pytest.raises(Exception, match="Invalid username or password") as caught:
        frame.collect()
    text = str(caught.value) + "".join(capfd.readouterr()) + caplog.text
    assert wrong not in text + frame._jdf.queryExecution().toString()


def test_a_secret_that_a_task_cannot_read_is_named_and_not_shown(
    spark: SparkSession, secured: ottla.Broker, kafka: dict[str, str]
) -> None:
    login = f'{MODULE} required username="alice" password="${{env:NOT_SET_HERE}}";'
    given = options(secured, {**kafka, "sasl.jaas.config": login}, subscribe="rows")
    with pytest.raises(Exception, match="environment variable NOT_SET_HERE is not set"):
        spark.read.format("ottla").options(**given).load().collect()


def test_settings_that_travel_to_tasks_show_no_secret() -> None:
    given = {
        "kafka.bootstrap.servers": "b:9092",
        "subscribe": "t",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{MODULE} required username="alice" password="{PASSWORD}";',
        "kafka.ssl.truststore.type": "PEM",
    }
    settings = SourceSettings.of(given, Use.BATCH_READ)
    assert PASSWORD not in repr(settings) + str(settings)
    security = pickle.loads(pickle.dumps(settings)).client.security
    assert security.credentials() == ("SCRAM-SHA-512", "alice", PASSWORD)


def test_references_are_resolved_where_the_connection_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {
        "bootstrap.servers": "b:9092",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{MODULE} required username="alice" password="${{env:WORD}}";',
    }
    monkeypatch.delenv("WORD", raising=False)
    security = KafkaOptions(given, reads=True).client_settings().security
    assert security is not None
    monkeypatch.setenv("WORD", PASSWORD)
    assert security.credentials() == ("PLAIN", "alice", PASSWORD)


def test_a_wrong_setting_of_security_is_refused_without_its_value() -> None:
    given = {
        "bootstrap.servers": "b:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.login.class": PASSWORD,
    }
    with pytest.raises(OptionError, match=r"sasl\.login\.class is not supported") as caught:
        KafkaOptions(given, reads=True)
    assert PASSWORD not in str(caught.value)
