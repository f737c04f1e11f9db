"""A broker that says what a test tells it to: real sockets and real bytes, scripted answers."""

import socket
import struct
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from ottla.wire.codec import decode, encode
from ottla.wire.headers import read_request_header, write_response_header
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.messages.produce import ProduceRequest

Handler = Callable[[Message], Message | None]

SERVED = (ApiVersionsRequest, MetadataRequest, InitProducerIdRequest, ProduceRequest)
WITHOUT_TOPIC_IDS = 12


class HangUp(Exception):  # noqa: N818 (it is an order)
    """Raised by a handler: close the connection without an answer."""


class FakeBroker:
    """Listens on a free port. It knows one topic, `t`, with one partition, and leads it.

    `handlers` replaces or adds answers by the class of the request; one that returns None leaves
    the request unanswered. `requests` has all that came.
    """

    def __init__(self, handlers: Mapping[type[Message], Handler] | None = None) -> None:
        self.requests: list[Message] = []
        self._handlers: dict[type[Message], Handler] = {
            ApiVersionsRequest: lambda _: self.versions(),
            MetadataRequest: lambda _: self.metadata(),
            InitProducerIdRequest: lambda _: InitProducerIdResponse(producer_id=7),
            **(handlers or {}),
        }
        served: set[type[Message]] = {*SERVED, *self._handlers}
        self._classes = {kind.API_KEY: kind for kind in served}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        for connection in self._connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # It is gone already.
        for thread in self._threads[1:]:
            thread.join()

    def answer(self, kind: type[Message], handler: Handler) -> None:
        """From now on, answer this way."""
        self._handlers[kind] = handler

    def of(self, kind: type[Message]) -> list[Message]:
        """The requests of one class."""
        return [request for request in self.requests if isinstance(request, kind)]

    def versions(self) -> ApiVersionsResponse:
        keys = [
            ApiVersion(
                api_key=key,
                min_version=kind.VERSIONS[0],
                max_version=WITHOUT_TOPIC_IDS if key in (0, 1) else kind.VERSIONS[1],
            )
            for key, kind in self._classes.items()
        ]
        return ApiVersionsResponse(api_keys=keys)

    def metadata(self, error_code: int = 0, leader: int = 1) -> MetadataResponse:
        partition = MetadataResponsePartition(leader_id=leader, leader_epoch=0)
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)],
            topics=[MetadataResponseTopic(name="t", error_code=error_code, partitions=[partition])],
        )

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            try:
                while head := stream.read(4):
                    self._reply(connection, stream.read(struct.unpack(">i", head)[0]))
            except (HangUp, OSError):
                pass

    def _reply(self, connection: socket.socket, frame: bytes) -> None:
        header = read_request_header(memoryview(frame))
        kind = self._classes[header.api_key]
        request: Message = decode(kind, header.api_version, frame, header.body_at)
        self.requests.append(request)
        response = self._handlers[kind](request)
        if response is None:
            return
        version = header.api_version
        if isinstance(response, ApiVersionsResponse) and response.error_code:
            version = 0
        body = write_response_header(header.api_key, version, header.correlation_id) + encode(
            response, version
        )
        connection.sendall(struct.pack(">i", len(body)) + body)
