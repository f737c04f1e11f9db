"""Recovery as a child process: `python -m ottla.log.recovery`.

Rules kept here:
1. A busy Python thread would stall the broker's loop, so a long scan runs in a process of its own.
   After it the partition is opened as after a clean stop.
2. It reads one JSON object a line (see main) and answers each with one; its log goes to stderr.
3. It ends at once when its standard input does: the next broker may have opened the same logs.
"""

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TextIO

import structlog

from ottla.log.config import LogConfig
from ottla.log.recovery.recovery import recover
from ottla.log.segments.scan import CorruptLog
from ottla.log.storage.file_cache import FileCache
from ottla.log.storage.files import Files
from ottla.wire.errors import KafkaError


def main(requests: Iterable[str], replies: TextIO) -> None:
    """Recover one partition for each line of JSON, and answer it with a line of JSON.

    A request has `directory`, `recovery_point`, `start_offset` and, where they differ from the
    defaults, the log's settings under `config`. A reply repeats `directory` and adds either what
    `Recovered` says or `error`, with the `errno` of what the system refused.
    """
    for line in requests:
        request = json.loads(line)
        reply: dict[str, object] = {"directory": request["directory"]}
        settings = dict(request.get("config", {}))
        if "cleanup_policy" in settings:
            settings["cleanup_policy"] = frozenset(settings["cleanup_policy"])
        files = Files()
        try:
            log, recovered = recover(
                Path(request["directory"]),
                LogConfig(**settings),
                files=files,
                cache=FileCache(64, files),
                recovery_point=request["recovery_point"],
                start_offset=request["start_offset"],
                now=time.time_ns() // 1_000_000,
            )
            log.close()
        except (CorruptLog, OSError, KafkaError) as problem:
            refused = problem.__cause__ if isinstance(problem, KafkaError) else problem
            reply["error"] = str(problem)
            reply["errno"] = getattr(refused, "errno", None)
        else:
            reply |= asdict(recovered) | {"recovery_point": recovered.end_offset}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def _orders(requests: TextIO) -> Iterator[str]:
    """The lines, as long as there is a writer.

    The process ends at once when its input does: the broker was killed, and the next one may have
    opened the same logs.
    """
    lines: SimpleQueue[str] = SimpleQueue()

    def listen() -> None:
        for line in requests:
            lines.put(line)
        os._exit(0)

    Thread(target=listen, daemon=True).start()
    while True:
        yield lines.get()


def _log_to_stderr() -> None:
    """Log to stderr, as the broker does: stdout is for replies."""
    is_for_people = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S" if is_for_people else "iso"),
            structlog.dev.ConsoleRenderer(pad_event_to=0)
            if is_for_people
            else structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def run() -> None:
    """Serve the broker that started this process."""
    _log_to_stderr()
    main(_orders(sys.stdin), sys.stdout)
