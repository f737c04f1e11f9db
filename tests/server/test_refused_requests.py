"""A refused request is forgotten at once, and not only when garbage is collected."""

import gc
import socket

import pytest

from ottla.api.registry import LONG_BYTES
from ottla.embedded import Broker
from ottla.wire.headers import write_request_header
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.produce import ProduceRequest
from testkit.raw import address, frame
from tests.server.inside import on_loop

REQUESTS = 20
MOST_GARBAGE = 25
"""Objects of each: its connection. With the frames of an error there are some sixty more, and the
request itself, which may have 8 MB."""


@pytest.mark.parametrize("asked", [DescribeGroupsRequest, FetchRequest, ProduceRequest])
def test_a_long_request_that_is_refused_leaves_no_garbage(
    asked: type[DescribeGroupsRequest | FetchRequest | ProduceRequest],
) -> None:
    version = asked.VERSIONS[1]
    header = write_request_header(asked.API_KEY, version, 1, "raw")
    malformed = frame(header + b"\xff" * (2 * LONG_BYTES))
    with Broker() as broker:
        _send(broker, malformed)
        gc.collect()
        gc.disable()
        try:
            for _ in range(REQUESTS):
                _send(broker, malformed)
            on_loop(broker, lambda: None)
            assert gc.collect() < REQUESTS * MOST_GARBAGE
        finally:
            gc.enable()


def _send(broker: Broker, request: bytes) -> None:
    with socket.create_connection(address(broker.bootstrap_servers), timeout=20) as client:
        client.sendall(request)
        try:
            assert not client.recv(1)
        except ConnectionResetError:
            pass
