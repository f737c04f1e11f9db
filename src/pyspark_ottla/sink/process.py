"""What a Python process of Spark remembers from one batch to the next.

Rules kept here:
1. Nothing is remembered across a fork: a child that used its parent's ids would write to its
   parent's transactions.
2. A sink's state belongs to one run; with a new run it begins anew.
3. All of it can be lost: a process may end at any time, and another one goes on.
"""

import os
from dataclasses import dataclass, field
from uuid import uuid4

from ottla.client.transactional import TransactionKey
from pyspark_ottla.sink.names import IdPool
from pyspark_ottla.sink.resolving import Resolved

MOST_SINKS = 64
"""A process of a long session sees many queries come and go."""


@dataclass
class RunState:
    """What is known of one run of a sink."""

    run: str
    ids: IdPool
    resolved: Resolved | None = None
    """What the marker said when this process first saw the run."""
    fence: TransactionKey | None = None
    """The fence, where this process has it."""


@dataclass
class _Process:
    pid: int = field(default_factory=os.getpid)
    worker: str = field(default_factory=lambda: uuid4().hex)
    sinks: dict[tuple[str, str], RunState] = field(default_factory=dict)


_process = _Process()


def state_of(bootstrap_servers: str, sink: str, run: str) -> RunState:
    """The state of a run in this process."""
    global _process
    if _process.pid != os.getpid():
        _process = _Process()
    sinks = _process.sinks
    state = sinks.get((bootstrap_servers, sink))
    if state is None or state.run != run:
        state = sinks[bootstrap_servers, sink] = RunState(run, IdPool(sink, run, _process.worker))
        while len(sinks) > MOST_SINKS:
            del sinks[next(iter(sinks))]
    return state


def forget_fence(bootstrap_servers: str, sink: str, run: str) -> None:
    """After a failure nobody knows what the fence's key is."""
    state_of(bootstrap_servers, sink, run).fence = None
