"""What a sink wrote is reported to the audit once, by whatever finishes a batch: it agrees with the
log."""

from collections.abc import Callable, Iterator

import pytest

from ottla.audit.counts import Counts
from ottla.audit.events import Tier
from ottla.client import Client
from ottla.client.transactional import Transactions
from ottla.embedded import Broker
from pyspark_ottla.sink import task
from pyspark_ottla.sink.batch_commit import abort_write, commit_write
from pyspark_ottla.sink.fence import Fence
from pyspark_ottla.sink.marker import Done
from pyspark_ottla.sink.messages import Task, TaskReport
from pyspark_ottla.sink.plain_report import report_rows
from pyspark_ottla.sink.steps import CommitStep
from pyspark_ottla.sink.task import write_at_least_once, write_in_batch
from tests.audit.auditing import COUNTING, Audited, between, produced, stored
from tests.spark.sink.acting import Run, arrow, end, listed, prepare, settings, told, visible
from tests.spark.sink.dying import Between, Moment, die_at

ROWS = [["a", "b"], ["c"], ["d", "e", "f"], []]
ALL = ["a", "b", "c", "d", "e", "f"]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker that counts as well."""
    with Broker(config=COUNTING) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    return new_topic(partitions=2)


@pytest.fixture
def run(bootstrap: str, topic: str) -> Run:
    return Run(settings(bootstrap, topic, audit="true", auditName="orders"), f"sink-{topic}")


def restarted(run: Run) -> Run:
    return Run(run.options, run.sink)


def assert_counted(bootstrap: str, topic: str, rows: int) -> None:
    """So many rows are produced and stored, and none is missing, doubled or late."""
    report = Audited(bootstrap).report_when(
        topic, lambda report: produced(report) >= rows and stored(report) >= rows
    )
    assert (produced(report), stored(report)) == (rows, rows)
    assert between(report) == (0, 0, 0)
    assert report.notes == []


def test_a_batch_is_told_as_it_is_stored(
    bootstrap: str, client: Client, topic: str, run: Run
) -> None:
    run.batch(4, ROWS)
    assert_counted(bootstrap, topic, 6)
    (event,) = told(client, topic)
    assert (event.name, event.instance, event.sequence) == ("orders", run.sink, 4)


def test_rows_count_by_the_brokers_time_where_the_topic_has_that(
    bootstrap: str,
    client: Client,
    new_topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A batch lies in the window in which it arrived, not in that in which it was made."""
    topic = new_topic(message_timestamp_type="LogAppendTime")
    monkeypatch.setattr(task, "_now_ms", lambda: 1_000_000)
    Run(settings(bootstrap, topic, audit="true"), f"sink-{topic}").batch(0, ROWS)
    assert_counted(bootstrap, topic, 6)
    (event,) = told(client, topic)
    assert all(window > 1_000_000 for _, window, _, _ in event.counts)


def test_two_batches_of_one_window_add_up(
    bootstrap: str, client: Client, topic: str, run: Run
) -> None:
    run.batch(0, ROWS)
    run.batch(1, [["g"]])
    assert_counted(bootstrap, topic, 7)
    assert [event.sequence for event in told(client, topic)] == [0, 1]


def test_an_aborted_batch_counts_nothing(
    bootstrap: str, client: Client, topic: str, run: Run
) -> None:
    run.abort(0, run.tasks(0, ROWS))
    restarted(run).batch(0, [["a"]])
    assert_counted(bootstrap, topic, 1)


@pytest.mark.parametrize(
    "death",
    [
        CommitStep.PREPARED,
        Between.HALF_ENDED,
        CommitStep.ENDED,
        CommitStep.DONE_WRITTEN,
        CommitStep.DONE,
    ],
)
def test_a_batch_counts_once_wherever_its_driver_died(
    bootstrap: str,
    client: Client,
    topic: str,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    death: Moment,
) -> None:
    reports = run.tasks(0, ROWS)

    def die() -> None:
        raise KeyboardInterrupt

    die_at(death, die, monkeypatch.setattr)
    with pytest.raises(KeyboardInterrupt):
        run.commit(0, reports)
    monkeypatch.undo()
    restarted(run).batch(0, ROWS)
    assert visible(client, topic) == ALL
    assert_counted(bootstrap, topic, 6)


def test_a_repaired_batch_counts_what_was_kept_too(
    bootstrap: str, client: Client, topic: str, run: Run
) -> None:
    prepared = prepare(client, run, 0, run.tasks(0, ROWS))
    end(client, prepared.written[:1], commit=True)
    end(client, prepared.written[1:], commit=False)
    restarted(run).batch(0, ROWS)
    assert visible(client, topic) == ALL
    assert_counted(bootstrap, topic, 6)


def test_rows_that_are_written_at_least_once_are_told_after_the_batch(
    bootstrap: str, client: Client, topic: str
) -> None:
    options = settings(bootstrap, topic, audit="true", guarantee="at-least-once")
    for batch in range(2):
        tasks = [write_at_least_once(options, "a-query", arrow(values)) for values in ROWS]
        report_rows(options, tasks, batch)
    assert_counted(bootstrap, topic, 12)
    names = [(event.name, event.instance, event.sequence) for event in told(client, topic)]
    assert names == [("a-query", "a-query", 0), ("a-query", "a-query", 1)]


def write_job(run: Run) -> list[TaskReport]:
    return [
        write_in_batch(run.options, Task(run.sink, run.run, run.run, 0, partition), arrow(values))
        for partition, values in enumerate(ROWS)
    ]


def test_a_batch_job_is_told_when_it_is_committed(
    bootstrap: str, client: Client, topic: str, run: Run
) -> None:
    commit_write(run.options, write_job(run))
    assert_counted(bootstrap, topic, 6)
    (event,) = told(client, topic)
    assert (event.name, event.instance, event.sequence) == ("orders", run.run, 0)


def test_a_batch_job_that_its_abort_finishes_is_reported(
    bootstrap: str, client: Client, topic: str, run: Run
) -> None:
    reports = write_job(run)
    end(client, listed(reports)[:1], commit=True)
    abort_write(run.options, reports, sink=run.sink, run=run.run, all_reported=True)
    assert_counted(bootstrap, topic, 6)


def test_a_batch_is_committed_though_the_audit_cannot_be_told(
    client: Client,
    topic: str,
    run: Run,
    new_topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    too_small = new_topic(max_message_bytes="10")
    monkeypatch.setattr("pyspark_ottla.sink.fence.AUDIT_TOPIC", too_small)
    run.batch(0, ROWS)
    run.batch(1, [["g"]])
    assert visible(client, topic) == [*ALL, "g"]
    assert caplog.text.count(f"failed to write audit events for {topic}") == 2


def test_the_audit_is_reported_in_transactions_of_version_1_too(
    client: Client, topic: str, run: Run
) -> None:
    counts = Counts()
    counts.add(topic, 0, 0)
    fence = Fence.take(client, Transactions(client, version=1), run.sink)
    for batch in range(2):
        event = counts.event(
            topic,
            tier=Tier.SPARK_SINK,
            name="orders",
            instance=run.sink,
            sequence=batch,
            next=None,
            time=0,
        )
        fence.decide(Done(batch, run.run), [event])
    assert [event.sequence for event in told(client, topic)] == [0, 1]
