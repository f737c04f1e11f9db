"""Who used the processors."""

import re
import subprocess
import sys
from pathlib import Path

from faults import processors
from faults.processors import Shares
from testkit.waiting import until


def share(said: str, kind: str) -> int:
    found = re.search(rf"{kind} (-?\d+) %", said)
    assert found is not None, said
    return int(found[1])


def used(process: "subprocess.Popen[bytes]") -> float:
    return processors._seconds(Path(f"/proc/{process.pid}"))


def test_who_works_is_seen_and_who_was_killed_does_not_count_against_the_rest() -> None:
    spin = [sys.executable, "-c", "while True: pass", "ottla serve"]
    with subprocess.Popen(spin) as old, subprocess.Popen(spin) as busy:
        try:
            until(lambda: used(old) > 0.3, "one has worked for a while")
            shares = Shares()
            before = used(busy)
            old.kill()
            old.wait()
            until(lambda: used(busy) > before + 0.1, "the other one works")
            assert share(shares.look(), "brokers") > 10
        finally:
            old.kill()
            busy.kill()
