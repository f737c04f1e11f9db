"""The arithmetic of the bench: percentiles, ratios, and what was the limit of a run. Pure."""

from collections.abc import Sequence
from math import ceil
from statistics import median

__all__ = ["limit", "median", "percentile", "ratio"]

# A share of the time from which on something counts as busy throughout. Not 1.0: a run's first
# and last moments, and the tick that CPU time is counted in, take their part.
BUSY = 0.85


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of all values do not exceed (nearest rank)."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    return ordered[max(ceil(len(ordered) * percent / 100), 1) - 1]


def ratio(ottla: float, kafka: float) -> float:
    """How many times Kafka's figure Ottla's is."""
    return ottla / kafka if kafka else float("inf")


def limit(client_thread: float, broker: float, machine: float, cores: int) -> str:
    """What held a run back; shares are CPU seconds for each second of the run.

    `client` is its busiest thread, `broker` all of the broker (Kafka answers a connection's
    requests one by one, Ottla has one thread), `machine` every process there is. Where none of
    them is busy throughout, time went into waiting: for each other or for the disk.
    """
    if client_thread >= BUSY:
        return "client"
    if broker >= BUSY:
        return "broker"
    return "machine" if machine >= BUSY * cores else "waiting"
