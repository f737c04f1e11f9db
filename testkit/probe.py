"""Kafka's protocol by hand, as little as it takes: one Metadata request.

It tells when a server is ready, as early as the server can answer at all, and gives an idle
connection a first request, so that the server has to keep what it keeps for a real client.
"""

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import BinaryIO

METADATA_KEY = 3
METADATA_VERSION = 1
CLIENT_ID = b"bench"


def metadata_request(correlation_id: int) -> bytes:
    """A framed Metadata request about no topic: an empty array, where null would mean all."""
    header = struct.pack(">hhih", METADATA_KEY, METADATA_VERSION, correlation_id, len(CLIENT_ID))
    body = header + CLIENT_ID + struct.pack(">i", 0)
    return struct.pack(">i", len(body)) + body


def brokers_in(response: bytes, correlation_id: int) -> int:
    """How many brokers an answer (without its length) names."""
    answered, brokers = struct.unpack_from(">ii", response)
    if answered != correlation_id:
        raise ValueError(f"answer to {answered}, not to {correlation_id}")
    return int(brokers)


def read_frame(stream: BinaryIO) -> bytes:
    """The next answer of a connection, without its length."""
    (length,) = struct.unpack(">i", _exactly(stream, 4))
    return _exactly(stream, length)


def ask(connection: socket.socket, correlation_id: int = 1) -> int:
    """Asks on a connection for Metadata; gives how many brokers the server knows of."""
    connection.sendall(metadata_request(correlation_id))
    with connection.makefile("rb") as stream:
        return brokers_in(read_frame(stream), correlation_id)


def is_ready(port: int, brokers: int = 1) -> bool:
    """Whether the server on a port of this machine answers, and with so many brokers."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            return ask(connection) >= brokers
    except (ConnectionError, TimeoutError):
        return False


@contextmanager
def idle_connections(port: int, count: int) -> Iterator[None]:
    """`count` connections that have asked once and then say nothing."""
    with ExitStack() as stack:
        for number in range(count):
            connection = socket.create_connection(("127.0.0.1", port), timeout=30)
            stack.enter_context(connection)
            ask(connection, number)
        yield


def _exactly(stream: BinaryIO, length: int) -> bytes:
    received = stream.read(length)
    if len(received) < length:
        raise ConnectionResetError("closed in the middle of an answer")
    return received
