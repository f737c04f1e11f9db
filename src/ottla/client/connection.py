"""One connection to one broker: requests go out, replies come in.

Rules kept here:
1. Replies come in the order of the requests. Waiting for one brings in those before it, so
   requests may be sent ahead of the replies of earlier ones.
2. A request has the highest version that both sides know.
3. Every wait has an end. After a failure (a lost or late reply, bytes that make no sense) the
   connection is closed, and everything still awaited on it fails: what would follow could not be
   told apart.
4. It belongs to one thread.
5. With security set, TLS and the login come first; a failure there is a one-line error.
"""

import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from struct import Struct
from time import monotonic
from typing import Generic, TypeVar

from ottla.client.errors import ConnectionFailed, error, plain
from ottla.client.security import ClientSecurity, log_in, refused
from ottla.client.settings import Address, ClientSettings
from ottla.wire.codec import DecodeError, decode, encode_parts
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.headers import read_response_header, write_request_header
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

R = TypeVar("R", bound=Message)
V_co = TypeVar("V_co", covariant=True)
A = TypeVar("A", bound="Reply[object]")

LARGEST_REPLY = 1 << 30
LARGEST_FIRST_REPLY = 1 << 20
"""What does not speak Kafka's protocol at all is noticed by the size of its first answer."""

_SIZE = Struct(">i")
_INT16 = Struct(">h")
_MORE_FOLLOWS = getattr(socket, "MSG_MORE", 0)


class Reply(Generic[V_co]):
    """An answer that is on its way."""

    __slots__ = ("_api_key", "_connection", "_expected", "_failure", "_read", "_value", "_version")

    def __init__(
        self,
        connection: "BrokerConnection",
        api_key: int,
        read: Callable[[int, memoryview, int], V_co],
        version: int,
        correlation_id: int,
    ) -> None:
        """`read` gets the version, the bytes of the reply, and where its body begins in them."""
        self._connection = connection
        self._api_key = api_key
        self._read = read
        self._version = version
        self._expected = correlation_id
        self._value: V_co | None = None
        self._failure: KafkaError | None = None

    @property
    def done(self) -> bool:
        """True once result() need not wait."""
        return self._value is not None or self._failure is not None

    def result(self, timeout: float | None = None) -> V_co:
        """Wait for the answer (by default the connection's request timeout) and return it."""
        if not self.done:
            self._connection.receive_until(self, timeout)
        if self._failure is not None:
            raise self._failure
        assert self._value is not None
        return self._value

    def room(self, size: int) -> memoryview:
        """Where the bytes of the answer go."""
        return memoryview(bytearray(size))

    def resolve(self, body: memoryview) -> None:
        """Take the answer from the bytes of a reply."""
        correlation_id, at = read_response_header(body, self._api_key, self._version)
        if correlation_id != self._expected:
            raise DecodeError(
                f"unexpected correlation id {correlation_id} instead of {self._expected}"
            )
        self._value = self._read(self._version, body, at)

    def fail(self, failure: KafkaError) -> None:
        """There will be no answer."""
        self._failure = failure


class BrokerConnection:
    """A socket to a broker whose versions are known. Raises ConnectionFailed from every method."""

    def __init__(self, address: Address, settings: ClientSettings) -> None:
        self.address = address
        self._client_id = settings.client_id
        self._timeout = settings.request_timeout
        self._awaited: deque[Reply[object]] = deque()
        self._last_correlation_id = -1
        self._closed = False
        try:
            plain_socket = socket.create_connection(address, settings.connect_timeout)
        except OSError as problem:
            raise ConnectionFailed(
                f"cannot reach a broker at {address}: {plain(problem)}"
            ) from None
        except UnicodeError:  # Python's, before it asks the system
            raise ConnectionFailed(
                f"cannot reach a broker at {address}: invalid host name"
            ) from None
        plain_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        security = settings.security
        self._socket = plain_socket
        self._more_follows = _MORE_FOLLOWS
        if security is not None and security.has_tls:
            self._socket = self._wrapped(plain_socket, security)
            self._more_follows = 0  # TLS takes no flags
        self._versions: dict[int, tuple[int, int]] = {}
        self._largest_reply = LARGEST_FIRST_REPLY
        self._negotiate()
        if security is not None and security.has_sasl:
            self._log_in(security)
        self._largest_reply = LARGEST_REPLY

    def _wrapped(self, sock: socket.socket, security: ClientSecurity) -> socket.socket:
        """The same socket through TLS."""
        import ssl  # costs start-up time, and most commands do without

        try:
            return security.context().wrap_socket(sock, server_hostname=self.address.host)
        except ssl.SSLCertVerificationError as problem:
            sock.close()
            raise refused(
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                f"the certificate of {self.address} is not trusted: {problem.verify_message}",
            ) from None
        except ssl.SSLError as problem:
            sock.close()
            hint = "; is it a PLAINTEXT listener?" if "VERSION" in (problem.reason or "") else ""
            reason = (problem.reason or str(problem)).lower().replace("_", " ")
            raise refused(
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                f"TLS handshake with {self.address} failed: {reason}{hint}",
            ) from None
        except OSError as problem:
            sock.close()
            raise ConnectionFailed(
                f"TLS handshake with {self.address} failed: {plain(problem)}"
            ) from None
        except BaseException:
            sock.close()
            raise

    def _log_in(self, security: ClientSecurity) -> None:
        try:
            log_in(security, self.call, str(self.address), self.address.host)
        except BaseException:
            self.close()
            raise

    @property
    def closed(self) -> bool:
        """True after close() and after any failure."""
        return self._closed

    def fileno(self) -> int:
        """For selectors: readable when a reply, or the end of the connection, has arrived."""
        return self._socket.fileno()

    def close(self) -> None:
        """Give the socket back; what is still awaited fails."""
        self._fail(ConnectionFailed(f"the connection to {self.address} was closed"))

    def version_of(self, kind: type[Message], newest: int | None = None) -> int:
        """The highest version of a request or response that both sides know, up to `newest`."""
        first, last = self._versions.get(kind.API_KEY, (0, -1))
        version = min(last, kind.VERSIONS[1] if newest is None else newest)
        if version < max(first, kind.VERSIONS[0]):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"the broker at {self.address} does not support any known version of "
                f"{kind.__name__.removesuffix('Request')}",
            )
        return version

    def call(
        self,
        request: Message,
        kind: type[R],
        timeout: float | None = None,
        *,
        newest: int | None = None,
    ) -> R:
        """Send a request and wait for its reply, which has the given class."""
        return self.submit(request, kind, newest=newest).result(timeout)

    def submit(self, request: Message, kind: type[R], *, newest: int | None = None) -> Reply[R]:
        """Send a request without waiting, in a version up to `newest`."""
        version = self.version_of(type(request), newest)
        read = partial(decode, kind)
        return self.awaiting(Reply(self, kind.API_KEY, read, version, self._send(request, version)))

    def send(self, request: Message) -> tuple[int, int]:
        """Send a request whose reply the caller makes: its version and correlation id."""
        version = self.version_of(type(request))
        return version, self._send(request, version)

    def awaiting(self, reply: A) -> A:
        """Note that a reply comes after those that are already awaited."""
        self._awaited.append(reply)
        return reply

    def post(self, request: Message) -> None:
        """Send a request that has no reply (Produce with acks=0)."""
        self._send(request, self.version_of(type(request)))

    def receive_until(self, reply: Reply[object], timeout: float | None = None) -> None:
        """Take in replies up to this one."""
        limit = self._timeout if timeout is None else timeout
        deadline = monotonic() + limit
        try:
            while not reply.done:
                body = self._read_frame(deadline)
                self._awaited[0].resolve(body)
                self._awaited.popleft()
        except TimeoutError:
            self._fail(ConnectionFailed(f"no answer from {self.address} within {limit:g} seconds"))
        except OSError as problem:
            self._fail(
                ConnectionFailed(
                    f"lost the connection to the broker at {self.address}: {plain(problem)}"
                )
            )
        except DecodeError as problem:
            self._fail(
                KafkaError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"{self.address} does not speak the Kafka protocol: {problem}",
                )
            )
        except BaseException:
            # An interrupt in the middle of a reply: its rest would be read as the next one.
            self.close()
            raise

    def _send(self, request: Message, version: int) -> int:
        if self._closed:
            raise ConnectionFailed(f"the connection to {self.address} was closed")
        self._last_correlation_id = (self._last_correlation_id + 1) & 0x7FFFFFFF
        correlation_id = self._last_correlation_id
        header = write_request_header(request.API_KEY, version, correlation_id, self._client_id)
        first, *more = encode_parts(request, version)
        size = len(header) + len(first) + sum(map(len, more))
        try:
            deadline = monotonic() + self._timeout
            self._socket.settimeout(self._timeout)
            start = b"".join((_SIZE.pack(size), header, first))
            self._socket.sendall(start, self._more_follows if more else 0)
            while more:
                part = more.pop(0)
                self._socket.settimeout(max(deadline - monotonic(), 0.001))
                self._socket.sendall(part, self._more_follows if more else 0)
        except OSError as problem:
            failure = ConnectionFailed(
                f"lost the connection to the broker at {self.address}: {plain(problem)}"
            )
            self._fail(failure)
            raise failure from None
        except BaseException:
            self.close()
            raise
        return correlation_id

    def _read_frame(self, deadline: float) -> memoryview:
        (size,) = _SIZE.unpack(self._read_into(memoryview(bytearray(_SIZE.size)), deadline))
        if not _SIZE.size <= size <= self._largest_reply:
            raise DecodeError(f"invalid response size {size}")
        return self._read_into(self._awaited[0].room(size), deadline)

    def _read_into(self, data: memoryview, deadline: float) -> memoryview:
        at, size = 0, len(data)
        while at < size:
            # What has already arrived is taken even when its time is over.
            self._socket.settimeout(max(deadline - monotonic(), 0.001))
            count = self._socket.recv_into(data[at:])
            if not count:
                raise ConnectionResetError(0, "connection closed by the broker")
            at += count
        return data

    def _fail(self, failure: KafkaError) -> None:
        self._closed = True
        self._socket.close()
        while self._awaited:
            self._awaited.popleft().fail(failure)

    def _negotiate(self) -> None:
        """Ask for the broker's versions, in the newest form that it understands (KIP-511)."""
        self._versions[ApiVersionsRequest.API_KEY] = ApiVersionsRequest.VERSIONS
        answer = self._ask_versions()
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            known = {item.api_key: (item.min_version, item.max_version) for item in answer.api_keys}
            self._versions[ApiVersionsRequest.API_KEY] = known.get(
                ApiVersionsRequest.API_KEY, (0, 0)
            )
            answer = self._ask_versions()
        if answer.error_code:
            self.close()
            raise error(answer.error_code, None, f"the broker at {self.address}")
        self._versions = {
            item.api_key: (item.min_version, item.max_version) for item in answer.api_keys
        }

    def _ask_versions(self) -> ApiVersionsResponse:
        # The package's own version would take tens of milliseconds to look up.
        request = ApiVersionsRequest(
            client_software_name="ottla-client", client_software_version="1"
        )
        read = partial(decode, ApiVersionsResponse)
        reply = _VersionsReply(self, request.API_KEY, read, *self.send(request))
        return self.awaiting(reply).result()


class _VersionsReply(Reply[ApiVersionsResponse]):
    """A broker that does not know the asked version answers in version 0, with an error."""

    __slots__ = ()

    def resolve(self, body: memoryview) -> None:
        if len(body) >= 6 and _INT16.unpack_from(body, 4)[0] == ErrorCode.UNSUPPORTED_VERSION:
            self._version = 0
        super().resolve(body)
