"""The child process that recovers logs after an unclean stop (see `log/recovery.py`).

Rules kept here:
1. One log at a time: an order goes in as a line of JSON, the answer comes back as one.
2. A child that dies takes one log's recovery with it, not the rest: the next order starts another.
3. It never outlives `end`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ottla.broker.child import Child


class RecoveryProcess:
    """A child that is started when it is needed."""

    def __init__(self) -> None:
        self._child: Child | None = None

    async def recover(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Have one log recovered; the answer has `error` where that failed."""
        line = b""
        try:
            child = self._child = self._child or await Child.start("ottla.log.recovery")
            child.stdin.write(json.dumps(order).encode() + b"\n")
            await child.stdin.drain()
            line = await child.stdout.readline()
        except OSError as problem:
            await self.end()
            return {"error": f"no recovery process: {problem}"}
        if not line:
            await self.end()
            return {"error": "the recovery process ended unexpectedly"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def end(self) -> None:
        """End the child, if there is one."""
        child, self._child = self._child, None
        if child is not None:
            await child.end()
