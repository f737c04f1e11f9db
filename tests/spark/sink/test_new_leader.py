"""A new leader whose high watermark follows: what it does not show yet is not gone (KIP-207)."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.client import Client, ClientSettings
from ottla.client.admin import LATEST
from ottla.wire.errors import ErrorCode
from ottla.wire.message import Message
from ottla.wire.messages.fetch import FetchResponse, PartitionData
from ottla.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from pyspark_ottla.sink.errors import SinkError
from pyspark_ottla.sink.marker import Done
from pyspark_ottla.sink.marker_log import read_marker
from pyspark_ottla.sink.proof import prove
from pyspark_ottla.sink.recovery import Proof
from tests.spark.sink.acting import Run, end, listed, settings

Change = Callable[[PartitionData], None]


def hide(data: PartitionData) -> None:
    """As a leader answers whose high watermark is at the log's start."""
    data.records, data.high_watermark, data.last_stable_offset = None, 0, 0


def shows(monkeypatch: pytest.MonkeyPatch, change: Change, *, after: int | None) -> None:
    """Change what fetches show until a leader was asked for its end `after` times; before that, it
    does not know it.
    """
    real: Any = Client.call
    asked = 0

    def call(self: Client, request: Message, *more: Any, **named: Any) -> Message:
        nonlocal asked
        reply: Message = real(self, request, *more, **named)
        if isinstance(request, ListOffsetsRequest) and isinstance(reply, ListOffsetsResponse):
            if request.topics[0].partitions[0].timestamp == LATEST and after is not None:
                asked += 1
                if asked < after:
                    reply.topics[0].partitions[0].error_code = ErrorCode.OFFSET_NOT_AVAILABLE
        elif isinstance(reply, FetchResponse) and (after is None or asked < after):
            change(reply.responses[0].partitions[0])
        return reply

    monkeypatch.setattr(Client, "call", call)


@pytest.fixture
def run(bootstrap: str, topic: str) -> Run:
    return Run(settings(bootstrap, topic), f"sink-{topic}")


def test_a_finished_batch_is_seen_though_the_markers_leader_shows_nothing_at_first(
    client: Client, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.batch(0, [["a"]])
    shows(monkeypatch, hide, after=3)
    assert read_marker(client, run.sink).decision == Done(0, run.run, run.query, 1)


def test_a_marker_that_its_leader_never_shows_is_an_error_that_says_where_it_stopped(
    bootstrap: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.batch(0, [["a"]])
    shows(monkeypatch, hide, after=None)
    impatient = ClientSettings(bootstrap_servers=bootstrap, deadline=0.2)
    with Client(impatient) as client, pytest.raises(SinkError) as caught:
        read_marker(client, run.sink)
    assert "topic __ottla_sink_markers could not be read: it ends at offset" in str(caught.value)
    assert "nothing came from offset" in str(caught.value)


def test_a_marker_whose_last_records_were_compacted_away_has_been_read(
    client: Client, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.batch(0, [["a"]])

    def empty(data: PartitionData) -> None:
        data.records = None

    shows(monkeypatch, empty, after=None)
    assert read_marker(client, run.sink).decision is None


@pytest.mark.parametrize("commit", [True, False])
def test_a_transactions_end_is_found_though_the_leader_shows_nothing_at_first(
    client: Client, run: Run, monkeypatch: pytest.MonkeyPatch, commit: bool
) -> None:
    (written,) = listed(run.tasks(0, [["a"]]))
    end(client, [written], commit=commit)
    shows(monkeypatch, hide, after=3)
    assert prove(client, written) is (Proof.COMMITTED if commit else Proof.ABORTED)
