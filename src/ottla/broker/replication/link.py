"""A connection to another broker: one request, then its answer.

Rules kept here:
1. An answer is received into memory that serves the next one too, for what is replicated is
   received at high rates: memory that is new costs more than the copy into it.
2. What is received unasked, or is no answer, ends the connection.
3. A connection is made with TLS and a login where the listener between brokers asks for them; the
   login is renewed before its session ends.
"""

from __future__ import annotations

import asyncio
from itertools import count
from struct import Struct
from typing import Final, Self, TypeVar, cast

from ottla.broker.replication.link_security import LinkSecurity, WrongBroker
from ottla.config.errors import ConfigError
from ottla.metadata.documents import BrokerEndpoint
from ottla.security.mechanism import ClientMechanism, LoginFailed
from ottla.wire import codec
from ottla.wire.fields import DecodeError
from ottla.wire.headers import read_response_header, write_request_header
from ottla.wire.message import Message
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

M = TypeVar("M", bound=Message)

CLIENT_ID: Final = "ottla-broker"
LARGEST_ANSWER: Final = 1 << 30
FIRST_MEMORY: Final = 1 << 16
MOST_KEPT: Final = 4 << 20
"""Memory that is kept for the next answer; what a larger one needs is let go after it."""
RENEW_AFTER: Final = 0.85
"""A login is renewed after this part of its session, as Kafka's clients do."""
_SIZE: Final = Struct(">i")


class LinkError(Exception):
    """The other broker cannot be asked: it is not there, is silent, or answers nonsense."""


class _Receiver(asyncio.BufferedProtocol):
    """Receives one answer at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self._view = memoryview(bytearray(FIRST_MEMORY))
        self._filled = 0
        self._expected: asyncio.Future[memoryview] | None = None
        self._ended: Exception | None = None

    def expect(self) -> asyncio.Future[memoryview]:
        """The next answer; the memory of the last one is used again."""
        if len(self._view) > MOST_KEPT:
            self._view = memoryview(bytearray(FIRST_MEMORY))
        self._filled = 0
        self._expected = asyncio.get_running_loop().create_future()
        if self._ended is not None:
            self._expected.set_exception(self._ended)
        return self._expected

    @property
    def is_open(self) -> bool:
        """False once the connection has ended, or is about to."""
        return self._ended is None and not self.transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._expected is None:
            return memoryview(bytearray(1))  # the answer before may still be in use
        return self._view[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        expected = self._expected
        if expected is None:
            self._end(DecodeError("unexpected response"))
            return
        self._filled += nbytes
        if self._filled < _SIZE.size:
            return
        (size,) = _SIZE.unpack_from(self._view)
        end = _SIZE.size + size
        if not 0 <= size <= LARGEST_ANSWER:
            self._end(DecodeError(f"invalid response size {size}"))
        elif self._filled > end:
            self._end(DecodeError(f"{self._filled - end} unexpected bytes after a response"))
        elif self._filled == end:
            self._expected = None
            if not expected.done():
                expected.set_result(self._view[_SIZE.size : end])
        elif end > len(self._view):
            larger = memoryview(bytearray(end + end // 4))
            larger[: self._filled] = self._view[: self._filled]
            self._view = larger

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or ConnectionResetError("connection closed by the broker"))

    def _end(self, problem: Exception) -> None:
        self._ended = self._ended or problem
        self.transport.close()
        expected, self._expected = self._expected, None
        if expected is not None and not expected.done():
            expected.set_exception(self._ended)


class Link:
    """An open connection. Every failure closes it."""

    def __init__(self, receiver: _Receiver, security: LinkSecurity, host: str) -> None:
        self._receiver = receiver
        self._host = host
        self._security = security
        self._numbers = count()
        self._renew_at: float | None = None

    @classmethod
    async def open(
        cls, where: BrokerEndpoint, seconds: float, security: LinkSecurity | None = None
    ) -> Self:
        """Connect and log in; raises LinkError."""
        loop = asyncio.get_running_loop()
        security = security or LinkSecurity()
        try:
            context = security.context()
            async with asyncio.timeout(seconds):
                transport, receiver = await loop.create_connection(
                    _Receiver,
                    where.host,
                    where.port,
                    ssl=context,
                    server_hostname=where.host if context is not None else None,
                )
        except (OSError, TimeoutError, UnicodeError, ConfigError) as problem:
            # UnicodeError: Python's, for a name that no host can have.
            raise LinkError(
                f"{where.host}:{where.port}: {str(problem) or 'request timed out'}"
            ) from None
        link = cls(receiver, security, where.host)
        try:
            security.check(transport.get_extra_info("ssl_object"))
            if security.mechanism is not None:
                await link._log_in(security.mechanism, seconds)
        except (WrongBroker, LoginFailed) as problem:
            link.close()
            raise LinkError(f"{where.host}:{where.port}: {problem}") from None
        return link

    async def _log_in(self, mechanism: str, seconds: float) -> None:
        """Prove who we are; raises LoginFailed and LinkError."""
        self._renew_at = None
        shaken = await self.ask(
            SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse, 1, seconds
        )
        if shaken.error_code:
            raise LoginFailed(f"SASL mechanism {mechanism} is not enabled there")
        login = self._security.new_login(self._host)
        message: bytes | None = await self._first(login, seconds)
        while message is not None:
            answer = await self.ask(
                SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse, 1, seconds
            )
            if answer.error_code:
                raise LoginFailed(answer.error_message or "authentication failed")
            message = login.step(answer.auth_bytes)
            if answer.session_lifetime_ms:
                lives = answer.session_lifetime_ms / 1000
                self._renew_at = asyncio.get_running_loop().time() + RENEW_AFTER * lives

    async def _first(self, login: ClientMechanism, seconds: float) -> bytes:
        """A login's first message; raises LoginFailed."""
        if not self._security.login_waits:
            return login.first()
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.to_thread(login.first)
        except TimeoutError:
            raise LoginFailed("no Kerberos ticket in time") from None

    async def ask(self, request: Message, answer: type[M], version: int, seconds: float) -> M:
        """Send a request and wait for its answer; raises LinkError."""
        body, at = await self.ask_for_bytes(request, version, seconds)
        try:
            return codec.decode(answer, version, body, at)
        except DecodeError as problem:
            self.close()
            raise LinkError(str(problem)) from None

    async def ask_for_bytes(
        self, request: Message, version: int, seconds: float
    ) -> tuple[memoryview, int]:
        """The same with the answer as it came, and where it begins behind its header.

        It is there until the next question.
        """
        if self._renew_at is not None and asyncio.get_running_loop().time() >= self._renew_at:
            await self._renew(seconds)
        number = next(self._numbers)
        head = write_request_header(request.API_KEY, version, number, CLIENT_ID)
        body = codec.encode(request, version)
        expected = self._receiver.expect()
        try:
            async with asyncio.timeout(seconds):
                if not expected.done():  # as it is where the connection has ended meanwhile
                    frame = b"".join((_SIZE.pack(len(head) + len(body)), head, body))
                    self._receiver.transport.write(frame)
                data = await expected
            found, at = read_response_header(data, request.API_KEY, version)
            if found != number:
                raise DecodeError(f"correlation id {found} does not match request {number}")
        except (OSError, DecodeError, TimeoutError, RuntimeError) as problem:
            # RuntimeError: uvloop's, for a connection that has ended and did not say so yet.
            expected.cancel()
            self.close()
            raise LinkError(str(problem) or "request timed out") from None
        except BaseException:
            self.close()
            raise
        return data, at

    async def _renew(self, seconds: float) -> None:
        assert self._security.mechanism is not None
        try:
            await self._log_in(self._security.mechanism, seconds)
        except LoginFailed as problem:
            self.close()
            raise LinkError(str(problem)) from None

    @property
    def is_open(self) -> bool:
        """False once either side has closed it."""
        return self._receiver.is_open

    def close(self) -> None:
        """Let go of the connection."""
        self._receiver.transport.close()
