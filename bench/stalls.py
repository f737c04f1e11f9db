"""Stalls: how long a small produce waits while something heavy continues beside it.

The heavy things: a log read from the disk because it is not in the page cache, several readers
of a whole log, another process that writes and fsyncs on the same disk, thousands of idle
connections; each alone, and all of them together. A round is a stream of single small messages at
a low rate, and its figure the 99th percentile of the time to their acknowledgement.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from bench import disk, topics
from bench.arena import Arena, Pair
from bench.rows import Goal, Row
from bench.sizes import (
    HISTORY_BYTES,
    HISTORY_PARTITIONS,
    IDLE_CONNECTIONS,
    LATENCY_RATE,
    MESSAGE_BYTES,
    SCANNERS,
)
from bench.stats import percentile
from testkit.probe import idle_connections
from testkit.server import Server

HISTORY = "history"
PROBE = "probe"
WORK = "small produce, p99"
GOAL = Goal(below=20.0)
# Longer than any round: a scan is ended, it does not end.
SCAN_SECONDS = 3_600

Disturbance = Callable[[Arena, Server], AbstractContextManager[None]]


def stalls(arena: Arena, pair: Pair) -> list[Row]:
    """A row for each disturbance, and one for quiet as the measure of the machine."""
    for server in pair:
        arena.say(f"stalls: filling {server.name}")
        topics.create(server, PROBE)
        topics.create(server, HISTORY, HISTORY_PARTITIONS)
        arena.client.produce(
            server,
            HISTORY,
            messages=arena.sizes.history,
            size=HISTORY_BYTES,
            partitions=HISTORY_PARTITIONS,
        )
    return [_row(arena, pair, name, disturbance, goal) for name, disturbance, goal in DISTURBANCES]


def _row(arena: Arena, pair: Pair, name: str, disturbance: Disturbance, goal: Goal) -> Row:
    def once(server: Server, _: int) -> float:
        with disturbance(arena, server):
            sample = arena.client.latency(
                server,
                PROBE,
                messages=LATENCY_RATE * arena.sizes.stall_seconds,
                rate=LATENCY_RATE,
                size=MESSAGE_BYTES,
                consume=0,
            )
        return percentile(sample.ack_us, 99) / 1e3

    def show(sample: float) -> str:
        return f"p99 {sample:.2f} ms"

    rounds = arena.sizes.stall_rounds
    kafka, ottla = arena.take_turns(f"stalls, {name}", pair, once, show, rounds, warm_up=0)
    return Row(WORK, name, "ms", kafka, ottla, goal)


@contextmanager
def _quiet(_arena: Arena, _server: Server) -> Iterator[None]:
    yield


@contextmanager
def _cold(arena: Arena, server: Server) -> Iterator[None]:
    with disk.kept_cold(server.segments(HISTORY)), _readers(arena, server, 1):
        yield


@contextmanager
def _scan(arena: Arena, server: Server) -> Iterator[None]:
    disk.warm(server.segments(HISTORY))
    with _readers(arena, server, SCANNERS):
        yield


@contextmanager
def _storm(arena: Arena, _server: Server) -> Iterator[None]:
    with disk.fsync_storm(arena.folder):
        yield


@contextmanager
def _idle(_arena: Arena, server: Server) -> Iterator[None]:
    with idle_connections(server.port, IDLE_CONNECTIONS):
        yield


@contextmanager
def _all(arena: Arena, server: Server) -> Iterator[None]:
    with (
        _idle(arena, server),
        _storm(arena, server),
        disk.kept_cold(server.segments(HISTORY)),
        _readers(arena, server, SCANNERS),
    ):
        yield


def _readers(arena: Arena, server: Server, count: int) -> AbstractContextManager[None]:
    return arena.client.scans(
        count, server, HISTORY, partitions=HISTORY_PARTITIONS, seconds=SCAN_SECONDS
    )


DISTURBANCES: list[tuple[str, Disturbance, Goal]] = [
    ("nothing else", _quiet, Goal()),
    ("cold log", _cold, GOAL),
    (f"{SCANNERS} scans of the log", _scan, GOAL),
    ("fsync storm", _storm, GOAL),
    (f"{IDLE_CONNECTIONS:,} idle connections", _idle, GOAL),
    ("all of these", _all, GOAL),
]
