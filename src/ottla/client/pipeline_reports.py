"""Reports of running pipelines: what their queries do, in the compacted topic `_ottla_pipelines`.

Rules kept here:
1. A record is a report of one pipeline: the key is its name, the value a JSON document. A newer one
   replaces an older one.
2. A reader takes what it understands: fields that it does not know are ignored, records that are no
   reports are skipped. It looks at the end of the topic only, up to a limit.
"""

from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

from ottla.client.admin import EARLIEST, LATEST, Admin
from ottla.client.cluster import Client
from ottla.client.consumer import Reader
from ottla.client.producer import Producer
from ottla.wire.errors import ErrorCode, KafkaError

PIPELINES_TOPIC: Final = "_ottla_pipelines"
REPORT_SECONDS: Final = 10.0
"""A running pipeline reports this often."""
LOOKED_AT: Final = 50_000
"""Records at the end of each partition that a reader looks at."""
LONGEST_ERROR: Final = 2000


class State(StrEnum):
    """What a pipeline, or one of its queries, does."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


class QueryReport(Struct, frozen=True):
    """One query: the rows of one sink, or of a source's dead letters."""

    name: str
    target: str = ""
    """Where its rows go, for people."""
    rows: int = 0
    rows_per_second: float = 0.0
    lag: int | None = None
    """Records that the topics hold and it has not read; None where that is not known."""
    late: int = 0
    batches: int = 0
    restarts: int = 0
    dead_letters: bool = False
    """Whether its rows are dead letters."""
    running: bool = True


class PipelineReport(Struct, frozen=True):
    """One pipeline; times are milliseconds since 1970."""

    pipeline: str
    state: State
    started: int
    time: int
    host: str = ""
    queries: tuple[QueryReport, ...] = ()
    error: str = ""

    @property
    def lag(self) -> int | None:
        """The largest lag of a query: each reads its sources by itself."""
        return max((each.lag for each in self.queries if each.lag is not None), default=None)

    @property
    def rows_per_second(self) -> float:
        """Of all queries that write good rows."""
        return sum(each.rows_per_second for each in self.queries if not each.dead_letters)

    @property
    def dead_letters(self) -> int | None:
        """Records that could not be read, since it was started; None without such a query."""
        known = [each.rows for each in self.queries if each.dead_letters]
        return sum(known) if known else None


def make_topic(client: Client) -> None:
    """Create the topic, unless it exists; raises KafkaError."""
    try:
        Admin(client).create_topic(
            PIPELINES_TOPIC, partitions=1, settings={"cleanup.policy": "compact"}
        )
    except KafkaError as problem:
        if problem.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


def send_report(client: Client, report: PipelineReport) -> None:
    """Write a report; raises KafkaError."""
    with Producer(client) as producer:
        producer.send(PIPELINES_TOPIC, msgspec.json.encode(report), key=report.pipeline.encode())


def decode(value: bytes) -> PipelineReport:
    """A report; msgspec.DecodeError or UnicodeDecodeError where it is none."""
    return msgspec.json.decode(value, type=PipelineReport)


def read_reports(client: Client, looked_at: int = LOOKED_AT) -> list[PipelineReport]:
    """The last report of each pipeline, by name. Raises UnknownTopic where none has reported."""
    admin = Admin(client)
    partitions = admin.partitions(PIPELINES_TOPIC)
    last = admin.list_offsets(dict.fromkeys(partitions, LATEST))
    firsts = admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
    ends = {at: last[at].offset for at in partitions}
    starts = {at: max(firsts[at].offset, end - looked_at) for at, end in ends.items()}
    found: dict[bytes, PipelineReport] = {}
    with Reader(client, starts, until=ends) as reader:
        for batch in reader:
            for record in batch.records:
                if record.key is None:
                    continue
                found.pop(record.key, None)
                try:
                    found[record.key] = decode(record.value or b"")
                except (msgspec.DecodeError, UnicodeDecodeError):
                    continue  # a tombstone, or no report
    return sorted(found.values(), key=lambda report: report.pipeline)
