"""DescribeConfigs, the two ways to alter them, ListConfigResources and DescribeLogDirs."""

from collections.abc import Callable

import pytest

from ottla.records import Record, decode_batch, encode_batch
from ottla.records.compression import Codec
from ottla.wire.batch import CODEC_MASK, headers
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ottla.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig as Change,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterConfigsResource as ChangedResource,
)
from ottla.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from testkit.batches import values
from testkit.raw import Connection
from tests.e2e.asking import From, fetch, produce
from tests.e2e.asking_groups import consumer_heartbeat, coordinated, join_consumer_group
from tests.e2e.conftest import Eventually, OwnBroker, Topics, create_topic, describe

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC_BROKER, DEFAULT = 1, 2, 3, 4, 5
GROUP_SOURCE, CLIENT_METRICS_SOURCE, BROKER_LOGGER_SOURCE = 8, 7, 6
BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST = 1, 2, 3, 4, 5, 6, 7


def describe_configs(
    connection: Connection,
    kind: int,
    name: str,
    keys: list[str] | None = None,
    *,
    synonyms: bool = False,
    documentation: bool = False,
    version: int = 4,
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=synonyms, include_documentation=documentation
    )
    return connection.ask(request, DescribeConfigsResponse, version).results[0]


def entries(result: DescribeConfigsResult) -> dict[str, DescribeConfigsResourceResult]:
    assert result.error_code == 0, result.error_message
    return {entry.name: entry for entry in result.configs}


def value_of(connection: Connection, topic: str, key: str) -> str | None:
    return entries(describe_configs(connection, TOPIC, topic, [key]))[key].value


def change(
    connection: Connection,
    name: str,
    *changes: tuple[str, int, str | None],
    kind: int = TOPIC,
    validate_only: bool = False,
) -> int:
    configs = [
        Change(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = ChangedResource(resource_type=kind, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    answer = connection.ask(request, IncrementalAlterConfigsResponse, 1)
    return answer.responses[0].error_code


def replace(connection: Connection, topic: str, **configs: str) -> int:
    pairs = [
        AlterableConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()
    ]
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=pairs)
    request = AlterConfigsRequest(resources=[resource])
    return connection.ask(request, AlterConfigsResponse, 2).responses[0].error_code


def config_resources(connection: Connection, version: int = 1) -> set[tuple[int, str]]:
    answer = connection.ask(ListConfigResourcesRequest(), ListConfigResourcesResponse, version)
    return {(each.resource_type, each.resource_name) for each in answer.config_resources}


@pytest.mark.parametrize("version", range(1, 5))
def test_every_version_describes(connection: Connection, new_topic: Topics, version: int) -> None:
    topic = new_topic(retention_ms="1234")
    found = entries(describe_configs(connection, TOPIC, topic, version=version))
    assert found["retention.ms"].value == "1234"
    assert found["retention.ms"].config_source == DYNAMIC_TOPIC
    assert found["segment.ms"].config_source == DEFAULT
    if version >= 3:
        assert found["retention.ms"].config_type == LONG
        assert found["cleanup.policy"].config_type == LIST
        assert found["preallocate"].config_type == BOOLEAN
        assert found["min.cleanable.dirty.ratio"].config_type == DOUBLE


DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "index.interval.bytes": "4096",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}


def test_defaults_are_those_of_apache_kafka(connection: Connection, topic: str) -> None:
    found = entries(describe_configs(connection, TOPIC, topic))
    assert {name: found[name].value for name in DEFAULTS} == DEFAULTS


def test_only_the_asked_keys_are_reported(connection: Connection, topic: str) -> None:
    asked = ["retention.ms", "no.such.config"]
    assert list(entries(describe_configs(connection, TOPIC, topic, asked))) == ["retention.ms"]


def test_synonyms_tell_where_a_value_comes_from(connection: Connection, new_topic: Topics) -> None:
    topic = new_topic(segment_bytes="2000000")
    result = describe_configs(connection, TOPIC, topic, ["segment.bytes"], synonyms=True)
    synonyms = [(s.name, s.value, s.source) for s in entries(result)["segment.bytes"].synonyms]
    assert synonyms == [
        ("segment.bytes", "2000000", DYNAMIC_TOPIC),
        ("log.segment.bytes", "1073741824", DEFAULT),
    ]


def test_documentation_is_told_on_request(connection: Connection, topic: str) -> None:
    asked = ["retention.ms"]
    silent = entries(describe_configs(connection, TOPIC, topic, asked))["retention.ms"]
    assert not silent.documentation
    told = describe_configs(connection, TOPIC, topic, asked, documentation=True)
    assert entries(told)["retention.ms"].documentation


def test_unknown_resources_are_refused(connection: Connection, new_name: Callable[[], str]) -> None:
    unknown = describe_configs(connection, TOPIC, new_name())
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe_configs(connection, BROKER, "99").error_code == ErrorCode.INVALID_REQUEST
    assert describe_configs(connection, BROKER, "one").error_code == ErrorCode.INVALID_REQUEST
    assert change(connection, new_name(), ("retention.ms", SET, "1")) == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def test_many_resources_in_one_request_keep_nobody_waiting(
    connect: Callable[[], Connection], topic: str
) -> None:
    many, other = connect(), connect()
    resource = DescribeConfigsResource(
        resource_type=TOPIC, resource_name=topic, configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[resource] * 3000, include_synonyms=True)
    many.send(request, 4)
    for _ in range(5):
        describe_configs(other, TOPIC, topic, ["retention.ms"])
    assert not many.has_reply(within=0)
    _, answer = many.receive(DescribeConfigsResponse, 4)
    assert [each.resource_name for each in answer.results] == [topic] * 3000


def test_changes_are_made_together_or_not_at_all(connection: Connection, topic: str) -> None:
    bad = change(connection, topic, ("retention.ms", SET, "5"), ("segment.ms", SET, "never"))
    assert bad == ErrorCode.INVALID_CONFIG
    assert value_of(connection, topic, "retention.ms") == "604800000"


def test_validate_only_changes_nothing(connection: Connection, topic: str) -> None:
    assert change(connection, topic, ("retention.ms", SET, "5"), validate_only=True) == 0
    wrong = change(connection, topic, ("retention.ms", SET, "x"), validate_only=True)
    assert wrong == ErrorCode.INVALID_CONFIG
    assert value_of(connection, topic, "retention.ms") == "604800000"


def test_the_same_key_twice_is_refused(connection: Connection, topic: str) -> None:
    twice = change(connection, topic, ("retention.ms", SET, "5"), ("retention.ms", SET, "6"))
    assert twice == ErrorCode.INVALID_REQUEST


def test_append_and_subtract_are_for_lists(
    connection: Connection, topic: str, eventually: Eventually
) -> None:
    assert change(connection, topic, ("retention.ms", APPEND, "5")) == ErrorCode.INVALID_CONFIG
    assert change(connection, topic, ("cleanup.policy", APPEND, "compact")) == 0
    assert eventually(lambda: value_of(connection, topic, "cleanup.policy") == "delete,compact")
    assert change(connection, topic, ("cleanup.policy", SUBTRACT, "delete")) == 0
    assert eventually(lambda: value_of(connection, topic, "cleanup.policy") == "compact")


def test_alter_configs_replaces_all(
    connection: Connection, new_topic: Topics, eventually: Eventually
) -> None:
    topic = new_topic(retention_ms="1234")
    assert replace(connection, topic, segment_bytes="2000000") == 0
    assert eventually(lambda: value_of(connection, topic, "segment.bytes") == "2000000")
    assert value_of(connection, topic, "retention.ms") == "604800000"
    assert replace(connection, topic, retention_ms="x") == ErrorCode.INVALID_CONFIG


def test_a_changed_limit_works_at_once(
    connection: Connection, topic: str, eventually: Eventually
) -> None:
    batch = values(b"x" * 2000)
    assert produce(connection, topic, batch).error_code == 0
    assert change(connection, topic, ("max.message.bytes", SET, "1000")) == 0
    assert eventually(
        lambda: produce(connection, topic, batch).error_code == ErrorCode.MESSAGE_TOO_LARGE
    )
    assert change(connection, topic, ("max.message.bytes", DELETE, None)) == 0
    assert eventually(lambda: produce(connection, topic, batch).error_code == 0)


def test_log_append_time_can_be_switched_on(
    connection: Connection, topic: str, eventually: Eventually
) -> None:
    assert change(connection, topic, ("message.timestamp.type", SET, "LogAppendTime")) == 0
    assert eventually(lambda: produce(connection, topic, values(b"x")).log_append_time_ms > 0)


def test_a_brokers_default_reaches_its_topics(own_broker: OwnBroker) -> None:
    broker = own_broker({"log.retention.ms": "55555"})
    with Connection(broker.bootstrap) as connection:
        create_topic(connection, "follows")
        node = str(describe(connection, "follows").partitions[0].leader_id)
        assert value_of(connection, "follows", "retention.ms") == "55555"
        assert change(connection, "", ("log.retention.ms", SET, "66666"), kind=BROKER) == 0
        assert value_of(connection, "follows", "retention.ms") == "66666"
        assert change(connection, node, ("log.retention.ms", SET, "77777"), kind=BROKER) == 0
        result = describe_configs(connection, TOPIC, "follows", ["retention.ms"], synonyms=True)
        sources = [(s.value, s.source) for s in entries(result)["retention.ms"].synonyms]
        assert sources[:3] == [
            ("77777", DYNAMIC_BROKER),
            ("66666", DYNAMIC_DEFAULT),
            ("55555", STATIC_BROKER),
        ]
        assert change(connection, node, ("log.retention.ms", DELETE, None), kind=BROKER) == 0
        assert change(connection, "", ("log.retention.ms", DELETE, None), kind=BROKER) == 0
        assert value_of(connection, "follows", "retention.ms") == "55555"


def test_what_is_read_only_cannot_be_changed(connection: Connection, topic: str) -> None:
    node = str(describe(connection, topic).partitions[0].leader_id)
    refused = change(connection, node, ("log.dirs", SET, "/elsewhere"), kind=BROKER)
    assert refused == ErrorCode.INVALID_REQUEST
    assert entries(describe_configs(connection, BROKER, node, ["log.dirs"]))["log.dirs"].read_only


def test_changed_configs_outlive_a_restart(own_broker: OwnBroker) -> None:
    broker = own_broker()
    with Connection(broker.bootstrap) as connection:
        create_topic(connection, "changed")
        assert change(connection, "changed", ("retention.ms", SET, "4321000")) == 0
        assert change(connection, "", ("log.segment.bytes", SET, "2097152"), kind=BROKER) == 0
    broker.kill()
    broker.start()
    with Connection(broker.bootstrap) as connection:
        assert value_of(connection, "changed", "retention.ms") == "4321000"
        assert value_of(connection, "changed", "segment.bytes") == "2097152"


def test_a_consumer_group_can_have_settings_of_its_own(
    connection: Connection, topic: str, new_name: Callable[[], str]
) -> None:
    group, interval = coordinated(connection, new_name()), "consumer.heartbeat.interval.ms"
    assert (GROUP, group) not in config_resources(connection)
    joined = join_consumer_group(connection, group, "m", [topic])
    assert joined.heartbeat_interval_ms == 5000
    assert change(connection, group, (interval, SET, "12000"), kind=GROUP) == 0
    again = consumer_heartbeat(connection, group, "m", joined.member_epoch)
    assert (again.error_code, again.heartbeat_interval_ms) == (0, 12000)
    assert (GROUP, group) in config_resources(connection)
    found = entries(describe_configs(connection, GROUP, group, [interval], synonyms=True))[interval]
    assert (found.value, found.config_source, found.read_only) == ("12000", GROUP_SOURCE, False)
    assert [(each.name, each.value) for each in found.synonyms] == [
        (interval, "12000"),
        (f"group.{interval}", "5000"),
    ]
    assert change(connection, group, (interval, DELETE, None), kind=GROUP) == 0
    again = consumer_heartbeat(connection, group, "m", joined.member_epoch)
    assert again.heartbeat_interval_ms == 5000
    assert (GROUP, group) not in config_resources(connection)


def test_settings_of_a_group_are_refused_as_those_of_a_topic(
    connection: Connection, new_name: Callable[[], str]
) -> None:
    group, session = new_name(), "consumer.session.timeout.ms"
    for name, value in ((session, "1"), (session, "x"), ("retention.ms", "5")):
        refused = change(connection, group, (name, SET, value), kind=GROUP)
        assert refused == ErrorCode.INVALID_CONFIG
    nameless = change(connection, "", (session, SET, "50000"), kind=GROUP)
    assert nameless == ErrorCode.INVALID_REQUEST
    described = describe_configs(connection, GROUP, "")
    assert described.error_code == ErrorCode.INVALID_REQUEST
    assert change(connection, group, (session, SET, "50000"), kind=GROUP, validate_only=True) == 0
    assert (GROUP, group) not in config_resources(connection)


def test_settings_of_a_group_outlive_a_restart(own_broker: OwnBroker) -> None:
    broker = own_broker()
    group, session = "a/group", "consumer.session.timeout.ms"
    with Connection(broker.bootstrap) as connection:
        assert change(connection, group, (session, SET, "50000"), kind=GROUP) == 0
    broker.kill()
    broker.start()
    with Connection(broker.bootstrap) as connection:
        found = entries(describe_configs(connection, GROUP, group))
        assert found[session].value == "50000"


def test_a_subscription_to_clients_metrics_is_kept_and_told(
    connection: Connection, new_name: Callable[[], str]
) -> None:
    name = new_name()
    found = entries(describe_configs(connection, CLIENT_METRICS, name, synonyms=True))
    assert {each.name: each.value for each in found.values()} == {
        "metrics": "",
        "interval.ms": "300000",
        "match": "",
    }
    assert {each.config_source for each in found.values()} == {DEFAULT}
    assert found["interval.ms"].config_type == INT
    wanted = (
        ("metrics", SET, "org.apache.kafka.consumer."),
        ("match", APPEND, "client_id=a.*"),
        ("interval.ms", SET, "1000"),
    )
    assert change(connection, name, *wanted, kind=CLIENT_METRICS) == 0
    found = entries(describe_configs(connection, CLIENT_METRICS, name, synonyms=True))
    assert {each.value for each in found.values()} == {
        "org.apache.kafka.consumer.",
        "client_id=a.*",
        "1000",
    }
    assert [(each.name, each.value, each.source) for each in found["match"].synonyms] == [
        ("match", "client_id=a.*", CLIENT_METRICS_SOURCE)
    ]
    # Version 0 names no kinds: this is the one that it lists.
    for version in (0, 1):
        told = {each for _, each in config_resources(connection, version)}
        assert name in told
    gone = [(each, DELETE, None) for each in found]
    assert change(connection, name, *gone, kind=CLIENT_METRICS) == 0
    assert (CLIENT_METRICS, name) not in config_resources(connection)


def test_subscriptions_to_clients_metrics_that_cannot_be(
    connection: Connection, new_name: Callable[[], str]
) -> None:
    name = new_name()
    for setting, value, code in (
        ("interval.ms", "99", ErrorCode.INVALID_REQUEST),
        ("interval.ms", "3600001", ErrorCode.INVALID_REQUEST),
        ("interval.ms", "soon", ErrorCode.INVALID_CONFIG),
        ("match", "client_id", ErrorCode.INVALID_CONFIG),
        ("match", "client_id=a=b", ErrorCode.INVALID_CONFIG),
        ("match", "shoe_size=43", ErrorCode.INVALID_CONFIG),
        ("retention.ms", "5", ErrorCode.INVALID_REQUEST),
    ):
        assert change(connection, name, (setting, SET, value), kind=CLIENT_METRICS) == code
    nameless = change(connection, "", ("interval.ms", SET, "1000"), kind=CLIENT_METRICS)
    assert nameless == ErrorCode.INVALID_REQUEST
    described = describe_configs(connection, CLIENT_METRICS, "")
    assert described.error_code == ErrorCode.INVALID_REQUEST
    assert (CLIENT_METRICS, name) not in config_resources(connection)


def test_the_time_between_assignments_changes_without_a_restart(own_broker: OwnBroker) -> None:
    with Connection(own_broker().bootstrap) as connection:
        create_topic(connection, "shared", partitions=2)
        interval = "group.consumer.assignment.interval.ms"
        coordinated(connection, "g")
        assert change(connection, "", (interval, SET, "15000"), kind=BROKER) == 0
        first = join_consumer_group(connection, "g", "first", ["shared"])
        late = join_consumer_group(connection, "g", "second", ["shared"])
        assert late.member_epoch == first.member_epoch, "it was given a share at once"
        assert change(connection, "", (interval, SET, "0"), kind=BROKER) == 0
        again = consumer_heartbeat(connection, "g", "second", late.member_epoch)
        assert again.member_epoch > first.member_epoch


@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("sent", Codec)
def test_batches_get_the_codec_of_their_topic(
    connection: Connection, topic: str, sent: Codec, wanted: str
) -> None:
    assert change(connection, topic, ("compression.type", SET, wanted)) == 0
    batch = encode_batch([Record(0, 1, None, b"x" * 1000)], codec=sent)
    assert produce(connection, topic, batch).error_code == 0
    stored = fetch(connection, From(topic)).records
    assert stored is not None
    (header,) = (header for _, header in headers(memoryview(stored)))
    codec = Codec.NONE if wanted == "uncompressed" else Codec[wanted.upper()]
    assert header.attributes & CODEC_MASK == codec
    assert [record.value for record in decode_batch(stored)] == [b"x" * 1000]
    if sent == codec:
        assert stored[16:] == batch[16:], "it stays as it is"


def test_what_is_too_large_in_the_codec_of_its_topic_is_refused(
    connection: Connection, topic: str
) -> None:
    assert change(connection, topic, ("compression.type", SET, "uncompressed")) == 0
    assert change(connection, topic, ("max.message.bytes", SET, "1000")) == 0
    batch = encode_batch([Record(0, 1, None, b"x" * 2000)], codec=Codec.ZSTD)
    assert len(batch) < 1000
    assert produce(connection, topic, batch).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert not fetch(connection, From(topic)).records


@pytest.mark.parametrize("version", range(2))
def test_config_resources_are_listed(connection: Connection, topic: str, version: int) -> None:
    kinds = [] if version == 0 else [TOPIC]
    answer = connection.ask(
        ListConfigResourcesRequest(resource_types=kinds), ListConfigResourcesResponse, version
    )
    assert answer.error_code == 0
    names = {resource.resource_name for resource in answer.config_resources}
    assert (topic in names) == (version == 1)


@pytest.mark.parametrize("version", range(1, 6))
def test_log_dirs_tell_the_size_of_a_partition(
    connection: Connection, new_topic: Topics, version: int
) -> None:
    topic = new_topic(partitions=2)
    batch = values(b"x" * 1000)
    for _ in range(3):
        produce(connection, topic, batch, 1)
    wanted = DescribableLogDirTopic(topic=topic, partitions=[0, 1])
    answer = connection.ask(
        DescribeLogDirsRequest(topics=[wanted]), DescribeLogDirsResponse, version
    )
    (folder,) = answer.results
    assert folder.error_code == 0
    assert folder.log_dir.startswith("/")
    (found,) = folder.topics
    assert found.name == topic
    sizes = {part.partition_index: part.partition_size for part in found.partitions}
    assert sizes == {0: 0, 1: 3 * len(batch)}
    if version >= 4:
        assert 0 < folder.usable_bytes <= folder.total_bytes


def broker_id(connection: Connection) -> str:
    answer = connection.ask(DescribeClusterRequest(), DescribeClusterResponse, 1)
    return str(answer.brokers[0].broker_id)


def test_what_a_broker_logs_is_seen_and_changed(connection: Connection) -> None:
    node = broker_id(connection)
    found = entries(describe_configs(connection, BROKER_LOGGER, node))["root"]
    assert found.value == "INFO"
    assert (found.config_source, found.read_only, found.synonyms) == (
        BROKER_LOGGER_SOURCE,
        False,
        [],
    )
    try:
        assert not change(connection, node, ("root", SET, "ERROR"), kind=BROKER_LOGGER)
        root = entries(describe_configs(connection, BROKER_LOGGER, node, ["root"]))["root"]
        assert root.value == "ERROR"
        assert not change(
            connection, node, ("root", SET, "WARN"), kind=BROKER_LOGGER, validate_only=True
        )
        root = entries(describe_configs(connection, BROKER_LOGGER, node, ["root"]))["root"]
        assert root.value == "ERROR"
    finally:
        change(connection, node, ("root", SET, "INFO"), kind=BROKER_LOGGER)


@pytest.mark.parametrize(
    ("name", "operation", "level", "code"),
    [
        ("root", SET, "LOUD", ErrorCode.INVALID_CONFIG),
        ("root", SET, "info", ErrorCode.INVALID_CONFIG),
        ("root", DELETE, None, ErrorCode.INVALID_REQUEST),
        ("root", APPEND, "INFO", ErrorCode.INVALID_REQUEST),
        ("root", SUBTRACT, "INFO", ErrorCode.INVALID_REQUEST),
        ("nobody", SET, "INFO", ErrorCode.INVALID_CONFIG),
        ("nobody", DELETE, None, ErrorCode.INVALID_CONFIG),
    ],
)
def test_levels_that_cannot_be(
    connection: Connection, name: str, operation: int, level: str | None, code: ErrorCode
) -> None:
    node = broker_id(connection)
    assert change(connection, node, (name, operation, level), kind=BROKER_LOGGER) == code


@pytest.mark.parametrize("name", ["", "99", "one"])
def test_loggers_of_another_broker_are_refused(connection: Connection, name: str) -> None:
    asked = describe_configs(connection, BROKER_LOGGER, name)
    assert asked.error_code == ErrorCode.INVALID_REQUEST
    changed = change(connection, name, ("root", SET, "INFO"), kind=BROKER_LOGGER)
    assert changed == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("kind", [BROKER, BROKER_LOGGER])
def test_a_broker_is_named_by_a_number_as_java_reads_it(connection: Connection, kind: int) -> None:
    node = broker_id(connection)
    for name in (f"+{node}", f"0{node}"):
        assert describe_configs(connection, kind, name, ["node.id"]).error_code == ErrorCode.NONE
    for name in (f" {node}", f"{node} ", f"0_{node}", "9" * 5000):
        told = describe_configs(connection, kind, name)
        assert told.error_code == ErrorCode.INVALID_REQUEST
        assert told.error_message == f"Broker id must be an integer, but it is: {name}"


def test_a_value_that_no_answer_could_tell_is_refused(connection: Connection, topic: str) -> None:
    name = "leader.replication.throttled.replicas"
    long = ",".join(f"{index}:{index}" for index in range(3000))
    assert change(connection, topic, (name, SET, long)) == ErrorCode.NONE
    more = ",".join(f"{index}:{index}" for index in range(3000, 4000))
    assert change(connection, topic, (name, APPEND, more)) == ErrorCode.INVALID_CONFIG
    assert value_of(connection, topic, name) == long


def test_a_resource_that_is_named_twice_gets_no_settings(
    connection: Connection, topic: str
) -> None:
    resources = [
        AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=topic,
            configs=[AlterableConfig(name="retention.ms", value=value)],
        )
        for value in ("1111", "2222")
    ]
    answer = connection.ask(AlterConfigsRequest(resources=resources), AlterConfigsResponse, 2)
    assert [each.error_code for each in answer.responses] == [ErrorCode.INVALID_REQUEST] * 2
    assert value_of(connection, topic, "retention.ms") == DEFAULTS["retention.ms"]


def test_the_brokers_older_id_is_the_newer_one(own_broker: OwnBroker) -> None:
    with Connection(own_broker({"node.id": "7"}).bootstrap) as connection:
        told = entries(describe_configs(connection, BROKER, "7"))
        assert told["broker.id"].value == told["node.id"].value == "7"


def test_broker_settings_that_do_not_fit_together_are_refused_as_a_request(
    connection: Connection,
) -> None:
    assert change(connection, "", ("log.roll.ms", SET, "-5"), kind=BROKER) == (
        ErrorCode.INVALID_REQUEST
    )
