"""The fuzzer's short version; a million inputs are `python -m compat --only fuzz`."""

from pathlib import Path

from compat.fuzz import SETTINGS, Fuzzer
from tests.e2e.conftest import OwnBroker

INPUTS = 5_000


def test_no_input_brings_the_broker_down(own_broker: OwnBroker, tmp_path: Path) -> None:
    Fuzzer(own_broker(SETTINGS), seed=1, failures=tmp_path / "failures").run(INPUTS)
