"""Broker settings: the node, its listeners, connections, requests, and how topics are made."""

from ottla.config.definition import OneOf, Only, Parsed, Range
from ottla.config.listeners import PROTOCOLS, check_host, connections_per_ip, protocol_map
from ottla.config.rows import (
    AT_LEAST_0,
    AT_LEAST_1,
    BOOLEAN,
    CLASS,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    READ_ONLY,
    STRING,
    broker,
)
from ottla.config.types import INT_MAX

NETWORK_CONFIGS = (
    broker(
        "node.id", INT, 1, AT_LEAST_0, HIGH, READ_ONLY,
        "The broker's number, different for every broker of a cluster. Kafka has no default; here "
        "it is 1.",
    ),
    broker(
        "broker.id", INT, -1, None, HIGH, READ_ONLY,
        "The older name of `node.id`; -1 for not set. When both are set they must be equal.",
    ),
    broker(
        "broker.rack", STRING, None, None, MEDIUM, READ_ONLY,
        "Where the broker stands, told to clients and used to spread replicas.",
    ),
    broker(
        "listeners", LIST, ("PLAINTEXT://127.0.0.1:9092",), None, HIGH, READ_ONLY,
        "Where to listen: NAME://HOST:PORT, separated by commas. Port 0 takes a free port, an "
        "empty host or 0.0.0.0 means all interfaces, localhost means both address families. "
        "Kafka's default is all interfaces; here only this machine can connect until you say "
        "otherwise. Unlike in Kafka it cannot change while the broker runs.",
    ),
    broker(
        "advertised.listeners", LIST, None, None, HIGH, READ_ONLY,
        "What clients are told to connect to, when that differs from `listeners`. Port 0 stands "
        "for the bound port. Without it, a listener on all interfaces advertises the machine's "
        "name, or where that is localhost the address from which the machine reaches others; the "
        "line of the start says which (Kafka refuses to start with 0.0.0.0 here).",
    ),
    broker(
        "listener.security.protocol.map", STRING,
        ",".join(f"{name}:{name}" for name in ("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT")),
        Parsed(protocol_map, "NAME:PROTOCOL,..."), LOW, READ_ONLY,
        "The protocol of each listener name. Only PLAINTEXT works so far. Unlike in Kafka it "
        "cannot change while the broker runs.",
    ),
    broker(
        "inter.broker.listener.name", STRING, None, None, MEDIUM, READ_ONLY,
        "The listener that brokers use among themselves; without it, the first one with the "
        "protocol of `security.inter.broker.protocol`.",
    ),
    broker(
        "security.inter.broker.protocol", STRING, "PLAINTEXT", OneOf(PROTOCOLS), MEDIUM, READ_ONLY,
        "The protocol that brokers use among themselves. Only PLAINTEXT works so far.",
    ),
    broker(
        "controller.listener.names", LIST, (), None, HIGH, READ_ONLY,
        "Ottla has no controller listeners: listeners of these names are left out, so that a KRaft "
        "`server.properties` works.",
    ),
    broker(
        "authorizer.class.name", STRING, "", Only("", "authorization is not supported yet"), LOW,
        READ_ONLY,
        "Access control is not supported yet. Refused rather than ignored: a broker that looks "
        "protected and is not would be worse.",
    ),
    broker(
        "create.topic.policy.class.name", CLASS, None,
        Only(None, "policies are Java classes, which Ottla cannot run"), LOW, READ_ONLY,
        "Topic policies are Java classes: refused rather than ignored.",
    ),
    broker(
        "alter.config.policy.class.name", CLASS, None,
        Only(None, "policies are Java classes, which Ottla cannot run"), LOW, READ_ONLY,
        "Config policies are Java classes: refused rather than ignored.",
    ),
    broker(
        "socket.request.max.bytes", INT, 104_857_600, AT_LEAST_1, HIGH, READ_ONLY,
        "The largest request; a connection that announces more is closed.",
    ),
    broker(
        "socket.send.buffer.bytes", INT, -1, None, HIGH, READ_ONLY,
        "SO_SNDBUF of a connection's socket; -1 leaves it to the system, which gives a fast reader "
        "more (Kafka's default is 102400).",
    ),
    broker(
        "socket.receive.buffer.bytes", INT, 102_400, None, HIGH, READ_ONLY,
        "SO_RCVBUF of a connection's socket; -1 leaves the system's choice.",
    ),
    broker(
        "socket.listen.backlog.size", INT, 50, AT_LEAST_1, MEDIUM, READ_ONLY,
        "How many connections may wait to be accepted.",
    ),
    broker(
        "max.connections", INT, INT_MAX, AT_LEAST_0, MEDIUM, CLUSTER_WIDE,
        "The most connections at one time; past it new ones wait or are closed.",
    ),
    broker(
        "max.connections.per.ip", INT, INT_MAX, AT_LEAST_0, MEDIUM, CLUSTER_WIDE,
        "The most connections from one address. 0 only together with overrides.",
    ),
    broker(
        "max.connections.per.ip.overrides", STRING, "",
        Parsed(connections_per_ip, "address:count,..."), MEDIUM, CLUSTER_WIDE,
        "Other limits for single addresses, as address:count, separated by commas.",
    ),
    broker(
        "max.connection.creation.rate", INT, INT_MAX, AT_LEAST_0, MEDIUM, CLUSTER_WIDE,
        "The most connections accepted in a second.",
    ),
    broker(
        "connections.max.idle.ms", LONG, 600_000, None, MEDIUM, READ_ONLY,
        "A connection without a request for this long is closed; negative for never.",
    ),
    broker(
        "queued.max.request.bytes", LONG, -1,
        Only(-1, "requests are not queued here; max.connections and socket.request.max.bytes "
             "bound the memory they take"),
        MEDIUM, READ_ONLY,
        "A bound of the memory that queued requests take. Ottla handles a request where it was "
        "received and queues none: only -1, no limit, is accepted.",
    ),
    broker(
        "request.timeout.ms", INT, 30_000, None, HIGH, READ_ONLY,
        "How long a broker waits for an answer of another broker.",
    ),
    broker(
        "fetch.max.bytes", INT, 57_671_680, Range(1024), MEDIUM, READ_ONLY,
        "The most bytes in one fetch response, whatever the client asks for.",
    ),
    broker(
        "max.incremental.fetch.session.cache.slots", INT, 1000, AT_LEAST_0, MEDIUM, READ_ONLY,
        "How many incremental fetch sessions are kept.",
    ),
    broker(
        "max.request.partition.size.limit", INT, 2000, AT_LEAST_1, MEDIUM, READ_ONLY,
        "The most partitions in one DescribeTopicPartitions response.",
    ),
    broker(
        "auto.create.topics.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Make a topic when a client asks for it by name and it does not exist.",
    ),
    broker(
        "delete.topic.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Whether topics can be deleted.",
    ),
    broker(
        "num.partitions", INT, 1, AT_LEAST_1, MEDIUM, READ_ONLY,
        "Partitions of a topic that is made without a number.",
    ),
    broker(
        "default.replication.factor", INT, 1, None, MEDIUM, READ_ONLY,
        "Replicas of a topic that is made without a number.",
    ),
    broker(
        "ottla.store", STRING, "", None, HIGH, READ_ONLY,
        "Where the metadata of the cluster is kept: `sqlite:PATH` for brokers of one machine, "
        "`zookeeper://host1,host2,host3/chroot` for brokers of many. Empty: a file in the data "
        "folder, for a broker that is alone. Ottla's own.",
    ),
    broker(
        "ottla.metrics.port", INT, -1, Range(-1, 65_535), MEDIUM, READ_ONLY,
        "The HTTP port for Prometheus metrics and /healthz; -1 turns it off, 0 takes a free port. "
        "Ottla's own.",
    ),
    broker(
        "ottla.metrics.host", STRING, "127.0.0.1", Parsed(check_host, "a host"), LOW, READ_ONLY,
        "The address that the metrics port listens on. Ottla's own.",
    ),
)  # fmt: skip
