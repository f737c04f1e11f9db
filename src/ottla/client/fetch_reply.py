"""The answer to a Fetch of one partition, with its records left where they were received.

Rules kept here:
1. The records, which are nearly all of an answer, are not copied; the codec reads what is around
   them. The buffer serves the next answer too: a caller that shares it is done with the last one
then. 2. Bytes that are not a Fetch response raise DecodeError, and nothing else.
"""

from struct import error as struct_error

from ottla.client.connection import Connection, Reply
from ottla.wire.fetch import FIRST_FLEXIBLE, FIRST_WITH_TOPIC_IDS
from ottla.wire.fields import (
    INT32,
    DecodeError,
    read_count,
    read_string,
    read_topic_id,
    read_uvarint,
    skip_tags,
)
from ottla.wire.headers import read_response_header
from ottla.wire.messages.fetch import FetchRequest, FetchResponse


class ReplyBuffer:
    """Memory for one answer after another."""

    def __init__(self) -> None:
        self._view = memoryview(bytearray())

    def room(self, size: int) -> memoryview:
        if size > len(self._view):
            self._view = memoryview(bytearray(size + size // 4))
        return self._view[:size]


class FetchReply(Reply[FetchResponse]):
    """An answer whose records are not copied: the codec reads what is around them."""

    __slots__ = ("_buffer", "connection", "position", "records")

    def __init__(
        self, connection: Connection, request: FetchRequest, position: int, buffer: ReplyBuffer
    ) -> None:
        super().__init__(connection, FetchResponse, *connection.send(request))
        self.connection = connection
        self.position = position
        self.records = memoryview(b"")
        self._buffer = buffer

    def room(self, size: int) -> memoryview:
        return self._buffer.room(size)

    def resolve(self, body: memoryview) -> None:
        _, at = read_response_header(body, FetchResponse.API_KEY, self.version)
        size_at, start, end = only_records(body, at, self.version)
        self.records = body[start:end]
        none = b"\x00" if self.version >= FIRST_FLEXIBLE else b"\xff\xff\xff\xff"
        super().resolve(memoryview(b"".join((body[:size_at], none, body[end:]))))


def only_records(body: memoryview, at: int, version: int) -> tuple[int, int, int]:
    """Where the records of the only partition in a Fetch response lie: the place of their size,
    their start and their end. All three are the end of the body where there is no partition.
    """
    flexible = version >= FIRST_FLEXIBLE
    try:
        at += 10 if version >= 7 else 4
        topics, at = read_count(body, at, flexible, 3)
        if not topics:
            return len(body), len(body), len(body)
        _, at = (
            read_topic_id(body, at)
            if version >= FIRST_WITH_TOPIC_IDS
            else read_string(body, at, flexible)
        )
        partitions, at = read_count(body, at, flexible, 16)
        if (topics, partitions) != (1, 1):
            raise DecodeError(f"{topics} topics and {partitions} partitions where one was asked")
        at += 30 if version >= 5 else 22
        aborted, at = read_count(body, at, flexible, 16)
        for _ in range(aborted):
            at = skip_tags(body, at + 16) if flexible else at + 16
        size_at = at + 4 if version >= 11 else at
        if flexible:
            size, start = read_uvarint(body, size_at)
            size -= 1
        else:
            (size,) = INT32.unpack_from(body, size_at)
            start = size_at + 4
    except (IndexError, struct_error) as problem:
        raise DecodeError(f"a malformed Fetch response: {problem}") from None
    end = start + max(size, 0)
    if end > len(body):
        raise DecodeError(f"records of {size} bytes in a Fetch response of {len(body)}")
    return size_at, start, end
