"""Kafka Streams 4.3.0 as a streams group: three instances, one killed. `make compat` repeats it."""

import pytest

from compat import streams_groups
from testkit import java_runtime


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_word_is_counted_once_though_an_instance_is_killed() -> None:
    java_runtime.prepare()
    assert "words counted once" in streams_groups.run(2_000)
