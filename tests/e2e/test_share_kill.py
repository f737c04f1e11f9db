"""kill -9 around a share group on three brokers: in short what `python -m compat` does."""

import sys
from pathlib import Path

import pytest

from compat import share_kill
from compat.java_process import EventProcess
from testkit.workers import WorkersProcess


def member(bootstrap: str, group: str, topic: str) -> EventProcess:
    program = (sys.executable, "-m", "testkit.share_member_program")
    return EventProcess("confluent-kafka", [*program, bootstrap, group, topic])


@pytest.mark.long
def test_every_record_is_delivered_and_none_again_after_its_acknowledgement(
    tmp_path: Path,
) -> None:
    with WorkersProcess(tmp_path / "cluster", share_kill.SETTINGS) as cluster:
        share_kill.run(cluster, member, len(share_kill.KINDS), seed=1)
        assert not cluster.tracebacks()
