"""Who uses the processors while the faults go on: who measures must not starve who is measured.

A client library that spins takes time from brokers and ZooKeeper, and so does the host of a virtual
machine. Both look like an unavailable cluster. So the share of each is noted in the run's log.
"""

import os
from collections import defaultdict
from pathlib import Path
from time import monotonic

TICKS = os.sysconf("SC_CLK_TCK")
STOLEN_AT = 7
"""Its place among the figures of a `cpu` line."""


class Shares:
    """Seconds of processor time by kind of process, since the last look."""

    def __init__(self) -> None:
        self._before = _used()
        self._at = monotonic()

    def look(self) -> str:
        """In percent of one core, as "harness 60 %, brokers 31 %, ..."."""
        now, at = _used(), monotonic()
        passed = max(at - self._at, 0.001)
        shares: defaultdict[str, float] = defaultdict(float)
        for (kind, process), seconds in now.items():
            # One that was killed since takes what it used with it, and no more.
            shares[kind] += 100 * (seconds - self._before.get((kind, process), 0.0)) / passed
        self._before, self._at = now, at
        return ", ".join(f"{kind} {shares[kind]:.0f} %" for kind in sorted(shares))


def _used() -> dict[tuple[str, str], float]:
    """Seconds by kind and process."""
    used: dict[tuple[str, str], float] = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                used[_kind(process), process.name] = _seconds(process)
            except (OSError, ValueError, IndexError):
                continue  # it has ended
    stolen = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1 + STOLEN_AT]
    used["stolen", ""] = int(stolen) / TICKS
    return used


def _kind(process: Path) -> str:
    if process.name == str(os.getpid()):
        return "harness"
    command = (process / "cmdline").read_bytes().replace(b"\0", b" ")
    if b"ottla serve" in command:
        return "brokers"
    if b"zookeeper" in command:
        return "ZooKeeper"
    return "others"


def _seconds(process: Path) -> float:
    after_name = (process / "stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / TICKS
