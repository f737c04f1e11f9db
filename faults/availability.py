"""Whether the cluster takes writes, moment by moment, and how long it did not.

Rules kept here:
1. One writer for each partition asks for acks=all, a record at a time, as a patient client with
   short timeouts would: it asks any broker for the leader, and tries again until the answer is yes.
   So what is measured is the cluster, and not the patience of a client library.
2. A gap is the time between two acknowledgements. What counts for a fault begins at the fault.
3. Every acknowledged record is remembered, to be looked for at the end.
"""

import math
import threading
import time
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import count, pairwise

from ottla.wire.fields import DecodeError
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from testkit.batches import values
from testkit.raw import ClosedError, Connection

PATIENCE_SECONDS = 0.5
PAUSE_SECONDS = 0.025
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0, 30.0)
BAR = 40
PROBLEMS = (OSError, ClosedError, DecodeError, AssertionError)


class Probe:
    """Writes to one partition, and remembers when that went well."""

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        self._addresses = bootstrap.split(",")
        self._topic = topic
        self._partition = partition
        self._connection: Connection | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"probe-{partition}", daemon=True)
        self.acknowledged_at = array("d")
        self.acknowledged = array("q")

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for that."""
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        for number in count():
            if self._end.is_set():
                break
            if self._write(number):
                self.acknowledged_at.append(time.monotonic())
                self.acknowledged.append(number)
                self._end.wait(PAUSE_SECONDS)
            else:
                self._close()
        self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _write(self, number: int) -> bool:
        request = ProduceRequest(
            acks=-1,
            timeout_ms=int(PATIENCE_SECONDS * 1000),
            topic_data=[
                TopicProduceData(
                    name=self._topic,
                    partition_data=[
                        PartitionProduceData(index=self._partition, records=values(b"%d" % number))
                    ],
                )
            ],
        )
        try:
            if self._connection is None:
                self._connection = self._connect_to_leader()
            answer = self._connection.ask(request, ProduceResponse, 12)
        except PROBLEMS:
            return False
        refused = answer.responses[0].partition_responses[0].error_code
        if refused:
            self._end.wait(PAUSE_SECONDS)
        return not refused

    def _connect_to_leader(self) -> Connection:
        address = self._addresses[0]
        try:
            with Connection(address, PATIENCE_SECONDS) as connection:
                request = MetadataRequest(
                    topics=[MetadataRequestTopic(name=self._topic)],
                    allow_auto_topic_creation=False,
                )
                found = connection.ask(request, MetadataResponse, 12)
        except PROBLEMS:
            self._addresses = [*self._addresses[1:], address]
            raise
        where = {each.node_id: f"{each.host}:{each.port}" for each in found.brokers}
        for part in found.topics[0].partitions:
            if part.partition_index == self._partition and part.leader_id in where:
                if where[part.leader_id] != address:
                    # Someone else may know of a newer leader, if this one does not answer.
                    self._addresses = [*self._addresses[1:], address]
                return Connection(where[part.leader_id], PATIENCE_SECONDS)
        self._end.wait(PAUSE_SECONDS)
        self._addresses = [*self._addresses[1:], address]
        raise OSError("nobody leads")


def longest_gap(
    acknowledged_at: Sequence[float], began: float, ended: float, following: float = math.inf
) -> float:
    """The longest time without an acknowledgement, of what lies after `began`.

    A gap that is open at `ended` counts as long as it lasts, but not past the beginning of the
    `following` fault: from there on it is that one's.
    """
    first = bisect_right(acknowledged_at, began)
    last = bisect_right(acknowledged_at, ended)
    moments = [began, *acknowledged_at[first:last]]
    # What came soon after the end closes the last gap, wherever it began.
    closed = acknowledged_at[last] if last < len(acknowledged_at) else ended
    moments.append(min(closed, max(ended, following)))
    return max(after - before for before, after in pairwise(moments))


def quantile(sorted_values: Sequence[float], share: float) -> float:
    """The value that a share of all does not exceed."""
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))]


def histogram(gaps: Iterable[float]) -> list[str]:
    """A bar for each bucket that has something in it or between others."""
    counts = [0] * (len(BUCKETS) + 1)
    for gap in gaps:
        counts[bisect_right(BUCKETS, gap)] += 1
    used = [place for place, number in enumerate(counts) if number]
    if not used:
        return []
    most = max(counts)
    lines = []
    for place in range(used[0], used[-1] + 1):
        name = f"< {BUCKETS[place]:g} s" if place < len(BUCKETS) else f">= {BUCKETS[-1]:g} s"
        bar = "#" * -(-counts[place] * BAR // most)
        lines.append(f"{name:>9} {counts[place]:>6} {bar}")
    return lines
