"""What the quick and the full form send, and how they look at the broker."""

import socket
from collections.abc import Mapping
from pathlib import Path

from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from testkit.raw import SIZE, Connection, address, frame

VERSION = 7


def create(connection: Connection, name: str, settings: Mapping[str, str] | None = None) -> None:
    """Create a topic of one partition."""
    topic = CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        configs=[
            CreatableTopicConfig(name=each, value=value) for each, value in (settings or {}).items()
        ],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    answer = connection.ask(request, CreateTopicsResponse, VERSION)
    assert not answer.topics[0].error_code, answer


def send(bootstrap: str, request: bytes, patience: float = 120) -> None:
    """Send a request and wait for its answer, or for the end of the connection."""
    with socket.create_connection(address(bootstrap), timeout=patience) as client:
        client.sendall(frame(request))
        head = client.recv(4, socket.MSG_WAITALL)
        left = SIZE.unpack(head)[0] if len(head) == SIZE.size else 0
        while left > 0 and (part := client.recv(min(left, 1 << 20))):
            left -= len(part)


def memory_of(pid: int) -> int:
    """Bytes of memory that a process holds now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
