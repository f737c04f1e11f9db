"""One run for each checkpoint: locks on this machine's disk.

Spark itself notices two runs on one checkpoint when both write the file of the same batch. With the
checkpoint files of `session` it looks whether the file is there, and then renames its own to it: of
two that look at the same moment both would continue. A lock leaves no such moment, and says so at
once.

Rules kept here:
1. There is a lock for each query, beside its folder in the checkpoint: two pipelines may share a
   checkpoint as long as they share no query.
2. The system gives a lock back when its process ends, however that was. The file stays.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyspark_ottla.pipeline.checking import query_names
from pyspark_ottla.pipeline.model import Pipeline
from pyspark_ottla.pipeline.places import is_local, local_path, resolve
from pyspark_ottla.pipeline.problems import PipelineError


@contextmanager
def locked(pipeline: Pipeline) -> Iterator[None]:
    """Hold the locks of all queries, if the checkpoint is on this machine; PipelineError where
    another run has one of them.
    """
    with ExitStack() as held:
        if pipeline.checkpoint is not None:
            folder = resolve(pipeline.checkpoint, pipeline.path)
            if is_local(folder):
                for query in query_names(pipeline):
                    held.enter_context(_lock(local_path(folder), query))
        yield


@contextmanager
def _lock(folder: Path, query: str) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{query}.lock"
    opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(opened, 20).decode(errors="replace").strip()
            raise PipelineError(
                f"sink {query}: its checkpoint {folder / query} is in use by "
                f"another run (process {holder or 'unknown'}); stop it first"
            ) from None
        os.ftruncate(opened, 0)
        os.pwrite(opened, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(opened)
