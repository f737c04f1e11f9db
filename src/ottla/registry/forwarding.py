"""Requests that only the writer can answer, sent on to it.

Rules kept here:
1. A request is sent on once: the header `X-Forward` says that it was, and a registry that gets one
   and is not the writer refuses it. A writer that is gone is as good as none.
2. The answer goes back as it is. Where the writer says at which offset its record is, this registry
   answers once it has read it: a client reads what it wrote.
"""

import asyncio
import http.client
import ssl
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from msgspec import Struct

from ottla.registry.election import Identity
from ottla.registry.errors import forwarding_failed, unknown_leader

FORWARDED: Final = "x-forward"
OFFSET: Final = "x-schemas-offset"
SECONDS: Final = 30.0
THREADS: Final = 8


class Forwarded(Struct, frozen=True):
    """What the writer answered."""

    status: int
    body: bytes
    offset: int | None


class Forwarder:
    """Sends requests on, from threads."""

    def __init__(self, ca_file: str | None = None) -> None:
        self._ca_file = ca_file
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="forwarder")

    def close(self) -> None:
        """Stop the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def send(
        self, writer: Identity, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> Forwarded:
        """One request to the writer; 50003 where it does not answer."""
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, self._send, writer, method, target, headers, body
            )
        except ConnectionRefusedError:
            raise unknown_leader() from None  # it is gone, and has got nothing
        except (OSError, http.client.HTTPException) as problem:
            raise forwarding_failed(f"{writer.url}: {problem}") from None

    def _send(
        self, writer: Identity, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> Forwarded:
        connection: http.client.HTTPConnection
        if writer.scheme == "https":
            context = ssl.create_default_context(cafile=self._ca_file)
            connection = http.client.HTTPSConnection(
                writer.host, writer.port, timeout=SECONDS, context=context
            )
        else:
            connection = http.client.HTTPConnection(writer.host, writer.port, timeout=SECONDS)
        try:
            connection.request(method, target, body, {**headers, FORWARDED: "true"})
            reply = connection.getresponse()
            offset = reply.headers.get(OFFSET, "")
            return Forwarded(reply.status, reply.read(), int(offset) if offset.isdigit() else None)
        finally:
            connection.close()
