"""A child process of the broker: one of our own modules, spoken to in lines over its pipes.

Rules kept here:
1. Nothing of Python runs between fork and exec. uvloop's own way of starting processes clears the
   other threads' data in the forked child first, and what is cleared there may act on descriptors
   that the parent shares: with the broker embedded in a process that runs PySpark, that shut down
   PySpark's connection to its JVM.
2. A child ends with the broker: it reads its standard input, whose end is closed then, and it never
   outlives `end`.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Final

LONGEST_LINE: Final = 64 << 10


class Child:
    """A running child; `start` makes one."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        stdin: asyncio.StreamWriter,
        stdout: asyncio.StreamReader,
        reading: asyncio.ReadTransport,
    ) -> None:
        self.stdin: Final = stdin
        self.stdout: Final = stdout
        self.pid: Final = process.pid
        self._process = process
        self._reading = reading

    @classmethod
    async def start(cls, module: str, *, longest_line: int = LONGEST_LINE) -> Child:
        """Run a module; OSError where that cannot be done."""
        loop = asyncio.get_running_loop()
        process = _spawn(module)
        assert process.stdin is not None
        assert process.stdout is not None
        stdout = asyncio.StreamReader(limit=longest_line)
        reading, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stdout), process.stdout
        )
        writing, protocol = await loop.connect_write_pipe(
            lambda: asyncio.streams.FlowControlMixin(), process.stdin
        )
        stdin = asyncio.StreamWriter(writing, protocol, None, loop)
        return cls(process, stdin, stdout, reading)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """Nothing, where it has ended already."""
        self._process.kill()

    async def end(self) -> None:
        """Kill it, and wait until it is gone."""
        self.kill()
        self.stdin.close()
        self._reading.close()
        await asyncio.get_running_loop().run_in_executor(None, self._process.wait)


def _spawn(module: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # what ends the broker at a terminal is for the broker alone
    )
