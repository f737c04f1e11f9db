"""The table against Kafka 4.3's own definitions, and every deliberate difference by name."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

import ottla
from ottla.config.broker_configs import BROKER_CONFIGS, broker_definition
from ottla.config.definition import ConfigDef, Only
from ottla.config.errors import ConfigError
from ottla.config.group_configs import BROKER_SETTINGS as GROUPS_INHERIT
from ottla.config.ignored_configs import is_ignored
from ottla.config.security_configs import SECURITY_CONFIGS
from ottla.config.topic_configs import TOPIC_CONFIGS
from ottla.config.types import format_value


class KafkasRow(NamedTuple):
    scope: str
    name: str
    type: str
    default: str
    allowed: str
    importance: str
    dynamic: str


def _kafkas_rows() -> list[KafkasRow]:
    text = Path(__file__).with_name("kafka_4_3_configs.tsv").read_text()
    return [KafkasRow(*line.split("\t")) for line in text.splitlines() if line[0] != "#"]


KAFKAS = {(row.scope, row.name): row for row in _kafkas_rows()}
OURS = [*TOPIC_CONFIGS.values(), *BROKER_CONFIGS.values()]
OF_THE_AUTHORIZER = ("super.users", "allow.everyone.if.no.acl.found")
"""StandardAuthorizer reads these; Kafka's own table does not have them."""
SHARED = [
    row
    for row in OURS
    # Kafka had those of ZooKeeper before version 4.
    if not row.name.startswith(("ottla.", "zookeeper.")) and row.name not in OF_THE_AUTHORIZER
]

OTHER_DEFAULTS = {
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "log.dir": "ottla-data",
    "controller.listener.names": "",
    "socket.send.buffer.bytes": "-1",
}
OTHER_ALLOWED = {
    "remote.storage.enable": "[false]",
    "queued.max.request.bytes": "[-1]",
    "authorizer.class.name": "[, org.apache.kafka.metadata.authorizer.StandardAuthorizer]",
    "create.topic.policy.class.name": "nothing yet",
    "alter.config.policy.class.name": "nothing yet",
    "listener.security.protocol.map": "NAME:PROTOCOL,...",
    "max.connections.per.ip.overrides": "address:count,...",
}
FIXED_HERE = {"listeners", "listener.security.protocol.map"}


def _id(row: ConfigDef) -> str:
    return f"{row.scope.value}-{row.name}"


@pytest.mark.parametrize("row", SHARED, ids=_id)
def test_a_setting_is_as_in_kafka(row: ConfigDef) -> None:
    kafkas = KAFKAS[row.scope.value, row.name]
    assert row.type.name == kafkas.type
    assert row.importance.name == kafkas.importance
    default = format_value(row.default)
    assert ("null" if default is None else default) == OTHER_DEFAULTS.get(row.name, kafkas.default)
    # Kafka writes nothing for "any list", and null for "anything".
    allowed = "null" if row.validator is None else str(row.validator)
    if isinstance(row.validator, Only) and row in SECURITY_CONFIGS:
        assert row.validator.problem(row.default) is None  # and nothing else is accepted
    else:
        assert allowed == OTHER_ALLOWED.get(row.name, kafkas.allowed or "null")
    if row.scope.value == "broker":
        expected = "read-only" if row.name in FIXED_HERE else kafkas.dynamic
        assert row.dynamic.value == expected


@pytest.mark.parametrize("row", OURS, ids=_id)
def test_every_default_is_a_value_that_would_be_accepted(row: ConfigDef) -> None:
    if row.default is not None:
        assert row.parse(format_value(row.default) or "") == row.default


@pytest.mark.parametrize("row", OURS, ids=_id)
def test_every_setting_is_documented_in_sentences(row: ConfigDef) -> None:
    assert row.doc[0].isupper() or row.doc[0] == "`"
    assert row.doc.endswith(".")


def test_all_topic_settings_of_kafka_are_known() -> None:
    kafkas = {name for scope, name in KAFKAS if scope == "topic"}
    assert set(TOPIC_CONFIGS) == kafkas


def test_every_broker_setting_of_kafka_is_known_or_ignored_but_not_both() -> None:
    for scope, name in KAFKAS:
        if scope == "broker":
            assert (name in BROKER_CONFIGS) is not is_ignored(name), name


def test_no_setting_of_the_table_is_ignored() -> None:
    assert not [name for name in BROKER_CONFIGS if is_ignored(name)]


def test_every_setting_of_the_table_is_read_somewhere() -> None:
    sources = Path(ottla.__file__).parent
    words: set[str] = set()
    for source in sources.rglob("*.py"):
        if not source.name.endswith("_configs.py"):
            # The typed view names all of them, before it makes itself.
            before, _, view = source.read_text().partition("class BrokerConfig:")
            text = before + view.partition("def __init__")[2]
            words.update(re.findall(r"\w+", text), re.findall(r'"([\w.]+)"', text))
    inherited = {synonym for row in TOPIC_CONFIGS.values() for synonym in row.synonyms}
    unread = [
        name
        for name, row in BROKER_CONFIGS.items()
        if not {row.attribute, name} & words
        and name not in inherited
        and name not in GROUPS_INHERIT
        and not isinstance(row.validator, Only)
    ]
    assert not unread


@pytest.mark.parametrize("name", ["zookeeper.connect", "inter.broker.protocol.version"])
def test_settings_of_older_kafkas_are_ignored(name: str) -> None:
    assert broker_definition(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "ssl.nonsense", "sasl.nonsense", "listener.name.x.ssl.key.type", "listener.name.x",
        "listener.name.ssl.key.password", "listener.name.x.num.partitions",
        "listener.name.x.plain.ssl.key.password", "listener.name.x.ottla.allow.unsecured.jwt",
    ],
)  # fmt: skip
def test_unknown_settings_of_security_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="Unknown config name"):
        broker_definition(name)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("listener.name.x.ssl.key.password", "PASSWORD"),
        ("listener.name.a.b.ssl.client.auth", "STRING"),
        ("listener.name.x.scram-sha-512.sasl.jaas.config", "PASSWORD"),
        ("listener.name.x.connections.max.reauth.ms", "LONG"),
    ],
)
def test_settings_of_one_listener_have_the_type_of_the_plain_one(name: str, kind: str) -> None:
    found = broker_definition(name)
    assert found is not None
    assert (found.name, found.type.name) == (name, kind)


def test_synonyms_name_broker_settings() -> None:
    for row in OURS:
        assert all(synonym in BROKER_CONFIGS for synonym in row.synonyms), row.name


@pytest.mark.parametrize(
    ("name", "synonyms"),
    [
        ("retention.ms", "log.retention.ms log.retention.minutes log.retention.hours"),
        ("segment.ms", "log.roll.ms log.roll.hours"),
        ("segment.jitter.ms", "log.roll.jitter.ms log.roll.jitter.hours"),
        ("flush.ms", "log.flush.interval.ms log.flush.scheduler.interval.ms"),
        ("segment.bytes", "log.segment.bytes"),
        ("segment.index.bytes", "log.index.size.max.bytes"),
        ("max.message.bytes", "message.max.bytes"),
        ("file.delete.delay.ms", "log.segment.delete.delay.ms"),
        ("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio"),
        ("preallocate", "log.preallocate"),
    ],
)
def test_synonym_chains_are_kafkas(name: str, synonyms: str) -> None:
    assert TOPIC_CONFIGS[name].synonyms == tuple(synonyms.split())
