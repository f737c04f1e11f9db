"""What is good for Spark's Python processes, which run one task after another.

Spark collects garbage after each task. With all that Spark, Arrow and this package have imported,
looking through it takes about 50 ms, more than many a task: what is there once everything is
imported is no garbage, and is set aside.
"""

import gc
import os

_settled = 0
"""The process that has done so: a forked one has to do it for itself."""


def settle() -> None:
    """Set aside what this process has imported, once. Call it when the imports are done."""
    global _settled
    if _settled != os.getpid():
        _settled = os.getpid()
        gc.collect()
        gc.freeze()
