"""What is good for Spark's Python processes, which run one task after another.

Spark collects garbage after each task. With all that Spark, Arrow and this package have imported,
looking through it takes about 50 ms, more than many a task: what is there once everything is
imported is no garbage, and is set aside.
"""

import gc
import os

TIMES = 3
"""What Spark and Arrow import at their first use comes after the first task's imports."""

_settled = (0, 0)
"""The process that has done so, and how often: a forked one has to do it for itself."""


def settle() -> None:
    """Set aside what this process has imported, in its first tasks. Call it after the imports."""
    global _settled
    pid, times = _settled
    if pid != os.getpid():
        times = 0
    if times < TIMES:
        _settled = os.getpid(), times + 1
        gc.collect()
        gc.freeze()
