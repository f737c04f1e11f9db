"""Settings that Kafka knows and that mean nothing here: accepted, with a warning, not checked.

So a Kafka `server.properties` works as it is. Settings that would leave the broker less protected
than the file says (an authorizer, a topic policy) are not here: the table refuses those.

While the broker runs, those of them may change that Kafka lets change; and so may names that Kafka
does not know either: it keeps them for plug-ins, and tells their names but not their values.
"""

from ottla.config.definition import DynamicMode

# Whole families: the quorum of KRaft, tiered storage. Their
# listeners or features are refused elsewhere.
_PREFIXES = (
    "controller.quorum.",
    "metadata.log.",
    "password.encoder.",
    "remote.",
    "rlmm.config.",
    "rsm.config.",
)

_LISTED = """
    add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms
    alter.log.dirs.replication.quota.window.num
    alter.log.dirs.replication.quota.window.size.seconds auto.include.jmx.reporter
    background.threads broker.id.generation.enable client.quota.callback.class config.providers
    control.plane.listener.name
    controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms
    controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
    controller.socket.timeout.ms
    delete.records.purgatory.purge.interval.requests early.start.listeners
    fetch.purgatory.purge.interval.requests follower.fetch.last.tiered.offset.enable
    follower.replication.throttled.rate group.coordinator.append.linger.ms
    group.coordinator.background.threads group.coordinator.cached.buffer.max.bytes
    group.coordinator.new.enable group.coordinator.threads group.share.persister.class.name
    inter.broker.protocol.version
    internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes
    internal.metadata.max.batch.size.in.bytes kafka.metrics.polling.interval.secs
    kafka.metrics.reporters leader.imbalance.per.broker.percentage
    leader.replication.throttled.rate log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size
    log.dir.failure.timeout.ms log.flush.start.offset.checkpoint.interval.ms
    log.initial.task.delay.ms log.message.downconversion.enable log.message.format.version
    log.message.timestamp.difference.max.ms metadata.max.idle.interval.ms
    metadata.max.retention.bytes metadata.max.retention.ms metric.reporters metrics.num.samples
    metrics.recording.level metrics.sample.window.ms num.io.threads num.network.threads
    num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads num.replica.fetchers
    offsets.load.buffer.size offsets.topic.compression.codec process.roles
    producer.id.expiration.check.interval.ms producer.purgatory.purge.interval.requests
    queued.max.requests
    replica.alter.log.dirs.io.max.bytes.per.second replica.socket.receive.buffer.bytes
    replication.quota.window.num replication.quota.window.size.seconds reserved.broker.max.id
    sasl.mechanism.controller.protocol security.providers server.max.startup.time.ms
    share.coordinator.append.linger.ms share.coordinator.cached.buffer.max.bytes
    share.coordinator.load.buffer.size share.coordinator.state.topic.compression.codec
    share.coordinator.threads share.coordinator.write.timeout.ms
    share.fetch.purgatory.purge.interval.requests
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms telemetry.max.bytes
    transaction.abort.timed.out.transaction.cleanup.interval.ms
    transaction.state.log.load.buffer.size transaction.two.phase.commit.enable
    unclean.leader.election.interval.ms unstable.api.versions.enable
    unstable.feature.versions.enable
    zookeeper.clientCnxnSocket zookeeper.connect zookeeper.connection.timeout.ms
    zookeeper.max.in.flight.requests zookeeper.metadata.migration.enable
    zookeeper.session.timeout.ms zookeeper.ssl.keystore.type zookeeper.ssl.truststore.password
    zookeeper.ssl.truststore.type zookeeper.sync.time.ms
"""
_NAMES = frozenset(_LISTED.split())

_LISTED_CLUSTER_WIDE = """
    background.threads config.providers follower.fetch.last.tiered.offset.enable
    follower.replication.throttled.rate group.coordinator.cached.buffer.max.bytes
    leader.replication.throttled.rate log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size
    metric.reporters num.io.threads num.network.threads num.recovery.threads.per.data.dir
    num.replica.fetchers remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms
    remote.log.index.file.cache.total.size.bytes remote.log.manager.copier.thread.pool.size
    remote.log.manager.copy.max.bytes.per.second remote.log.manager.expiration.thread.pool.size
    remote.log.manager.fetch.max.bytes.per.second remote.log.manager.follower.thread.pool.size
    remote.log.reader.threads replica.alter.log.dirs.io.max.bytes.per.second
    share.coordinator.cached.buffer.max.bytes
"""
_CLUSTER_WIDE = frozenset(_LISTED_CLUSTER_WIDE.split())


def is_ignored(name: str) -> bool:
    """True for a setting of Kafka that Ottla accepts without using it."""
    return name in _NAMES or name.startswith(_PREFIXES)


def may_be_shown(name: str) -> bool:
    """Whether the value of such a setting is certainly no secret."""
    return name in _CLUSTER_WIDE


def warning(name: str) -> str:
    """The warning about such a setting."""
    return f"{name} has no effect in Ottla"


def dynamic_mode(name: str) -> DynamicMode:
    """How Kafka lets a setting change that is not in the table."""
    if name in _CLUSTER_WIDE or not is_ignored(name):
        return DynamicMode.CLUSTER_WIDE
    return DynamicMode.READ_ONLY
