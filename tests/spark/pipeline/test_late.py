"""Rows later than the watermark: counted, told to the audit, and kept where that is asked for."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.audit.check import check
from ottla.audit.events import AUDIT_TOPIC, Event, Tier
from ottla.client import Client
from pyspark_ottla.pipeline.checking import load
from pyspark_ottla.pipeline.problems import WrongFileError

from .running import committed, event, headers, read, run, send

PIPELINE = """\
pipeline: p
checkpoint: s
audit: true
sources:
  c:
    topic: {topic}
    format: json
    schema: id INT NOT NULL, at TIMESTAMP
    dead_letters: {topic}.dead
    watermark: {{column: at, delay: 10 minutes, late: {late}}}
steps:
  minutes: |
    SELECT window.start AS minute, count(*) AS clicks FROM c GROUP BY window(at, '1 minute')
sinks:
  windows: {{from: minutes, topic: "{topic}.minutes"}}
"""


def test_late_rows_are_counted_told_and_kept_once(
    spark: SparkSession, client: Client, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(PIPELINE.format(topic=topic, late="dead_letters"))
    send(client, topic, [event(1, "a", "10:00:00"), event(2, "a", "12:00:00")])
    assert run(spark, file, bootstrap)["windows"].late == 0
    # The watermark is 11:50 now.
    late = [event(4, "a", "09:00:00"), event(5, "a", "11:30:00"), event(6, "a", "11:55:00")]
    send(client, topic, [*late, "broken"])
    done = run(spark, file, bootstrap)
    assert done["windows"].late == 2
    letters = {headers(row)["ottla.reason"]: row for row in read(spark, bootstrap, f"{topic}.dead")}
    kept = [row for row in read(spark, bootstrap, f"{topic}.dead") if b"09:" in row["value"]]
    assert len(kept) == 1
    reason = "at is before the watermark of the sink windows, 2026-11-16T11:50:00.000Z"
    assert set(letters) == {reason, "the value is not JSON"}
    assert headers(kept[0])["ottla.offset"] == "2"
    assert len(read(spark, bootstrap, f"{topic}.dead")) == 3
    told = [Event.decode(value) for value in committed(client, AUDIT_TOPIC)]
    of_topic = [each for each in told if each.topic == topic]
    assert [each.dropped for each in of_topic if each.dropped] == [2]
    notes = check(of_topic, now=max(each.time for each in of_topic), topic=topic).notes
    assert (
        f"{topic}: spark-source p.windows dropped 2 rows that were later than its watermark"
        in notes
    )


def test_late_rows_need_a_topic_to_go_to(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    text = PIPELINE.format(topic="t", late="dead_letters").replace("    dead_letters: t.dead\n", "")
    file.write_text(text)
    with pytest.raises(
        WrongFileError, match=r"p\.yaml:9: source c: late: dead_letters needs dead_l"
    ):
        load(str(file))
    text = PIPELINE.format(topic="t", late="drop")
    step = (
        "{dead_letters: t, sql: SELECT id FROM c, watermark: {column: id, delay: 1 minute, late: "
    )
    file.write_text(text[: text.index("steps:")] + f"steps:\n  minutes: {step}dead_letters}}}}\n")
    with pytest.raises(WrongFileError, match="step minutes: late is for the watermarks of sources"):
        load(str(file))
    file.write_text(PIPELINE.format(topic="t", late="keep"))
    with pytest.raises(
        WrongFileError, match=r"p\.yaml:10: source c: watermark: late cannot be keep"
    ):
        load(str(file))


def test_a_dropped_row_that_is_told_twice_counts_once() -> None:
    told = [
        Event(Tier.SPARK_SOURCE, "p.out", "q/late", "t", sequence, None, 1, 1, dropped=number)
        for sequence, number in ((3, 2), (4, 5), (3, 2))
    ]
    assert check(told, now=2).notes == [
        "t: spark-source p.out dropped 7 rows that were later than its watermark"
    ]
