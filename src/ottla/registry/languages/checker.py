"""The registry's side of the child process that works on schemas.

Rules kept here:
1. The child is started with the first request, and again after it died.
2. A request has a time limit: a child that does not answer in time is killed, and the schema is
   refused. So is one that the child died of.
3. Requests are answered one after another.
4. Canonical texts are remembered: clients register the same schemas again and again.
"""

import asyncio
import sys
from collections import OrderedDict
from typing import Final

import msgspec

from ottla.registry.errors import invalid_schema
from ottla.registry.languages import SchemaSource
from ottla.registry.languages.worker import LENGTH, Answer, Compare, Format, Parse, Request

TIME_LIMIT_SECONDS: Final = 10.0
START_SECONDS: Final = 30.0
REMEMBERED: Final = 1000
LONGEST_REMEMBERED: Final = 64 * 1024


class Checker:
    """Parses, compares and formats schemas in a child process."""

    def __init__(self, time_limit: float = TIME_LIMIT_SECONDS) -> None:
        self._time_limit = time_limit
        self._child: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()
        self._known: OrderedDict[Request, str] = OrderedDict()

    async def parse(self, kind: str, source: SchemaSource, *, normalize: bool) -> str:
        """The canonical text; 42201 where it is not a schema."""
        return await self._text(Parse(kind, source, normalize))

    async def format(self, kind: str, source: SchemaSource, style: str) -> str:
        """Another form of the text."""
        return await self._text(Format(kind, source, style))

    async def compare(
        self,
        kind: str,
        new: SchemaSource,
        old: list[SchemaSource],
        *,
        backward: bool,
        forward: bool,
    ) -> list[list[str]]:
        """What is incompatible with each old schema."""
        answer = await self._ask(Compare(kind, new, old, backward, forward))
        if answer.messages is None:
            raise invalid_schema(answer.error or "no answer")
        return answer.messages

    async def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is not None and child.returncode is None:
            child.kill()
            await child.wait()

    async def _text(self, request: Parse | Format) -> str:
        known = self._known.get(request)
        if known is not None:
            self._known.move_to_end(request)
            return known
        answer = await self._ask(request)
        if answer.text is None:
            raise invalid_schema(answer.error or "no answer")
        if len(request.source.text) <= LONGEST_REMEMBERED:
            self._known[request] = answer.text
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return answer.text

    async def _ask(self, request: Request) -> Answer:
        async with self._lock:
            try:
                child = await self._started()
                async with asyncio.timeout(self._time_limit):
                    return await _exchange(child, request)
            except TimeoutError:
                await self.close()
                raise invalid_schema(
                    f"it could not be checked within {self._time_limit:g} seconds"
                ) from None
            except (asyncio.IncompleteReadError, ConnectionError, OSError):
                await self.close()
                raise invalid_schema("the process that checks schemas died of it") from None
            except asyncio.CancelledError:
                await self.close()  # its answer would be taken for that of the next request
                raise

    async def _started(self) -> asyncio.subprocess.Process:
        if self._child is None or self._child.returncode is not None:
            self._child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # the working directory is not where modules come from
                "-m",
                "ottla.registry.languages.worker",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=1 << 24,
            )
            async with asyncio.timeout(START_SECONDS):
                # A first, empty exchange: the time limit is for schemas, not for the start.
                await _exchange(self._child, Compare("AVRO", SchemaSource(""), [], False, False))
        return self._child


async def _exchange(child: asyncio.subprocess.Process, request: Request) -> Answer:
    assert child.stdin is not None
    assert child.stdout is not None
    body = msgspec.msgpack.encode(request)
    child.stdin.write(LENGTH.pack(len(body)) + body)
    await child.stdin.drain()
    (size,) = LENGTH.unpack(await child.stdout.readexactly(LENGTH.size))
    return msgspec.msgpack.decode(await child.stdout.readexactly(size), type=Answer)
