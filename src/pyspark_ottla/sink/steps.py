"""The steps of the protocol, by name, so that a test can kill a process at each of them.

Nothing happens at a step: `reached` does nothing unless the program that runs puts another
function in its place (`steps.reached = ...`), which only tests do. No option or environment
variable gets here.
"""

from enum import StrEnum


class CommitStep(StrEnum):
    """What has just been done, or is about to be."""

    TASK_BEGUN = "task: the transactional id is taken, nothing is written"
    TASK_HALF_WRITTEN = "task: some batches are written"
    TASK_WRITTEN = "task: all is acknowledged, the report is not returned"
    FENCED = "commit: the fence is taken, the marker is not read"
    CHECKED = "commit: all transactions are open, nothing is decided"
    PREPARED_WRITTEN = "commit: PREPARED is written, its transaction is open"
    PREPARED = "commit: PREPARED is committed, no transaction is ended"
    ENDED = "commit: all transactions are ended, DONE is not written"
    DONE_WRITTEN = "commit: DONE is written, its transaction is open"
    DONE = "commit: DONE is committed, nothing is swept"
    SWEPT = "commit: all is done, Spark does not know"
    ABORT_FENCED = "abort: the fence is taken, the marker is not read"
    ABORTED = "abort: the listed transactions are aborted, nothing is swept"


def _nothing(step: CommitStep) -> None:
    """What happens at a step."""


reached = _nothing
