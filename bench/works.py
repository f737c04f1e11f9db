"""The works of the speed table: start, produce, unbatched, consume, latency, memory, partitions.

Each is a function from the arena (and the running servers) to its rows; goals are the issue's.
"""

from dataclasses import replace
from pathlib import Path

from bench import disk, topics
from bench.arena import Arena, Pair, Run, limit_of, timed, together
from bench.client import Latencies
from bench.flood import fill, flood, record_batch
from bench.rows import Goal, Row
from bench.sizes import FEW_PARTITIONS, LATENCY_RATE, MESSAGE_BYTES
from bench.stats import percentile
from testkit.proc import Memory
from testkit.server import Server

PRODUCE = "produce 200 B, batched"
UNBATCHED = "produce 200 B, one a batch"
RAW_UNBATCHED = "the same, no client library"
CONSUME = "consume from the page cache"
LATENCY = "end to end"
START = "start to first Metadata"
MEMORY = "resident memory after the load"

SETTLE_SHARE = 1.5  # of a round's bytes: the client and the batches' overhead want memory too
PARTITION_REQUESTS = 10_000  # of a round: to each of the very many partitions one
PARTITIONS_TOPIC = "partitions"
PARTITION_TURNS = 3  # of few and many in a round: one takes a second, and machines have moods
PARTITION_BATCH = 100  # messages of a batch in the work over partitions
MEGABYTE = 1e6


def start(arena: Arena) -> list[Row]:
    """From the start of the process to the first answered Metadata, on an empty folder."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(arena.sizes.rounds):
        for side, samples in enumerate(seconds):
            with arena.server(side) as server:
                samples.append(server.start())
                arena.say(f"start: round {number + 1}, {server.name} {samples[-1]:.2f} s")
    return [Row(START, "time", "s", *seconds, Goal(ratio_at_most=0.2, below=0.7))]


def produce(arena: Arena, pair: Pair) -> list[Row]:
    """Batched by the client as it likes, acks=1, one partition, a new topic each round."""

    def once(server: Server, number: int) -> Run:
        return _produce(arena, server, f"produce-{number}", arena.sizes.batched)

    kafka, ottla = arena.take_turns("produce", pair, once, _rate)
    # Where the client is the limit there is nothing to win: then as fast as Kafka is enough.
    faster = 1.0 if limit_of(ottla) == "client" else 1.2
    goals = Goal(ratio_at_least=faster), Goal(ratio_at_most=0.5)
    return _throughput(PRODUCE, kafka, ottla, goals)


def unbatched(arena: Arena, pair: Pair) -> list[Row]:
    """One message a request, with and without a client library."""
    return [*unbatched_by_library(arena, pair), *_raw_unbatched(arena, pair)]


def unbatched_by_library(arena: Arena, pair: Pair) -> list[Row]:
    """One message a request, as many requests on their way as the client likes."""

    def once(server: Server, number: int) -> Run:
        one = {"rd.batch.num.messages": 1}
        return _produce(arena, server, f"unbatched-{number}", arena.sizes.unbatched, **one)

    kafka, ottla = arena.take_turns("unbatched", pair, once, _rate)
    goals = Goal(ratio_at_least=4.0), Goal(ratio_at_most=0.2)
    return _throughput(UNBATCHED, kafka, ottla, goals)


def _raw_unbatched(arena: Arena, pair: Pair) -> list[Row]:
    """The same without librdkafka, whose own cost for a request is above that of a fast broker."""
    topic, batch = "unbatched-raw", record_batch(1, MESSAGE_BYTES)
    for server in pair:
        topics.create(server, topic)
        fill(server, topic, 1, batch)

    def once(server: Server, _: int) -> Run:
        targets = [0] * arena.sizes.unbatched
        disk.settle(arena.folder, len(targets) * len(batch))
        return timed(server, lambda: flood(server, topic, targets, batch))

    kafka, ottla = arena.take_turns("unbatched, no library", pair, once, _rate)
    return _throughput(RAW_UNBATCHED, kafka, ottla, (Goal(), Goal()))


def consume(arena: Arena, pair: Pair) -> list[Row]:
    """The whole of one partition from its beginning, read into the page cache before."""
    topic, messages = "consume", arena.sizes.batched
    for server in pair:
        arena.say(f"consume: filling {server.name}")
        topics.create(server, topic)
        arena.client.produce(server, topic, messages=messages, size=MESSAGE_BYTES)

    def once(server: Server, _: int) -> Run:
        disk.warm(server.segments(topic))
        return timed(server, lambda: arena.client.consume(server, topic, messages=messages))

    kafka, ottla = arena.take_turns("consume", pair, once, _rate)
    for server in pair:
        topics.delete(server, topic)
    goals = Goal(ratio_at_least=1.0), Goal(ratio_at_most=0.6)
    return _throughput(CONSUME, kafka, ottla, goals)


def latency(arena: Arena, pair: Pair) -> list[Row]:
    """From sending to arrival at a consumer, one message at a time at a low rate."""
    for server in pair:
        topics.create(server, "latency")

    def once(server: Server, _: int) -> Latencies:
        messages = LATENCY_RATE * arena.sizes.latency_seconds
        disk.settle(arena.folder, 0)
        return arena.client.latency(
            server, "latency", messages=messages, rate=LATENCY_RATE, size=MESSAGE_BYTES
        )

    def show(sample: Latencies) -> str:
        return f"p50 {_ms(sample, 50):.2f} ms, p99 {_ms(sample, 99):.2f} ms"

    kafka, ottla = arena.take_turns("latency", pair, once, show, warm_up=1)
    return [
        Row(
            LATENCY,
            f"p{percent}",
            "ms",
            [_ms(sample, percent) for sample in kafka],
            [_ms(sample, percent) for sample in ottla],
            Goal(ratio_at_most=1.0),
        )
        for percent in (50, 99)
    ]


def memory(arena: Arena, pair: Pair) -> list[Row]:
    """After whatever was measured before, and one more round of producing and consuming."""
    topic, messages = "memory", arena.sizes.batched
    found: list[Memory] = []
    for server in pair:
        topics.create(server, topic)
        arena.client.produce(server, topic, messages=messages, size=MESSAGE_BYTES)
        arena.client.consume(server, topic, messages=messages)
        found.append(server.memory())
        arena.say(f"memory: {server.name} {found[-1].resident / MEGABYTE:,.0f} MB")
        topics.delete(server, topic)
    kafka, ottla = found
    goal = Goal(ratio_at_most=0.1)
    return [
        Row(MEMORY, "now", "MB", [kafka.resident / MEGABYTE], [ottla.resident / MEGABYTE], goal),
        Row(MEMORY, "peak", "MB", [kafka.peak / MEGABYTE], [ottla.peak / MEGABYTE]),
    ]


def partitions(arena: Arena, pair: Pair) -> list[Row]:
    """The same requests to a broker with few partitions, and at once to one with very many."""
    many = arena.sizes.many_partitions
    batch = record_batch(PARTITION_BATCH, MESSAGE_BYTES)
    work = f"produce at {many:,} partitions"
    folder = arena.folder / "few"
    folder.mkdir()
    logs: dict[Server, list[Path]] = {}
    with replace(arena, folder=folder).servers() as narrow:
        for servers, count in ((narrow, FEW_PARTITIONS), (pair, many)):
            for server in servers:
                arena.say(f"partitions: {server.name} creates {count:,} and writes to each")
                topics.create(server, PARTITIONS_TOPIC, count)
                # Twice: a segment's first index entry, which comes with the second batch, is the
                # first touch of a mapped page: that costs milliseconds in some virtual machines.
                for _ in range(2):
                    fill(server, PARTITIONS_TOPIC, count, batch)
                logs[server] = server.segments(PARTITIONS_TOPIC)

        def once_to(server: Server, count: int) -> Run:
            targets = [number % count for number in range(PARTITION_REQUESTS)]
            disk.settle(arena.folder, int(len(targets) * len(batch) * SETTLE_SHARE))
            disk.warm_ends(logs[server])
            limit = arena.sizes.partition_seconds
            return timed(server, lambda: flood(server, PARTITIONS_TOPIC, targets, batch, limit))

        def once(server: Server, _: int) -> tuple[Run, Run]:
            few_runs, many_runs = [], []
            for _ in range(PARTITION_TURNS):
                few_runs.append(once_to(narrow[pair.index(server)], FEW_PARTITIONS))
                many_runs.append(once_to(server, many))
            return together(few_runs), together(many_runs)

        kafka, ottla = arena.take_turns("partitions", pair, once, _few_and_many)
    kafka_shares, ottla_shares = (
        [of_many.rate / of_few.rate for of_few, of_many in side] for side in (kafka, ottla)
    )
    kafka_runs, ottla_runs = ([of_many for _, of_many in side] for side in (kafka, ottla))
    kafka_rates, ottla_rates = ([run.rate for run in side] for side in (kafka_runs, ottla_runs))
    share = f"of the rate at {FEW_PARTITIONS}"
    limits = _limits(kafka_runs, ottla_runs)
    return [
        Row(work, share, "x", kafka_shares, ottla_shares, Goal(at_least=0.8)),
        Row(work, "rate", "/s", kafka_rates, ottla_rates, note=limits),
    ]


def _few_and_many(runs: tuple[Run, Run]) -> str:
    few, many = runs
    return f"{FEW_PARTITIONS}: {_rate(few)}; many: {_rate(many)}"


def _produce(arena: Arena, server: Server, topic: str, messages: int, **options: int | str) -> Run:
    topics.create(server, topic)
    disk.settle(arena.folder, int(messages * MESSAGE_BYTES * SETTLE_SHARE))
    run = timed(
        server,
        lambda: arena.client.produce(
            server, topic, messages=messages, size=MESSAGE_BYTES, **options
        ),
    )
    topics.delete(server, topic)
    return run


def _throughput(
    work: str, kafka: list[Run], ottla: list[Run], goals: tuple[Goal, Goal]
) -> list[Row]:
    kafka_rates, ottla_rates = ([run.rate for run in side] for side in (kafka, ottla))
    kafka_cpu, ottla_cpu = ([run.cpu_us for run in side] for side in (kafka, ottla))
    return [
        Row(work, "rate", "/s", kafka_rates, ottla_rates, goals[0], _limits(kafka, ottla)),
        Row(work, "broker CPU a message", "µs", kafka_cpu, ottla_cpu, goals[1]),
    ]


def _limits(kafka: list[Run], ottla: list[Run]) -> str:
    return f"limit: {limit_of(kafka)} | {limit_of(ottla)}"


def _rate(run: Run) -> str:
    return f"{run.rate:,.0f}/s, broker {run.cpu_us:.2f} µs a message"


def _ms(sample: Latencies, percent: float) -> float:
    return percentile(sample.arrival_us, percent) / 1e3
