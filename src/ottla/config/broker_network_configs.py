"""Broker settings: the node, its listeners, connections, requests, and how topics are made."""

from ottla.config.definition import OneOf, Only, Range, Syntax
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
    PASSWORD,
    READ_ONLY,
    STRING,
    broker,
)
from ottla.config.types import INT_MAX

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

NETWORK_CONFIGS = (
    broker(
        "node.id", INT, 1, AT_LEAST_0, HIGH, READ_ONLY,
        "The broker id, unique in the cluster. Kafka has no default; Ottla's is 1.",
    ),
    broker(
        "broker.id", INT, -1, None, HIGH, READ_ONLY,
        "The older name of `node.id`; -1 if not set. If both are set, they must be equal.",
    ),
    broker(
        "broker.rack", STRING, None, None, MEDIUM, READ_ONLY,
        "The rack of the broker; sent to clients, and used to spread replicas over racks.",
    ),
    broker(
        "listeners", LIST, ("PLAINTEXT://127.0.0.1:9092",), None, HIGH, READ_ONLY,
        "The addresses to listen on: NAME://HOST:PORT, separated by commas. Port 0 selects a "
        "free port, an empty host or 0.0.0.0 means all interfaces, localhost means both address "
        "families. Kafka's default is all interfaces; Ottla's is the loopback interface. Unlike "
        "in Kafka, a change needs a restart.",
    ),
    broker(
        "advertised.listeners", LIST, None, None, HIGH, READ_ONLY,
        "The addresses that clients connect to, if different from `listeners`. Port 0 means the "
        "bound port. If not set, a listener on all interfaces advertises the machine's host "
        "name, or, if that is localhost, its outgoing address; the log line `broker started` "
        "shows it (Kafka does not start with 0.0.0.0 here).",
    ),
    broker(
        "listener.security.protocol.map", STRING,
        ",".join(f"{name}:{name}" for name in ("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT")),
        Syntax(protocol_map, "NAME:PROTOCOL,..."), LOW, READ_ONLY,
        "The protocol of each listener name: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL. Unlike "
        "in Kafka, a change needs a restart.",
    ),
    broker(
        "inter.broker.listener.name", STRING, None, None, MEDIUM, READ_ONLY,
        "The listener for communication between brokers. If not set, the first one with the "
        "protocol of `security.inter.broker.protocol`.",
    ),
    broker(
        "security.inter.broker.protocol", STRING, "PLAINTEXT", OneOf(PROTOCOLS), MEDIUM, READ_ONLY,
        "The protocol for communication between brokers, where `inter.broker.listener.name` is not "
        "set.",
    ),
    broker(
        "controller.listener.names", LIST, (), None, HIGH, READ_ONLY,
        "Ottla has no controller listeners: listeners with these names are ignored, so that a "
        "KRaft `server.properties` works.",
    ),
    broker(
        "authorizer.class.name", STRING, "", OneOf(("", STANDARD_AUTHORIZER)), LOW, READ_ONLY,
        "Set to Kafka's StandardAuthorizer to let clients do only what ACLs allow. Without it, "
        "everyone may do everything. Other authorizers are Java classes and are refused.",
    ),
    broker(
        "create.topic.policy.class.name", CLASS, None,
        Only(None, "policies are Java classes, which Ottla cannot run"), LOW, READ_ONLY,
        "Not supported: policies are Java classes. The broker refuses to start if it is set.",
    ),
    broker(
        "alter.config.policy.class.name", CLASS, None,
        Only(None, "policies are Java classes, which Ottla cannot run"), LOW, READ_ONLY,
        "Not supported: policies are Java classes. The broker refuses to start if it is set.",
    ),
    broker(
        "socket.request.max.bytes", INT, 104_857_600, AT_LEAST_1, HIGH, READ_ONLY,
        "The largest request in bytes; a connection that sends a larger one is closed.",
    ),
    broker(
        "socket.send.buffer.bytes", INT, -1, None, HIGH, READ_ONLY,
        "SO_SNDBUF of a connection's socket; -1 for the system's default, which grows for fast "
        "consumers (Kafka's default is 102400).",
    ),
    broker(
        "socket.receive.buffer.bytes", INT, 102_400, None, HIGH, READ_ONLY,
        "SO_RCVBUF of a connection's socket; -1 for the system's default.",
    ),
    broker(
        "socket.listen.backlog.size", INT, 50, AT_LEAST_1, MEDIUM, READ_ONLY,
        "The maximum number of connections waiting to be accepted.",
    ),
    broker(
        "max.connections", INT, INT_MAX, AT_LEAST_0, MEDIUM, CLUSTER_WIDE,
        "The maximum number of connections; above it, new ones wait or are closed.",
    ),
    broker(
        "max.connections.per.ip", INT, INT_MAX, AT_LEAST_0, MEDIUM, CLUSTER_WIDE,
        "The maximum number of connections from one IP address. May be 0 only with overrides.",
    ),
    broker(
        "max.connections.per.ip.overrides", STRING, "",
        Syntax(connections_per_ip, "address:count,..."), MEDIUM, CLUSTER_WIDE,
        "Limits for single IP addresses, as address:count, separated by commas.",
    ),
    broker(
        "max.connection.creation.rate", INT, INT_MAX, AT_LEAST_0, MEDIUM, CLUSTER_WIDE,
        "The maximum number of connections accepted per second.",
    ),
    broker(
        "connections.max.idle.ms", LONG, 600_000, None, MEDIUM, READ_ONLY,
        "A connection idle for this long is closed; negative for never.",
    ),
    broker(
        "queued.max.request.bytes", LONG, -1,
        Only(-1, "Ottla has no request queue; max.connections and socket.request.max.bytes "
             "limit the memory of requests"),
        MEDIUM, READ_ONLY,
        "The maximum memory of queued requests. Ottla has no request queue: only -1, no limit, "
        "is accepted.",
    ),
    broker(
        "request.timeout.ms", INT, 30_000, None, HIGH, READ_ONLY,
        "How long a broker waits for a response of another broker.",
    ),
    broker(
        "fetch.max.bytes", INT, 57_671_680, Range(1024), MEDIUM, READ_ONLY,
        "The largest fetch response, in bytes, whatever the client requests.",
    ),
    broker(
        "max.incremental.fetch.session.cache.slots", INT, 1000, AT_LEAST_0, MEDIUM, READ_ONLY,
        "The maximum number of incremental fetch sessions.",
    ),
    broker(
        "max.request.partition.size.limit", INT, 2000, AT_LEAST_1, MEDIUM, READ_ONLY,
        "The maximum number of partitions in one DescribeTopicPartitions response.",
    ),
    broker(
        "auto.create.topics.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Enable auto topic creation: create a topic that a client requests by name and that does "
        "not exist.",
    ),
    broker(
        "delete.topic.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Whether topics can be deleted.",
    ),
    broker(
        "num.partitions", INT, 1, AT_LEAST_1, MEDIUM, READ_ONLY,
        "The number of partitions of topics created without one.",
    ),
    broker(
        "default.replication.factor", INT, 1, None, MEDIUM, READ_ONLY,
        "The replication factor of topics created without one.",
    ),
    broker(
        "ottla.store", STRING, "", None, HIGH, READ_ONLY,
        "The metadata store of the cluster: `sqlite:PATH` for brokers on one machine, "
        "`zookeeper://host1,host2,host3/chroot` for brokers on several. If empty, a file in the "
        "data folder, for a standalone broker. Ottla only.",
    ),
    broker(
        "ottla.zookeeper.auth", PASSWORD, "", None, MEDIUM, READ_ONLY,
        "How the broker authenticates itself to ZooKeeper: `digest:USER:PASSWORD`. Ottla only.",
    ),
    broker(
        "zookeeper.set.acl", BOOLEAN, False, None, HIGH, READ_ONLY,
        "Whether only brokers that authenticate as the same user (`ottla.zookeeper.auth`) may read "
        "and write the nodes that are created in ZooKeeper.",
    ),
    broker(
        "zookeeper.ssl.client.enable", BOOLEAN, False, None, MEDIUM, READ_ONLY,
        "Whether to use TLS for connections to ZooKeeper.",
    ),
    broker(
        "zookeeper.ssl.keystore.location", STRING, "", None, MEDIUM, READ_ONLY,
        "A PEM file with the private key and the certificate to show to ZooKeeper.",
    ),
    broker(
        "zookeeper.ssl.keystore.password", PASSWORD, "", None, MEDIUM, READ_ONLY,
        "The password of the private key, if it is encrypted.",
    ),
    broker(
        "zookeeper.ssl.truststore.location", STRING, "", None, MEDIUM, READ_ONLY,
        "A PEM file with the certificates that ZooKeeper's is verified with, beside the system's.",
    ),
    broker(
        "zookeeper.ssl.endpoint.identification.algorithm", STRING, "HTTPS", OneOf(("HTTPS", "")),
        LOW, READ_ONLY,
        "Whether the host name in ZooKeeper's certificate is checked; empty for no.",
    ),
    broker(
        "ottla.metrics.port", INT, -1, Range(-1, 65_535), MEDIUM, READ_ONLY,
        "The HTTP port of /metrics (Prometheus) and /healthz; -1 disables it, 0 selects a free "
        "port. Ottla only.",
    ),
    broker(
        "ottla.metrics.host", STRING, "127.0.0.1", Syntax(check_host, "a host"), LOW, READ_ONLY,
        "The address that the metrics endpoint listens on. Ottla only.",
    ),
)  # fmt: skip
