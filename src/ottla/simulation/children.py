"""Child processes of a simulated broker: the real code of recovery and compaction, as steps of
the loop.

Rules kept here:
1. A child reads and writes its broker's disk, and ends with its broker.
2. A request takes a time that the seed chooses; meanwhile the broker continues.
3. A child may be killed before it answers: what it has written stays.
"""

from __future__ import annotations

import asyncio
import io
from random import Random
from typing import Final

from ottla.log.compaction.child import PacedFiles
from ottla.log.compaction.child import main as compact
from ottla.log.recovery.child import main as recover

SECONDS: Final = (0.005, 0.5)


class _Input:
    """The child's standard input."""

    def __init__(self, child: SimulatedChild) -> None:
        self._child = child

    def write(self, data: bytes) -> None:
        self._child.take(data)

    async def drain(self) -> None:
        await asyncio.sleep(0)

    def close(self) -> None:
        self._child.kill()


class SimulatedChild:
    """Has the interface of `ottla.broker.logs.child.Child`."""

    chance: Random

    def __init__(self, module: str, limit: int) -> None:
        self.stdin = _Input(self)
        self.stdout = asyncio.StreamReader(limit=limit)
        self.pid = 0
        self._module = module
        self._unread = b""
        self._running = True
        self._works = False
        self._lines: list[str] = []

    @classmethod
    async def start(cls, module: str, *, longest_line: int = 64 << 10) -> SimulatedChild:
        """Run a module."""
        await asyncio.sleep(cls.chance.uniform(*SECONDS))
        return cls(module, longest_line)

    @property
    def is_running(self) -> bool:
        return self._running

    def take(self, data: bytes) -> None:
        """Requests, a line each."""
        *lines, self._unread = (self._unread + data).split(b"\n")
        self._lines += [line.decode() + "\n" for line in lines]
        self._next()

    def _next(self) -> None:
        if self._lines and not self._works and self._running:
            self._works = True
            seconds = self.chance.uniform(*SECONDS)
            asyncio.get_running_loop().call_later(seconds, self._work, self._lines.pop(0))

    def _work(self, line: str) -> None:
        self._works = False
        if not self._running:
            return
        replies = io.StringIO()
        if self._module == "ottla.log.recovery":
            recover([line], replies)
        else:
            assert self._module == "ottla.log.compaction", self._module
            files = PacedFiles(lambda: True, asyncio.get_running_loop().time, lambda _: None)
            compact(io.StringIO(line), replies, files)
        self.stdout.feed_data(replies.getvalue().encode())
        self._next()

    def kill(self) -> None:
        """Nothing, where it has ended already."""
        if self._running:
            self._running = False
            self.stdout.feed_eof()

    async def end(self) -> None:
        """Kill it, and wait until it is gone."""
        self.kill()
        await asyncio.sleep(0)
