"""Whether a query that failed is started again from its checkpoint (pure).

Rules kept here:
1. What the data, the file or a broker has caused would come again: it ends the pipeline at once.
   Only where Spark's own machinery failed (a Python process of it has died, a task could not be
   sent) a query is started again. Exactly once holds as after any other death.
2. Not for ever: a query that fails several times, without having finished a batch in between, ends
   the pipeline with its last failure.
"""

import re

from pyspark_ottla.pipeline.failures import of_spark

MOST_IN_A_ROW = 5
"""Spark has several Python processes for a query (planning, offsets, tasks, commits): where all are
gone at once, it notices one after another."""
MACHINERY = re.compile(
    r"Task not serializable"
    r"|Python worker exited unexpectedly"
    r"|Python worker failed to connect back"
    r"|java\.io\.EOFException"
    r"|java\.net\.SocketException"
    r"|java\.io\.IOException: (Stream closed|Connection reset|Broken pipe)"
)
PYTHON_ERROR = "Traceback (most recent call last):"


class Restarts:
    """The failures of one query."""

    def __init__(self) -> None:
        self.in_a_row = 0
        self._batches = 0

    def allow(self, failure: str, batches: int) -> bool:
        """Whether to continue after a failure, with this many batches finished up to it."""
        if batches > self._batches:
            self._batches = batches
            self.in_a_row = 0
        inner = of_spark(failure)
        if PYTHON_ERROR in inner or not MACHINERY.search(inner):
            return False
        self.in_a_row += 1
        return self.in_a_row <= MOST_IN_A_ROW
