"""The world of one seed: the loop, the network, ZooKeeper, the trace, and what went wrong.

Rules kept here:
1. Parts that make choices have generators of their own, made from the seed: what one of them does
   more or less changes nothing for the others.
2. The trace is all that was logged and all that arrived, with its time; its digest stands for it.
3. A violation ends the run: what comes after it means nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, MutableMapping
from pathlib import Path
from random import Random
from typing import Any, Final

from ottla.simulation.loop import SimulatedLoop
from ottla.simulation.network import Network
from ottla.simulation.process import PROCESS
from ottla.simulation.zookeeper_server import ZooKeeperServer

UNEXPECTED: Final = (
    "request failed; closing the connection",
    "background task failed; retrying",
    "failed to send responses; closing the connection",
)


class Violation(Exception):  # noqa: N818 it names what happened
    """Something happened that must never happen."""


class World:
    """What a run consists of, beside its brokers and clients."""

    def __init__(self, seed: int, folder: Path, show: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self._folder = str(folder)
        """Where the disks lie; it has another name each time, so the trace leaves it out."""
        self._show = show
        self._digest = hashlib.sha256()
        self.loop = SimulatedLoop(Random(f"{seed} threads"))
        self.network = Network(self.loop, Random(f"{seed} network"))
        self.zookeeper = ZooKeeperServer(self.loop)
        self.violation: str | None = None
        self.counts: dict[str, int] = {}
        """How often things happened: faults, acknowledged records, elections."""
        self.loop.set_exception_handler(self._unhandled)
        self.network.on_arrival = self._arrived

    def chance(self, name: str) -> Random:
        """A generator of its own for some part."""
        return Random(f"{self.seed} {name}")

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self.loop.time() - 1000

    @property
    def digest(self) -> str:
        """What the trace was, in short."""
        return self._digest.hexdigest()[:16]

    def count(self, what: str, by: int = 1) -> None:
        """Something happened."""
        self.counts[what] = self.counts.get(what, 0) + by

    def say(self, text: str) -> None:
        """Write a line of the trace."""
        line = f"{self.now:10.4f} {text.replace(self._folder, '')}"
        self._digest.update(line.encode())
        if self._show is not None:
            self._show(line)

    def fail(self, what: str) -> None:
        """Note a violation, and end the run."""
        if self.violation is None:
            self.violation = f"at {self.now:.3f}: {what}"
            self.say(f"VIOLATION: {what}")
            self.loop.stop()

    def check(self, claim: object, what: str) -> None:
        """Fail where a claim is not true."""
        if not claim:
            self.fail(what)

    def _arrived(self, way: tuple[str, str]) -> None:
        self._digest.update(f"{self.loop.time():.6f}{way[0]}{way[1]}".encode())

    def log(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
        """structlog's last processor."""
        process = PROCESS.get()
        name = "-" if process is None else process.name
        what = event.pop("event")
        trouble = event.pop("exception", None)
        facts = " ".join(f"{key}={value}" for key, value in event.items())
        self.say(f"{name} {method}: {what} {facts}")
        if trouble is not None or what in UNEXPECTED:
            self.fail(f"{name} logged: {what} {facts}\n{trouble or ''}")
        return ""

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        problem = context.get("exception")
        text = f"{context['message']}: {problem!r}"
        if problem is not None:
            import traceback

            text += "\n" + "".join(traceback.format_exception(problem))
        self.fail(text)
