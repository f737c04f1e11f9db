"""What security costs: TLS beside Kafka's, logins, idle connections and floods, ACLs and quotas.

Each is a function from the arena and the running servers (`bench/secured.py`) to its rows; goals
are the issue's.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from bench import topics, works
from bench.arena import Arena, Pair
from bench.logins import Flood, idle_tls_connections, log_in
from bench.rows import Goal, Row
from bench.secured import MECHANISM, PASSWORD, USER, Tls
from bench.sizes import IDLE_CONNECTIONS, LATENCY_RATE, MESSAGE_BYTES
from bench.stats import percentile
from testkit.server import Server

LOGINS = 1_000
FLOODERS = 1_000
HANDSHAKE_SECONDS = 10.0  # `ottla.handshake.timeout.ms`
LOOK_SECONDS = 0.5
WARM_UP_CONNECTIONS = 200
PROBE = "probe"
TLS = "TLS: "
SMALL_PRODUCE = Goal(below=20.0)
GUARDED = "with an authorizer, 1,000 ACLs, quotas"


def tls_produce(arena: Arena, pair: Pair) -> list[Row]:
    """As `produce`, through TLS 1.3."""
    return _renamed(works.produce(arena, pair), Goal(ratio_at_least=1.2), Goal(ratio_at_most=0.7))


def tls_unbatched(arena: Arena, pair: Pair) -> list[Row]:
    """As `unbatched` with a library, through TLS 1.3."""
    rows = works.unbatched_by_library(arena, pair)
    return _renamed(rows, Goal(ratio_at_least=3.0), Goal(ratio_at_most=0.3))


def tls_consume(arena: Arena, pair: Pair) -> list[Row]:
    """As `consume`, through TLS 1.3."""
    return _renamed(works.consume(arena, pair), Goal(ratio_at_least=1.2), Goal(ratio_at_most=0.7))


def _renamed(rows: list[Row], rate: Goal, cpu: Goal) -> list[Row]:
    return [
        Row(TLS + row.work, row.figure, row.unit, row.kafka, row.ottla, goal, row.note)
        for row, goal in zip(rows, (rate, cpu), strict=True)
    ]


def tls_logins(arena: Arena, pair: Pair) -> list[Row]:
    """A thousand clients at once log in with SCRAM-SHA-512, again and again while one produces.

    Only Ottla is measured.
    """
    server = pair.ottla
    assert isinstance(server, Tls)
    topics.create(server, PROBE)
    server.add_user()
    alone, beside = [], []
    for number in range(-1, arena.sizes.stall_rounds):
        seconds = log_in(server.login_port, LOGINS, MECHANISM, USER, PASSWORD)
        with _producing(arena, server) as acknowledged:
            while not acknowledged.done():
                log_in(server.login_port, LOGINS, MECHANISM, USER, PASSWORD)
        p99 = acknowledged.result()
        arena.say(f"logins: {seconds:.2f} s, p99 of a small produce {p99:.1f} ms")
        if number >= 0:
            alone.append(seconds)
            beside.append(p99)
    work = f"{LOGINS:,} TLS and SCRAM logins at once"
    return [
        Row(work, "all are in", "s", [], alone, Goal(below=2.0)),
        Row(work, "small produce, p99", "ms", [], beside, SMALL_PRODUCE),
    ]


def tls_idle(arena: Arena, pair: Pair) -> list[Row]:
    """Thousands of TLS connections that have asked once."""
    for server in pair:
        topics.create(server, f"{PROBE}-idle")

    def once(server: Server, _: int) -> tuple[float, float]:
        assert isinstance(server, Tls)
        with idle_tls_connections(server.ssl_port, WARM_UP_CONNECTIONS):
            pass
        before = server.memory().resident
        with idle_tls_connections(server.ssl_port, IDLE_CONNECTIONS):
            memory = (server.memory().resident - before) / IDLE_CONNECTIONS / 1e3
            with _producing(arena, server, f"{PROBE}-idle") as acknowledged:
                return memory, acknowledged.result()

    def show(sample: tuple[float, float]) -> str:
        return f"{sample[0]:.1f} kB each, p99 of a small produce {sample[1]:.1f} ms"

    kafka, ottla = arena.take_turns("idle", pair, once, show, rounds=1, warm_up=0)
    work = f"{IDLE_CONNECTIONS:,} idle TLS connections"
    return [
        Row(work, "memory of each", "kB", *_column(kafka, ottla, 0), Goal(below=40.0)),
        Row(work, "small produce, p99", "ms", *_column(kafka, ottla, 1), SMALL_PRODUCE),
    ]


def tls_flood(arena: Arena, pair: Pair) -> list[Row]:
    """A thousand clients that never log in, each with 512 KB of a frame that does not end.

    Only Ottla: Kafka bounds neither their number nor their time.
    """
    server = pair.ottla
    assert isinstance(server, Tls)
    topics.create(server, f"{PROBE}-flood")
    before = server.memory().resident
    most = before
    flood = Flood(server.login_port, FLOODERS)
    try:
        with _producing(arena, server, f"{PROBE}-flood") as acknowledged:
            while not acknowledged.done():
                flood.go_on(LOOK_SECONDS)
                most = max(most, server.memory().resident)
            p99 = acknowledged.result()
        arena.say(f"flood: {flood.closed:,} were closed, {flood.connected:,} are left")
        flood.again = False
        flood.go_on(HANDSHAKE_SECONDS + LOOK_SECONDS)
        left = flood.connected
        after = server.memory().resident
    finally:
        flood.close()
    arena.say(f"flood: +{(most - before) / 1e6:.0f} MB, then {left} connections")
    work = f"flood of {FLOODERS:,} unauthenticated clients"
    return [
        Row(work, "memory, at most", "MB", [], [(most - before) / 1e6], Goal(below=100.0)),
        Row(work, "memory after 10 s", "MB", [], [(after - before) / 1e6], Goal(below=100.0)),
        Row(work, "connections after 10 s", "x", [], [left], Goal(below=1.0)),
        Row(work, "small produce, p99", "ms", [], [p99], SMALL_PRODUCE),
    ]


@contextmanager
def _producing(arena: Arena, server: Server, topic: str = PROBE) -> Iterator[Future[float]]:
    """The 99th percentile of acknowledgements of one message after another, meanwhile."""

    def produce() -> float:
        sample = arena.client.latency(
            server, topic, messages=LATENCY_RATE * arena.sizes.stall_seconds, rate=LATENCY_RATE,
            size=MESSAGE_BYTES, consume=0,
        )  # fmt: skip
        return percentile(sample.ack_us, 99) / 1e3

    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(produce)


def _column(
    kafka: list[tuple[float, float]], ottla: list[tuple[float, float]], at: int
) -> tuple[list[float], list[float]]:
    return [sample[at] for sample in kafka], [sample[at] for sample in ottla]


def tls_start(arena: Arena) -> list[Row]:
    """As `start`, with TLS, SASL and an authorizer."""
    rows = works.start(arena)
    return [
        Row(f"{row.work}, TLS and authorizer", row.figure, row.unit, row.kafka, row.ottla,
            Goal(below=0.7))
        for row in rows
    ]  # fmt: skip


def guarded(work: Callable[[Arena, Pair], list[Row]]) -> Callable[[Arena, Pair], list[Row]]:
    """Rows of a work with Ottla on both sides, guarded on the second: its share of the first."""

    def run(arena: Arena, pair: Pair) -> list[Row]:
        rows = []
        for row in work(arena, pair):
            if row.unit == "/s":
                goal = Goal(at_least=0.97)
                shares = [b / a for a, b in zip(row.kafka, row.ottla, strict=True)]
                rows.append(Row(row.work, f"share of the rate {GUARDED}", "x", [], shares, goal))
            else:
                more = [b - a for a, b in zip(row.kafka, row.ottla, strict=True)]
                goal = Goal(below=1.0)
                rows.append(Row(row.work, f"more broker CPU {GUARDED}", row.unit, [], more, goal))
        return rows

    return run
