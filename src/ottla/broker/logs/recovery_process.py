"""The child process that recovers logs after an unclean stop (see `log/recovery/`).

Rules kept here:
1. One log at a time: an order goes in as a line of JSON, the answer comes back as one.
2. A child that dies (killed, or out of memory) is replaced and the log tried again, which
   recovery can always be; a log that `ATTEMPTS` children died of is given up, not the rest.
3. It never outlives `end`, and never works on a log after `leave` of it: that is known by its path,
   which may be another log's a moment later.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from ottla.broker.logs.child import Child

ATTEMPTS: Final = 3


class RecoveryProcess:
    """A child that is started when it is needed."""

    def __init__(self) -> None:
        self._child: Child | None = None
        self._directory: str | None = None
        """Of the log that is being recovered."""
        self._ending = asyncio.Lock()

    async def recover(self, order: Mapping[str, Any]) -> dict[str, Any] | None:
        """Have one log recovered; the answer has `error` where that failed.

        None where the log was left.
        """
        self._directory = order["directory"]
        try:
            for _ in range(ATTEMPTS):
                answer = await self._try(order)
                if self._directory is None:
                    return None
                if answer is not None:
                    return answer
        finally:
            self._directory = None
        # With an errno, though of no error: that a child ends says nothing about the log.
        return {"error": f"the recovery process ended unexpectedly, {ATTEMPTS} times", "errno": 0}

    async def leave(self, directories: Collection[str]) -> None:
        """Stop working on these logs; when this returns, nothing works on them."""
        if self._directory in directories:
            self._directory = None
            await self.end()

    async def _try(self, order: Mapping[str, Any]) -> dict[str, Any] | None:
        """None where the child died of it, or before."""
        line = b""
        try:
            child = self._child = self._child or await Child.start("ottla.log.recovery")
            if self._directory is None:
                return None
            child.stdin.write(json.dumps(order).encode() + b"\n")
            await child.stdin.drain()
            line = await child.stdout.readline()
        except ConnectionError:
            line = b""
        except OSError as problem:
            await self.end()
            return {
                "error": f"failed to start the recovery process: {problem}",
                "errno": problem.errno,
            }
        if not line:
            await self.end()
            return None
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def end(self) -> None:
        """End the child, if there is one."""
        async with self._ending:
            child, self._child = self._child, None
            if child is not None:
                await child.end()
