"""What the broker counts, in plain integers that cost nothing to raise.

Names are those that Kafka's metrics have in Prometheus through the usual JMX exporter rules,
so that existing dashboards keep working. `exposition.py` turns these into text when asked.
"""

from bisect import bisect_left
from typing import Final
from uuid import UUID

LATENCY_BUCKETS: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip


class Histogram:
    """Counts by latency bucket."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(LATENCY_BUCKETS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(LATENCY_BUCKETS, seconds)] += 1
        self.total += seconds


class TopicMetrics:
    """One topic's traffic through this broker."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "messages_out",
        "produces",
    )

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.messages_in = 0
        self.messages_out = 0
        self.produces = 0
        self.fetches = 0
        self.failed_produces = 0
        self.failed_fetches = 0


class ReplicaMetrics:
    """Changes of leadership and of in-sync replicas that this broker decided."""

    __slots__ = ("_unclean_epochs", "isr_expands", "isr_shrinks", "unclean_elections")

    def __init__(self) -> None:
        self.isr_expands = 0
        self.isr_shrinks = 0
        self.unclean_elections = 0
        self._unclean_epochs: dict[tuple[UUID, int], int] = {}

    def isr_changed(self, before: int, after: int) -> None:
        """The ISR of a partition that this broker leads has grown or shrunk."""
        self.isr_expands += after > before
        self.isr_shrinks += after < before

    def elected(self, topic_id: UUID, index: int, unclean_epoch: int, *, here: bool) -> None:
        """A partition's last unclean election had this epoch; `here`: this is the controller.

        An epoch that is known already, and one from before this broker's start, counts nothing.
        """
        if unclean_epoch >= 0 and self._unclean_epochs.get((topic_id, index)) != unclean_epoch:
            self._unclean_epochs[topic_id, index] = unclean_epoch
            self.unclean_elections += here


class BrokerTopicMetrics(dict[str, TopicMetrics]):
    """The counters of all topics, by name."""

    def of(self, topic: str) -> TopicMetrics:
        """The counters of a topic, which begin now if there are none."""
        found = self.get(topic)
        if found is None:
            found = self[topic] = TopicMetrics()
        return found


class NetworkMetrics:
    """Connections, and requests by API."""

    def __init__(self) -> None:
        self.connections = 0
        self.failed_authentications = 0
        self.offloaded = 0
        self.accepted = 0
        self.bytes_received = 0
        self.bytes_sent = 0
        self.requests: dict[int, Histogram] = {}

    def received(self, size: int) -> None:
        """Bytes came in."""
        self.bytes_received += size

    def answered(self, api_key: int, seconds: float, size: int = 0) -> None:
        """A request was answered, so long after it was read, with this many bytes."""
        self.bytes_sent += size
        histogram = self.requests.get(api_key)
        if histogram is None:
            histogram = self.requests[api_key] = Histogram()
        # As observe() does, without a call more for every request.
        histogram.counts[bisect_left(LATENCY_BUCKETS, seconds)] += 1
        histogram.total += seconds
