"""A broker that counts, and what the audit says of a topic, in numbers."""

import time
from collections.abc import Callable

from ottla.audit.check import AuditReport, check
from ottla.cli.audit import read_events
from ottla.client import Admin, Client
from testkit.waiting import until

INTERVAL_MS = 200
COUNTING = {"ottla.audit.enable": True, "ottla.audit.interval.ms": INTERVAL_MS}


class Audited:
    """A broker whose tier counts."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def create(self, topic: str, partitions: int = 1, **settings: str) -> None:
        """Make a topic."""
        with Client(self.bootstrap) as client:
            configs = {name.replace("_", "."): value for name, value in settings.items()}
            Admin(client).create_topic(topic, partitions=partitions, settings=configs)

    def report(self, topic: str) -> AuditReport:
        """What the audit says now."""
        with Client(self.bootstrap) as client:
            events, unreadable = read_events(client, 0)
        assert unreadable == 0
        return check(events, now=time.time_ns() // 1_000_000, topic=topic)

    def report_when(self, topic: str, claim: Callable[[AuditReport], bool]) -> AuditReport:
        """What the audit says once a claim holds; after a while also where it does not."""
        reports: list[AuditReport] = []

        def is_so() -> bool:
            reports.append(self.report(topic))
            return claim(reports[-1])

        try:
            until(is_so, f"the audit of {topic}")
        except TimeoutError:
            pass  # the test tells what is wrong with the report
        return reports[-1]


def produced(report: AuditReport) -> int:
    return sum(row.produced or 0 for row in report.rows)


def stored(report: AuditReport) -> int:
    return sum(row.stored or 0 for row in report.rows)


def between(report: AuditReport) -> tuple[int, int, int]:
    """Missing, duplicate and late between producers and the log."""
    rows = report.rows
    return (
        sum(row.missing for row in rows),
        sum(row.duplicate for row in rows),
        sum(row.late for row in rows),
    )


def of_consumer(report: AuditReport, name: str) -> tuple[int, int, int, int]:
    """Consumed, missing, duplicate and late of one consumer."""
    parts = [each for row in report.rows for each in row.consumers if each.name == name]
    return (
        sum(part.consumed for part in parts),
        sum(part.missing for part in parts),
        sum(part.duplicate for part in parts),
        sum(part.late for part in parts),
    )
