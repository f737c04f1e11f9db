"""kill -9 under load: the short version of `python -m compat --only kill`."""

from compat import kill
from tests.e2e.conftest import OwnBroker

ROUNDS = 4


def test_nothing_acknowledged_is_lost_or_doubled(own_broker: OwnBroker) -> None:
    kill.run(own_broker(), ROUNDS, seed=1)


def test_small_segments_are_recovered_too(own_broker: OwnBroker) -> None:
    kill.run(own_broker({"log.segment.bytes": "1048576"}), 2, seed=2)
