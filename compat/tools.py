"""Kafka's console tools, used as people use them."""

import json
import tempfile
from pathlib import Path

from compat.checks import check, expect, java, new_topic
from ottla.wire.apis import ApiKey
from testkit.clients.base import CODECS, Message
from testkit.clients.confluent import Confluent
from testkit.clients.java import Java
from testkit.process import BrokerProcess
from testkit.raw import served

TOOLS = "org.apache.kafka.tools"


@check("tools")
def kafka_topics(broker: BrokerProcess) -> None:
    topic = new_topic("topics")

    def topics(*arguments: str) -> str:
        return java(f"{TOOLS}.TopicCommand", "--bootstrap-server", broker.bootstrap, *arguments)

    topics("--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=1234567")
    expect(topic in topics("--list").split(), "the new topic is not listed")
    told = topics("--describe", "--topic", topic)
    expect("PartitionCount: 3" in told, told)
    expect("ReplicationFactor: 1" in told, told)
    expect("retention.ms=1234567" in told, told)
    topics("--alter", "--topic", topic, "--partitions", "5")
    expect("PartitionCount: 5" in topics("--describe", "--topic", topic), "not altered")
    expect(topics("--describe", "--unavailable-partitions") == "", "partitions are unavailable")
    topics("--delete", "--topic", topic)
    expect(topic not in topics("--list").split(), "the deleted topic is listed")


@check("tools")
def kafka_configs(broker: BrokerProcess) -> None:
    topic = new_topic("configs")
    Confluent(broker.bootstrap).create_topic(topic)

    def configs(kind: str, name: str, *arguments: str) -> str:
        where = ["--bootstrap-server", broker.bootstrap, "--entity-type", kind]
        return java("kafka.admin.ConfigCommand", *where, "--entity-name", name, *arguments)

    configs(
        "topics", topic, "--alter", "--add-config", "retention.ms=1111,cleanup.policy=[compact]"
    )
    told = configs("topics", topic, "--describe")
    expect("retention.ms=1111" in told and "cleanup.policy=compact" in told, told)
    configs("topics", topic, "--alter", "--delete-config", "retention.ms")
    expect("retention.ms" not in configs("topics", topic, "--describe"), "not deleted")
    configs("brokers", "1", "--alter", "--add-config", "log.retention.ms=2222")
    told = configs("brokers", "1", "--describe")
    expect("log.retention.ms=2222" in told, told)
    configs("brokers", "1", "--alter", "--delete-config", "log.retention.ms")
    everything = configs("brokers", "1", "--describe", "--all")
    expect("num.partitions=1" in everything, everything)


def _console_round_trip(broker: BrokerProcess, codec: str) -> None:
    topic = new_topic(f"console-{codec}")
    Confluent(broker.bootstrap).create_topic(topic)
    where = ["--bootstrap-server", broker.bootstrap, "--topic", topic]
    lines = [f"h:{n}\tkey{n}|value {n}" for n in range(500)]
    reading = ["parse.key=true", "key.separator=|", "parse.headers=true"]
    properties = [part for pair in reading for part in ("--reader-property", pair)]
    java(
        f"{TOOLS}.ConsoleProducer",
        *where,
        *properties,
        "--compression-codec",
        codec,
        given="\n".join(lines) + "\n",
    )
    printing = ["print.key=true", "key.separator=|", "print.headers=true"]
    formatting = [part for pair in printing for part in ("--formatter-property", pair)]
    place = ["--partition", "0", "--offset", "earliest", "--max-messages", "500"]
    told = java(f"{TOOLS}.consumer.ConsoleConsumer", *where, *place, *formatting)
    got = [line.replace("|", "\t", 1) for line in told.splitlines()]
    expect(got == lines, f"{len(got)} lines came back, the first is {got[:1]}")


@check("tools")
def console_producer_and_consumer(broker: BrokerProcess) -> str:
    for codec in CODECS:
        _console_round_trip(broker, codec)
    return ", ".join(CODECS)


@check("tools")
def get_offsets(broker: BrokerProcess) -> None:
    topic = new_topic("offsets")
    client = Confluent(broker.bootstrap)
    client.create_topic(topic, 2)
    client.produce(topic, [Message(partition=1, timestamp=1000 + n) for n in range(7)])

    def offsets(*time: str) -> str:
        where = ["--bootstrap-server", broker.bootstrap, "--topic", topic]
        return java(f"{TOOLS}.GetOffsetShell", *where, *time).strip()

    expect(offsets() == f"{topic}:0:0\n{topic}:1:7", offsets())
    expect(offsets("--time", "earliest") == f"{topic}:0:0\n{topic}:1:0", "earliest")
    expect(f"{topic}:1:6" in offsets("--time", "max-timestamp"), "max-timestamp")
    expect(f"{topic}:1:3" in offsets("--time", "1003"), "by time")


@check("tools")
def delete_records(broker: BrokerProcess) -> None:
    topic = new_topic("delete-records")
    client = Confluent(broker.bootstrap)
    client.create_topic(topic)
    client.produce(topic, [Message(partition=0)] * 10)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "offsets.json"
        place = {"topic": topic, "partition": 0, "offset": 4}
        path.write_text(json.dumps({"partitions": [place], "version": 1}))
        where = ["--bootstrap-server", broker.bootstrap]
        told = java(f"{TOOLS}.DeleteRecordsCommand", *where, "--offset-json-file", str(path))
    expect("low_watermark: 4" in told, told)
    expect(client.offsets(topic, 0) == (4, 10), str(client.offsets(topic, 0)))


@check("tools")
def log_dirs(broker: BrokerProcess) -> None:
    topic = new_topic("log-dirs")
    client = Confluent(broker.bootstrap)
    client.create_topic(topic)
    client.produce(topic, [Message(b"x" * 1000, partition=0)])
    where = ["--bootstrap-server", broker.bootstrap, "--describe", "--topic-list", topic]
    told = java(f"{TOOLS}.LogDirsCommand", *where)
    found = json.loads(told.splitlines()[-1])
    (partition,) = found["brokers"][0]["logDirs"][0]["partitions"]
    expect(partition["partition"] == f"{topic}-0", told)
    expect(1000 < partition["size"] < 1200, told)


@check("tools")
def producer_performance(broker: BrokerProcess) -> str:
    topic = new_topic("performance")
    Confluent(broker.bootstrap).create_topic(topic)
    told = java(
        f"{TOOLS}.ProducerPerformance",
        *["--bootstrap-server", broker.bootstrap, "--topic", topic],
        *["--num-records", "100000", "--record-size", "200", "--throughput", "-1"],
    )
    expect(Confluent(broker.bootstrap).offsets(topic, 0) == (0, 100_000), told)
    return told.strip().splitlines()[-1].split(",")[1].strip()


@check("tools")
def verifiable_producer(broker: BrokerProcess) -> None:
    topic = new_topic("verifiable")
    Confluent(broker.bootstrap).create_topic(topic, 3)
    where = ["--bootstrap-server", broker.bootstrap, "--topic", topic]
    told = java(f"{TOOLS}.VerifiableProducer", *where, "--max-messages", "2000")
    events = [json.loads(line) for line in told.splitlines()]
    good = [event for event in events if event["name"] == "producer_send_success"]
    expect(len(good) == 2000, f"{len(good)} of 2000 acknowledged")


@check("tools", needs=ApiKey.FIND_COORDINATOR)
def consumer_performance(broker: BrokerProcess) -> str:
    topic = new_topic("performance")
    client = Confluent(broker.bootstrap)
    client.create_topic(topic)
    client.produce(topic, [Message(b"x" * 200, partition=0)] * 50_000)
    told = java(
        f"{TOOLS}.ConsumerPerformance",
        *["--bootstrap-server", broker.bootstrap, "--topic", topic, "--num-records", "50000"],
    )
    rates = dict(zip(*(line.split(", ") for line in told.strip().splitlines()[-2:]), strict=True))
    expect(int(rates["data.consumed.in.nMsg"]) >= 50_000, told)
    return f"{rates['nMsg.sec']} records/sec"


@check("tools", needs=ApiKey.FIND_COORDINATOR)
def end_to_end_latency(broker: BrokerProcess) -> str:
    topic = new_topic("latency")
    Confluent(broker.bootstrap).create_topic(topic)
    told = java(
        f"{TOOLS}.EndToEndLatency",
        *["--bootstrap-server", broker.bootstrap, "--topic", topic],
        *["--num-records", "500", "--producer-acks", "all", "--record-size", "100"],
    )
    return told.strip().splitlines()[-1]


@check("tools")
def broker_api_versions(broker: BrokerProcess) -> None:
    told = java(f"{TOOLS}.BrokerApiVersionsCommand", "--bootstrap-server", broker.bootstrap)
    for wanted in ("Produce(0): 0 to 13", "Fetch(1): 4 to 18", "Metadata(3): 0 to 13"):
        expect(wanted in told, f"{wanted} is not in:\n{told}")


@check("tools")
def cluster_id(broker: BrokerProcess) -> None:
    where = ["--bootstrap-server", broker.bootstrap]
    told = java(f"{TOOLS}.ClusterTool", "cluster-id", *where)
    expect("Cluster ID: " in told, told)


@check("tools")
def features(broker: BrokerProcess) -> str:
    told = java(f"{TOOLS}.FeatureCommand", "--bootstrap-server", broker.bootstrap, "describe")
    return f"{len(told.strip().splitlines())} features"


@check("tools")
def client_compatibility_test(broker: BrokerProcess) -> None:
    topic = new_topic("compatibility")
    Confluent(broker.bootstrap).create_topic(topic)
    has_acls = ApiKey.DESCRIBE_ACLS in served(broker.bootstrap)
    flags = {
        "offsets-for-times-supported": "true",
        "cluster-id-supported": "true",
        "expect-record-too-large-exception": "false",
        "num-cluster-nodes": "1",
        "create-topics-supported": "true",
        "describe-acls-supported": str(has_acls).lower(),
        "describe-configs-supported": "true",
        "idempotent-producer-supported": "true",
    }
    arguments = [part for name, value in flags.items() for part in (f"--{name}", value)]
    where = ["--bootstrap-server", broker.bootstrap, "--topic", topic]
    told = java(f"{TOOLS}.ClientCompatibilityTest", *where, *arguments)
    expect("SUCCESS" in told, told)


@check("tools")
def java_admin_client(broker: BrokerProcess) -> str:
    topic = new_topic("admin")
    client = Java(broker.bootstrap)
    client.create_topic(topic)
    client.produce(topic, [Message(timestamp=1000 + n, partition=0) for n in range(5)])
    seen = client.administer(topic)
    expected = {
        "partitions": 3,
        "described by id": topic,
        "listed": True,
        "nodes": 1,
        "retention.ms": "77777777",
        "earliest": 0,
        "latest": 5,
        "max timestamp": 4,
        "producers": 1,
        "low watermark": 2,
        "log dirs": 1,
        "config resources": True,
        "features": True,
    }
    got = {name: seen[name] for name in expected}
    expect(got == expected, f"{got} is not {expected}")
    return f"{len(expected)} requests"
