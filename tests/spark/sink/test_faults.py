"""kill -9 of a Python worker, of the driver and of the broker, while Spark copies a topic.

The same with many more kills is a part of `make compat`.
"""

from pathlib import Path

import pytest

from compat import spark_faults
from testkit.process import BrokerProcess

# Each kill is waited for as long as the load of the machine asks for.
pytestmark = pytest.mark.timeout(900)

KILLS = 3


@pytest.mark.parametrize(
    "by_foreach_batch",
    [
        pytest.param(False, id="stream"),
        pytest.param(True, id="foreachBatch", marks=pytest.mark.long),
    ],
)
def test_every_record_is_copied_once_whatever_is_killed(
    tmp_path: Path, by_foreach_batch: bool
) -> None:
    with BrokerProcess(tmp_path / "broker", spark_faults.SETTINGS) as broker:
        seen = spark_faults.run(broker, tmp_path, KILLS, seed=5, by_foreach_batch=by_foreach_batch)
    assert "each once; kills: 1 of a broker, 1 of a driver, 1 of a worker" in seen
