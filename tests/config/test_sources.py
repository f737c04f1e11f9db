"""Where static settings come from: file, environment, flags."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.errors import ConfigError
from ottla.config.sources import load, read_properties

# Each line's meaning was checked with java.util.Properties.
ODD_PROPERTIES = (
    "# a comment does not continue \\\n"
    "a = 1\n"
    "! another comment\n"
    "b:2\n"
    "c 3\n"
    "   d   =   4  \n"
    "e\\ f=5\n"
    "g\\=h=6\n"
    "i = one,\\\n    two,\\\n  three\n"
    "j=back\\\\\n"
    "k=\\u0041\\t\\n\\x\\:\n"
    "l\n"
    "m=\n"
    "n = = x\n"
    "o\ttab\n"
    "p :  = q\n"
    "q=\\\n# not a comment\n"
    "r\\\ns=7\n"
    "t=a\\\\\\\nb\n"
    "u=\\uD83D\\uDE00\n"
    "v=1\rw=2\r\nx=3\x0bstill\nlast=\\"
)


def test_properties_are_read_as_java_reads_them() -> None:
    read = {name: value for _, name, value in read_properties(ODD_PROPERTIES, "f")}
    assert read == {
        "a": "1",
        "b": "2",
        "c": "3",
        "d": "4  ",
        "e f": "5",
        "g=h": "6",
        "i": "one,two,three",
        "j": "back\\",
        "k": "A\t\nx:",
        "l": "",
        "m": "",
        "n": "= x",
        "o": "tab",
        "p": "= q",
        "q": "# not a comment",
        "rs": "7",
        "t": "a\\b",
        "u": "\U0001f600",
        "v": "1",
        "w": "2",
        "x": "3\x0bstill",
        "last": "",
    }


@given(st.text(alphabet="ab=: \t\\u0041\n\r#!é"))
def test_any_text_is_read_or_refused_with_its_line(text: str) -> None:
    try:
        list(read_properties(text, "f"))
    except ConfigError as error:
        assert str(error).startswith("f:")  # noqa: PT017 -- most texts are fine


def test_a_later_source_wins() -> None:
    loaded = load(
        "num.partitions=1\nlog.segment.bytes=1048576\nmessage.max.bytes=1",
        environ={"OTTLA_NUM_PARTITIONS": "2", "OTTLA_LOG_SEGMENT_BYTES": "2097152", "HOME": "/"},
        flags=["num.partitions=3"],
    )
    assert loaded.values == {
        "num.partitions": "3",
        "log.segment.bytes": "2097152",
        "message.max.bytes": "1",
    }


def test_ottlas_own_settings_need_no_second_prefix_in_the_environment() -> None:
    loaded = load(environ={"OTTLA_METRICS_PORT": "0", "OTTLA_OTTLA_METRICS_HOST": "::1"})
    assert loaded.values == {"ottla.metrics.port": "0", "ottla.metrics.host": "::1"}


def test_a_flags_value_may_contain_equals_signs() -> None:
    assert load(flags=["broker.rack=a=b"]).values == {"broker.rack": "a=b"}


def test_a_kraft_servers_properties_work_with_warnings() -> None:
    loaded = load(
        "process.roles=broker,controller\n"
        "node.id=1\n"
        "controller.quorum.bootstrap.servers=localhost:9093\n"
        "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
        "inter.broker.listener.name=PLAINTEXT\n"
        "advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL\n"
        "num.network.threads=3\n"
        "num.io.threads=8\n"
        "socket.send.buffer.bytes=102400\n"
        "log.dirs=/var/lib/kafka\n"
        "num.recovery.threads.per.data.dir=1\n"
        "offsets.topic.replication.factor=1\n"
        "share.coordinator.state.topic.replication.factor=1\n"
        "transaction.state.log.min.isr=1\n"
        "log.retention.hours=168\n"
    )
    assert loaded.values["log.dirs"] == "/var/lib/kafka"
    assert "num.io.threads" not in loaded.values
    assert "server.properties:10: num.io.threads has no effect in Ottla" in loaded.warnings
    assert len(loaded.warnings) == 5


@pytest.mark.parametrize(
    ("sources", "complaint"),
    [
        (
            {"flags": ["log.retentoin.ms=3"]},
            "--set: Unknown config name: log.retentoin.ms (did you mean log.retention.ms?)",
        ),
        (
            {"flags": ["retention.ms=3"]},
            "--set: Unknown config name: retention.ms (did you mean log.retention.ms?)",
        ),
        ({"flags": ["num.partitions"]}, "--set num.partitions: must be name=value"),
        (
            {"flags": ["num.partitions=0"]},
            "--set: Invalid value 0 for configuration num.partitions: Value must be at least 1",
        ),
        (
            {"flags": ["num.partitions=many"]},
            "--set: Invalid value many for configuration num.partitions: "
            "Not a number of type INT (allowed: [1,...])",
        ),
        (
            {"environ": {"OTTLA_NUM_PARTITION": "1"}},
            "OTTLA_NUM_PARTITION: Unknown config name: num.partition "
            "(did you mean num.partitions?)",
        ),
        (
            {"properties": "# one\n\nnum.partitions=-4", "file_name": "my.properties"},
            "my.properties:3: Invalid value -4 for configuration num.partitions: "
            "Value must be at least 1",
        ),
        (
            {"properties": "broker.rack=\\u12"},
            "server.properties:1: \\u12 is not \\u and four hexadecimal digits",
        ),
        (
            {"flags": ["authorizer.class.name=org.apache.Standard"]},
            "--set: Invalid value org.apache.Standard for configuration authorizer.class.name: "
            "String must be one of: , org.apache.kafka.metadata.authorizer.StandardAuthorizer "
            "(it is 'org.apache.Standard')",
        ),
        (
            {"flags": ["something.completely.different=1"]},
            "--set: Unknown config name: something.completely.different",
        ),
        (
            {"flags": ["num.partitions=1\n2"]},
            "--set: Invalid value '1\\n2' for configuration num.partitions: "
            "Not a number of type INT (allowed: [1,...])",
        ),
    ],
)
def test_a_wrong_setting_gets_one_line(sources: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(**sources)  # type: ignore[arg-type]  # each case names its own keywords
    assert str(raised.value) == complaint
    assert "\n" not in complaint
