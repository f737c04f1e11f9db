"""The fault harness in short: one fault of each main kind, under the whole load.

The same with many more faults is `make faults`.
"""

from pathlib import Path

import pytest

from faults.plan import Fault, Kind, Role, Step
from faults.run import run
from faults.world import LAG_SECONDS, SESSION_SECONDS

LONGER_THAN_A_SESSION = SESSION_SECONDS + 1.5
SEED = 6
MUCH_SECONDS = 1.0


def alone(kind: Kind, role: Role, seconds: float, *, silent: bool = False) -> Step:
    return Step(calm=0.5, faults=(Fault(kind, role, seconds, silent, 0),), apart=0.0, settle=True)


@pytest.mark.long
def test_nothing_is_lost_doubled_or_out_of_order_whatever_happens_to_one(tmp_path: Path) -> None:
    plan = [
        alone(Kind.KILL, Role.LEADER, LONGER_THAN_A_SESSION),
        # A broker that loses its session must get into every ISR again, also of what is idle.
        alone(Kind.CUT_STORE, Role.LEADER, LONGER_THAN_A_SESSION, silent=True),
        alone(Kind.DISK, Role.LEADER, LAG_SECONDS / 2),
        alone(Kind.KILL, Role.SERVER_LEADER, 0.0),
        alone(Kind.CLOCK, Role.LEADER, 1.0),
        alone(Kind.EMPTY, Role.BROKER, LONGER_THAN_A_SESSION),
        alone(Kind.RECREATE, Role.CLUSTER, 0.0),
        alone(Kind.REASSIGN, Role.CLUSTER, 0.0),
        alone(Kind.TRIM, Role.CLUSTER, 0.0),
    ]
    said: list[str] = []
    report = run(tmp_path / "run", SEED, "zookeeper", 120.0, said.append, plan)
    assert report.findings == [], "\n".join(said)
    assert report.faults == len(plan)
    if report.stalled < MUCH_SECONDS:  # a machine that stands still says nothing of time
        assert report.late == []
        assert not (tmp_path / "run").exists()
