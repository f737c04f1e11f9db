"""The arithmetic of the bench: percentiles, ratios, and what was the limit of a run. Pure."""

from collections.abc import Sequence
from math import ceil
from statistics import median

__all__ = ["limit", "median", "percentile", "ratio"]

# A thread that computes for this share of the time has no time left to wait for anyone. Not 1.0:
# a run's first and last moments, and the tick that CPU time is counted in, take their part.
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


def limit(busiest_client_thread: float, client_cpu: float, broker_cpu: float, cores: int) -> str:
    """Who held a run back: shares are CPU seconds for each second of the run.

    `machine` means that client and broker together used all the cores, so that a cheaper broker
    would have left the client more.
    """
    if busiest_client_thread >= BUSY:
        return "client"
    if client_cpu + broker_cpu >= BUSY * cores:
        return "machine"
    return "broker"
