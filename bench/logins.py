"""Many TLS clients at once, in one thread: logins with SCRAM, idle connections, and a flood of
clients that never log in.

Rules: the client does as little as it can, since it shares the machine with the broker: it does not
verify the certificate, and derives the password's key once for each salt.
"""

import hashlib
import hmac
import re
import selectors
import socket
import ssl
import struct
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache

from testkit.errors import HarnessError
from testkit.probe import ask

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
FLOOD_FRAME = 512 << 10
SECONDS = 60.0
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_CHALLENGE = re.compile(rb"r=([^,]*),s=([^,]*),i=(\d+)")


def client_context() -> ssl.SSLContext:
    """A client that takes any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def log_in(port: int, count: int, mechanism: str, user: str, password: str) -> float:
    """So many clients connect at once and log in; gives the seconds until all are in."""
    began = time.monotonic()
    context, selector = client_context(), selectors.DefaultSelector()
    with ExitStack() as stack:
        stack.callback(selector.close)
        for number in range(count):
            client = _Login(context, port, number, mechanism, user, password)
            stack.callback(client.close)
            selector.register(client.sock, WRITE, client)
        waiting = count
        while waiting:
            events = selector.select(SECONDS)
            if not events:
                raise HarnessError(f"{waiting} of {count} logins were not answered")
            for key, _ in events:
                client = key.data
                wanted = client.go_on()
                if wanted == 0:
                    selector.unregister(client.sock)
                    waiting -= 1
                elif wanted != key.events:
                    selector.modify(client.sock, wanted, client)
        return time.monotonic() - began


class _Login:
    """One client: TLS, then SaslHandshake and two steps of SCRAM."""

    def __init__(
        self, context: ssl.SSLContext, port: int, number: int, mechanism: str, user: str, pw: str
    ) -> None:
        plain = socket.socket()
        plain.setblocking(False)
        plain.connect_ex(("127.0.0.1", port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._context, self._steps = context, self._talk(number, mechanism, user, pw)
        self.sock: socket.socket = plain
        self._tls: ssl.SSLSocket | None = None
        self._shaken = False

    def close(self) -> None:
        """End the connection."""
        self.sock.close()

    def go_on(self) -> int:
        """Do what can be done now; gives what to wait for, 0 at the end."""
        try:
            if self._tls is None:
                self.sock = self._tls = self._context.wrap_socket(
                    self.sock, do_handshake_on_connect=False
                )
            if not self._shaken:
                self._tls.do_handshake()
                self._shaken = True
            next(self._steps)
        except ssl.SSLWantReadError:
            return READ
        except ssl.SSLWantWriteError:
            return WRITE
        except StopIteration:
            return 0
        except OSError as problem:
            raise HarnessError(f"a login ended: {problem}") from None
        return READ

    def _talk(self, number: int, mechanism: str, user: str, password: str) -> Iterator[None]:
        name = mechanism.encode()
        yield from self._ask(SASL_HANDSHAKE, struct.pack(">h", len(name)) + name)
        bare = f"n={user},r=nonce{number}".encode()
        reply = yield from self._ask(SASL_AUTHENTICATE, _bytes(b"n,," + bare))
        challenge = _token(reply)
        found = _CHALLENGE.fullmatch(challenge)
        assert found is not None, challenge
        algorithm = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
        key, stored = _keys(algorithm, password.encode(), b64decode(found[2]), int(found[3]))
        last = b"c=biws,r=" + found[1]
        signature = hmac.digest(stored, b",".join((bare, challenge, last)), algorithm)
        proof = b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True)))
        reply = yield from self._ask(SASL_AUTHENTICATE, _bytes(last + b",p=" + proof))
        if not _token(reply).startswith(b"v="):
            raise HarnessError(f"a login was refused: {reply!r}")

    def _ask(self, key: int, body: bytes):  # type: ignore[no-untyped-def]  # a generator's return
        header = struct.pack(">hhih", key, 1, 7, -1)
        assert self._tls is not None
        self._tls.send(struct.pack(">i", len(header) + len(body)) + header + body)
        got = b""
        while len(got) < 4 or len(got) < 4 + struct.unpack_from(">i", got)[0]:
            try:
                more = self._tls.recv(4096)
            except ssl.SSLWantReadError:
                yield
                continue
            if not more:
                raise HarnessError("the broker closed the connection of a login")
            got += more
        return got[8:]


@lru_cache
def _keys(algorithm: str, password: bytes, salt: bytes, iterations: int) -> tuple[bytes, bytes]:
    salted = hashlib.pbkdf2_hmac(algorithm, password, salt, iterations)
    key = hmac.digest(salted, b"Client Key", algorithm)
    return key, hashlib.new(algorithm, key).digest()


def _bytes(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _token(reply: bytes) -> bytes:
    """What a SaslAuthenticate v1 answers, between its error and the session's lifetime."""
    error, message = struct.unpack_from(">hh", reply)
    if error:
        raise HarnessError(f"a login failed with error {error}")
    at = 4 + max(message, 0)
    (size,) = struct.unpack_from(">i", reply, at)
    return reply[at + 4 : at + 4 + size]


@contextmanager
def idle_tls_connections(port: int, count: int) -> Iterator[None]:
    """`count` TLS connections that have asked once and then say nothing."""
    context = client_context()
    with ExitStack() as stack:
        for number in range(count):
            plain = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
            connection = stack.enter_context(context.wrap_socket(plain))
            ask(connection, number)
        yield


class Flood:
    """Clients that never log in: all of them send a large frame, byte after byte, for ever.

    One that the broker closes is followed by another, while `again` is true.
    """

    def __init__(self, port: int, count: int) -> None:
        self._port, self._context = port, client_context()
        self._selector = selectors.DefaultSelector()
        self.again = True
        self.closed = 0
        self._clients: set[_Flooder] = set()
        for _ in range(count):
            self._add()

    @property
    def connected(self) -> int:
        """How many the broker has not closed."""
        return len(self._clients)

    def _add(self) -> None:
        client = _Flooder(self._context, self._port, shakes=len(self._clients) % 4 != 0)
        self._clients.add(client)
        self._selector.register(client.sock, READ | WRITE, client)

    def go_on(self, seconds: float) -> None:
        """Send as much as the broker takes, for a while."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for key, _ in self._selector.select(0.05):
                client = key.data
                before = client.sock
                if not client.go_on():
                    self._selector.unregister(before)
                    client.sock.close()
                    self._clients.discard(client)
                    self.closed += 1
                    if self.again:
                        self._add()
                elif client.sock is not before:
                    self._selector.modify(client.sock, READ | WRITE, client)
            time.sleep(0.02)

    def close(self) -> None:
        """End all of them."""
        for client in self._clients:
            client.sock.close()
        self._selector.close()


class _Flooder:
    """Shakes hands (or only begins to), promises a large frame and sends it without its end."""

    def __init__(self, context: ssl.SSLContext, port: int, shakes: bool) -> None:
        plain = socket.socket()
        plain.setblocking(False)
        plain.connect_ex(("127.0.0.1", port))
        self.sock: socket.socket = plain
        self._context, self._shakes = context, shakes
        self._tls: ssl.SSLSocket | None = None
        self._shaken = False
        header = struct.pack(">ihhih", FLOOD_FRAME, SASL_AUTHENTICATE, 1, 7, -1)
        self._left = FLOOD_FRAME - 1024
        self._first = header

    def go_on(self) -> bool:
        """Send something; False once the broker has closed the connection."""
        try:
            if not self._shakes:
                self.sock.send(b"\x16")
                return True
            if self._tls is None:
                self.sock = self._tls = self._context.wrap_socket(
                    self.sock, do_handshake_on_connect=False
                )
            if not self._shaken:
                self._tls.do_handshake()
                self._shaken = True
                self._tls.send(self._first)
            if self._left > 0:
                self._left -= self._tls.send(bytes(min(self._left, 16 << 10)))
            else:
                self._tls.send(b"\0")
                self._left = 0
            return self._tls.recv(1) != b""
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
            return True
        except OSError:
            return False
