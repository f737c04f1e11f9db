"""How a client reaches its cluster: plain values that can be pickled and sent elsewhere."""

from typing import NamedTuple

from msgspec import Struct

from ottla.client.security import ClientSecurity
from ottla.wire.errors import ErrorCode, KafkaError

DEFAULT_PORT = 9092


class Address(NamedTuple):
    """Where something listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ClientSettings(Struct, frozen=True, kw_only=True):
    """Times are seconds."""

    bootstrap_servers: str
    """`host:port`, several separated by commas. One of them must answer at first."""
    client_id: str = "ottla"
    connect_timeout: float = 5.0
    request_timeout: float = 30.0
    """The longest wait for one reply."""
    deadline: float = 60.0
    """How long an operation is retried before its last error is raised."""
    backoff: float = 0.05
    """The wait before the first retry; it doubles up to `longest_backoff`."""
    longest_backoff: float = 1.0
    security: ClientSecurity | None = None
    """How to log in; None for PLAINTEXT."""


def addresses(bootstrap_servers: str) -> list[Address]:
    """The addresses in a `bootstrap_servers` text."""
    found = [_address(part.strip()) for part in bootstrap_servers.split(",") if part.strip()]
    if not found:
        raise _wrong(bootstrap_servers, "it is empty")
    return found


def _address(text: str) -> Address:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        colon, port = rest[:1], rest[1:]
        if not bracket or (rest and not colon == ":"):
            raise _wrong(text, "put an IPv6 address in brackets: [::1]:9092")
    else:
        host, colon, port = text.partition(":")
    if "/" in text:
        raise _wrong(text, "it must not be a URL")
    if not host:
        raise _wrong(text, "the host is missing")
    if not colon:
        return Address(host, DEFAULT_PORT)
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
        raise _wrong(
            text, f"{port!r} is not a port from 1 to 65535" if port else "the port is missing"
        )
    return Address(host, int(port))


def _wrong(text: str, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_CONFIG,
        f"{text!r} is not a broker's address: {why}; use host:port, like 127.0.0.1:9092",
    )
