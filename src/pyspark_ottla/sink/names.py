"""The transactional ids of a sink (pure).

Rules kept here:
1. A worker's id belongs to one process, of one run of a query, and to one task at a time. It is
   used again only in a later batch of the same run: a late one can harm only its own.
2. So there are as many ids as tasks run at once, not as many as there are tasks.
3. Batch writes with a number (sinkId and batchId) are a run each, and would have new ids each time:
   their ids have NUMBERED in the run's place, and are used again for later batches of the sink.
4. Patterns match a whole id of this sink and of no other, whatever its name.
"""

import re

FENCE_PREFIX = "ottla-fence."
NUMBERED = "numbered"


def fence_id(sink: str) -> str:
    """The id that only the run that decides for a sink has."""
    return FENCE_PREFIX + sink


def worker_id(sink: str, run: str, worker: str, number: int) -> str:
    """The id of a task's transaction."""
    return f"ottla.{sink}.{run}.{worker}.{number}"


def pattern(sink: str, run: str | None) -> str:
    """What matches the workers' ids of a sink: of one run, or of all."""
    run_pattern = "[^.]+" if run is None else re.escape(run)
    return rf"ottla\.{re.escape(sink)}\.{run_pattern}\.[^.]+\.[0-9]+"


class IdPool:
    """The ids of one worker process in one run."""

    def __init__(self, sink: str, run: str, worker: str) -> None:
        self._sink = sink
        self._run = run
        self._worker = worker
        self._batch = -1
        self._next = 0

    def take(self, batch: int) -> str:
        """An id that nothing else of this batch, or of a later one, has."""
        if batch > self._batch:
            self._batch, self._next = batch, 0
        number = self._next
        self._next += 1
        return worker_id(self._sink, self._run, self._worker, number)
