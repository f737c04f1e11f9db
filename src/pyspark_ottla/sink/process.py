"""What a Python process of Spark remembers from one batch to the next.

Rules kept here:
1. Nothing is remembered across a fork: a child that used its parent's ids would write to its
   parent's transactions.
2. A state belongs to one run of a sink: runs do not see each other's, though their tasks may come
   by turns (batch jobs of one application share their processes).
3. All of it can be lost: a process may end at any time, and another one continues. A state that was
   lost and is recreated has transactional ids of its own: those it had may be open.
"""

import os
from dataclasses import dataclass, field
from uuid import uuid4

from ottla.client.transactional import TransactionKey
from pyspark_ottla.sink.names import IdPool
from pyspark_ottla.sink.resolving import Resolved

MOST_RUNS = 64
"""A process of a long session sees many queries come and go: those used last are kept."""


@dataclass
class RunState:
    """What is known of one run of a sink."""

    ids: IdPool
    resolved: Resolved | None = None
    """What the marker said when this process first saw the run."""
    fence: TransactionKey | None = None
    """The fence, where this process has it."""


@dataclass
class _Process:
    pid: int = field(default_factory=os.getpid)
    runs: dict[tuple[str, str, str], RunState] = field(default_factory=dict)
    """By cluster, sink and run; the one that was used last is the last."""


_process = _Process()


def state_of(bootstrap_servers: str, sink: str, run: str) -> RunState:
    """The state of a run in this process."""
    global _process
    if _process.pid != os.getpid():
        _process = _Process()
    runs, key = _process.runs, (bootstrap_servers, sink, run)
    state = runs.pop(key, None) or RunState(IdPool(sink, run, uuid4().hex))
    runs[key] = state
    while len(runs) > MOST_RUNS:
        del runs[next(iter(runs))]
    return state


def forget_fence(bootstrap_servers: str, sink: str, run: str) -> None:
    """After a failure nobody knows what the fence's key is."""
    state_of(bootstrap_servers, sink, run).fence = None
