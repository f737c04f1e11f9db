"""The reply to a Fetch of one partition, with its records left where they were received.

Rules kept here:
1. The records, which are nearly all of a reply, are not copied. The buffer serves the next reply
   too: a caller that shares it is done with the last one then.
2. A reply about anything but one partition raises DecodeError.
"""

from ottla.client.connection import BrokerConnection, Reply
from ottla.wire.fetch_answer import FetchAnswer, read_answer
from ottla.wire.fields import DecodeError
from ottla.wire.messages.fetch import FetchRequest


class ReplyBuffer:
    """Memory for one reply after another."""

    def __init__(self) -> None:
        self._view = memoryview(bytearray())

    def room(self, size: int) -> memoryview:
        if size > len(self._view):
            self._view = memoryview(bytearray(size + size // 4))
        return self._view[:size]


class FetchReply(Reply[FetchAnswer]):
    """A reply about one partition, received into a buffer that its caller has."""

    __slots__ = ("_buffer", "connection", "position")

    def __init__(
        self,
        connection: BrokerConnection,
        request: FetchRequest,
        position: int,
        buffer: ReplyBuffer,
    ) -> None:
        super().__init__(connection, request.API_KEY, _read, *connection.send(request))
        self.connection = connection
        self.position = position
        self._buffer = buffer

    def room(self, size: int) -> memoryview:
        return self._buffer.room(size)


def _read(version: int, body: memoryview, at: int) -> FetchAnswer:
    answer = read_answer(body, at, version)
    partitions = sum(len(partitions) for _, partitions in answer.topics)
    if partitions > 1:
        raise DecodeError(f"{partitions} partitions where one was requested")
    return answer
