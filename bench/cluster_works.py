"""The works of the cluster: three brokers of Ottla beside three of Apache Kafka.

Each is a function from the arena (and the running clusters) to its rows; goals are the issue's.
`scale` and `start` are about Ottla alone: their goals are seconds, not ratios.
"""

import time

from confluent_kafka import KafkaError, Message, Producer

from bench import disk, topics
from bench.arena import Arena, Pair, Run, limit_of, timed
from bench.clusters import BROKERS, Cluster
from bench.rows import Goal, Row
from bench.sizes import MESSAGE_BYTES
from testkit.errors import HarnessError
from testkit.server import Server

PRODUCE = f"{BROKERS} brokers: produce 200 B, acks=all"
MEMORY = f"{BROKERS} brokers: resident memory together"
FAILOVER = f"{BROKERS} brokers: kill -9 of a leader"
PARTITIONS = BROKERS
"""One for each broker to lead."""
MIN_IN_SYNC = "2"
SETTLE_SHARE = 1.5
MEGABYTE = 1e6
SECONDS_AT_SCALE = Goal(below=5.0)
WRITE_SECONDS = 120
LOOK_AGAIN_SECONDS = 0.01


def produce(arena: Arena, pair: Pair) -> list[Row]:
    """Batched by the client as it likes, three replicas, two of them at least in sync."""
    messages = arena.sizes.replicated

    def once(server: Server, number: int) -> Run:
        topic = f"replicated-{number}"
        _create(server, topic, PARTITIONS)
        disk.settle(arena.folder, int(messages * MESSAGE_BYTES * BROKERS * SETTLE_SHARE))
        acks = {"rd.acks": "all"}
        run = timed(
            server,
            lambda: arena.client.produce(
                server,
                topic,
                messages=messages,
                size=MESSAGE_BYTES,
                partitions=PARTITIONS,
                **acks,
            ),
        )
        topics.delete(server, topic)
        return run

    kafka, ottla = arena.take_turns("cluster: produce", pair, once, _rate)
    rates = [run.rate for run in kafka], [run.rate for run in ottla]
    cpu = [run.cpu_us for run in kafka], [run.cpu_us for run in ottla]
    note = f"limit: {limit_of(kafka)} | {limit_of(ottla)}"
    return [
        Row(PRODUCE, "rate", "/s", *rates, Goal(ratio_at_least=1.0), note),
        Row(PRODUCE, "brokers' CPU a message", "µs", *cpu),
    ]


def memory(arena: Arena, pair: Pair) -> list[Row]:
    """After whatever was measured before."""
    kafka, ottla = (server.memory() for server in pair)
    for server, found in zip(pair, (kafka, ottla), strict=True):
        arena.say(f"cluster: memory: {server.name} {found.resident / MEGABYTE:,.0f} MB")
    now = [kafka.resident / MEGABYTE], [ottla.resident / MEGABYTE]
    peak = [kafka.peak / MEGABYTE], [ottla.peak / MEGABYTE]
    return [
        Row(MEMORY, "now", "MB", *now, Goal(ratio_at_most=0.15)),
        Row(MEMORY, "peak", "MB", *peak),
    ]


def failover(arena: Arena, pair: Pair) -> list[Row]:
    """Until writes to all partitions that the dead broker led are acknowledged again."""
    topic = "failover"
    for server in pair:
        _create(server, topic, PARTITIONS)

    def once(server: Server, _: int) -> float:
        cluster = _cluster(server)
        victim, seconds = _fail_over(cluster, topic)
        cluster.revive(victim)
        topics.wait_until_in_sync(server, topic, PARTITIONS, BROKERS)
        return seconds

    rounds = arena.sizes.failovers
    kafka, ottla = arena.take_turns("cluster: failover", pair, once, _seconds, rounds, warm_up=0)
    return [Row(FAILOVER, "until writes continue", "s", kafka, ottla, Goal(ratio_at_most=1.0))]


def scale(arena: Arena) -> list[Row]:
    """The same with very many partitions, a third of which the dead broker leads."""
    partitions = arena.sizes.cluster_partitions
    seconds = []
    with arena.server(1) as server:
        cluster = _cluster(server)
        cluster.start()
        arena.say(f"cluster: {server.name} creates {partitions:,} partitions")
        _create(cluster, "many", partitions)
        for number in range(arena.sizes.failovers):
            victim, took = _fail_over(cluster, "many")
            arena.say(f"cluster: scale: round {number + 1}, {server.name} {_seconds(took)}")
            seconds.append(took)
            cluster.revive(victim)
            topics.wait_until_in_sync(cluster, "many", partitions, BROKERS)
    work = f"{BROKERS} brokers, {partitions:,} partitions: kill -9 of a leader"
    return [Row(work, "until writes to its partitions go on", "s", [], seconds, SECONDS_AT_SCALE)]


def start(arena: Arena) -> list[Row]:
    """From the start of the process until Metadata names a leader of every partition."""
    partitions = arena.sizes.start_partitions
    seconds = []
    with arena.server(1) as server:
        server.start()
        arena.say(f"cluster: start: {server.name} creates {partitions:,} partitions")
        topics.create(server, "many", partitions)
        for number in range(arena.sizes.starts):
            server.stop()
            began = time.monotonic()
            server.start()
            while len(topics.leaders(server, "many")) < partitions:
                time.sleep(LOOK_AGAIN_SECONDS)
            seconds.append(time.monotonic() - began)
            arena.say(f"cluster: start: round {number + 1}, {_seconds(seconds[-1])}")
    work = f"start of a broker with {partitions:,} partitions"
    return [Row(work, "until all are led", "s", [], seconds, SECONDS_AT_SCALE)]


def _create(server: Server, topic: str, partitions: int) -> None:
    topics.create(server, topic, partitions, BROKERS, min_insync_replicas=MIN_IN_SYNC)
    topics.wait_until_in_sync(server, topic, partitions, BROKERS)


def _fail_over(cluster: Cluster, topic: str) -> tuple[int, float]:
    """Kills the leader of the first partition: who that was, and how long writers stood still.

    A message is written to each partition that it led, once it is dead. The time is over when the
    last of them is acknowledged.
    """
    leaders = topics.leaders(cluster, topic)
    victim = leaders[0]
    partitions = [index for index, leader in leaders.items() if leader == victim]
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": cluster.bootstrap,
        "acks": "all",
        "log_level": 0,
    }
    producer = Producer(settings)
    _write(producer, topic, partitions)
    began = time.monotonic()
    cluster.kill(victim)
    _write(producer, topic, partitions)
    return victim, time.monotonic() - began


def _write(producer: Producer, topic: str, partitions: list[int]) -> None:
    """A message to each partition, acknowledged."""
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    for index in partitions:
        producer.produce(topic, b"x" * MESSAGE_BYTES, partition=index, on_delivery=delivered)
    if producer.flush(WRITE_SECONDS):
        raise HarnessError(f"writes to {topic} did not continue in {WRITE_SECONDS} s")
    if failures:
        raise HarnessError(f"a write to {topic} failed: {failures[0]}")


def _cluster(server: Server) -> Cluster:
    if not isinstance(server, Cluster):
        raise TypeError(f"{server.name} is not a cluster")
    return server


def _rate(run: Run) -> str:
    return f"{run.rate:,.0f}/s, brokers {run.cpu_us:.2f} µs a message"


def _seconds(value: float) -> str:
    return f"{value:.2f} s"
