"""A connection to another broker: one request, then its answer.

TLS and SASL between brokers belong here, where the connection is made.
"""

from __future__ import annotations

import asyncio
from itertools import count
from struct import Struct
from typing import Final, Self, TypeVar

from ottla.cluster.documents import Endpoint
from ottla.wire import codec
from ottla.wire.fields import DecodeError
from ottla.wire.headers import read_response_header, write_request_header
from ottla.wire.message import Message

M = TypeVar("M", bound=Message)

CLIENT_ID: Final = "ottla-broker"
LARGEST_ANSWER: Final = 1 << 30
_SIZE: Final = Struct(">i")
_BUFFER: Final = 1 << 20


class LinkError(Exception):
    """The other broker cannot be asked: it is not there, is silent, or answers nonsense."""


class Link:
    """An open connection. Every failure closes it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._numbers = count()

    @classmethod
    async def open(cls, where: Endpoint, seconds: float) -> Self:
        """Connect; raises LinkError."""
        try:
            async with asyncio.timeout(seconds):
                return cls(*await asyncio.open_connection(where.host, where.port, limit=_BUFFER))
        except (OSError, TimeoutError) as problem:
            raise LinkError(f"{where.host}:{where.port}: {str(problem) or 'no answer'}") from None

    async def ask(self, request: Message, answer: type[M], version: int, seconds: float) -> M:
        """Send a request and wait for its answer; raises LinkError."""
        try:
            async with asyncio.timeout(seconds):
                return await self._ask(request, answer, version)
        except (OSError, EOFError, DecodeError, TimeoutError) as problem:
            self.close()
            raise LinkError(str(problem) or "no answer") from None
        except BaseException:
            self.close()
            raise

    async def _ask(self, request: Message, answer: type[M], version: int) -> M:
        number = next(self._numbers)
        head = write_request_header(request.API_KEY, version, number, CLIENT_ID)
        body = codec.encode(request, version)
        self._writer.write(b"".join((_SIZE.pack(len(head) + len(body)), head, body)))
        (size,) = _SIZE.unpack(await self._reader.readexactly(_SIZE.size))
        if not 0 <= size <= LARGEST_ANSWER:
            raise DecodeError(f"an answer of {size} bytes")
        data = await self._reader.readexactly(size)
        found, at = read_response_header(memoryview(data), request.API_KEY, version)
        if found != number:
            raise DecodeError(f"answer {found} to request {number}")
        return codec.decode(answer, version, data, at)

    def close(self) -> None:
        """Let go of the connection."""
        self._writer.close()
