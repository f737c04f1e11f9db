"""Connections whose socket OpenSSL has: what arrives is what was sent, whoever encrypts.

On a machine without kernel TLS OpenSSL encrypts here; `python -m compat --only kernel-tls` runs
this file and `test_tls_connection.py` on a kernel that has it (User Mode Linux).
"""

import os
import shutil
import ssl
import subprocess
from collections.abc import Iterator

import pytest

from ottla.embedded import Broker
from ottla.server import kernel_tls
from ottla.server.kernel_tls_connection import KernelTlsConnection
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from testkit.batches import values
from testkit.certificates import Certificates
from testkit.raw import Connection, frame, request_bytes
from tests.e2e.asking import From, fetch_request, produce
from tests.e2e.conftest import create_topic
from tests.server.inside import connections, on_loop, running, server

FETCH_VERSION = 12
KERNEL_HAS_IT = kernel_tls.is_available()
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
BATCHES = 24
BATCH_BYTES = 250_000  # together more than leaves in one turn, and than a socket takes


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(certificates: Certificates) -> Iterator[Broker]:
    config = {
        **certificates.broker_config(),
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "inter.broker.listener.name": "PLAINTEXT",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_tls, "is_available", lambda: True)
        with Broker(config=config) as running_broker:
            with Connection(running_broker.bootstrap_servers) as plain:
                create_topic(plain, "records")
                for _ in range(BATCHES):
                    produce(plain, "records", values(os.urandom(BATCH_BYTES)))
            yield running_broker


def port(broker: Broker, name: str) -> int:
    advertised = running(broker).node.lifecycle.advertised
    return next(each.port for each in advertised if each.name == name)


@pytest.fixture(params=VERSIONS, ids=[each.name for each in VERSIONS])
def through_tls(
    broker: Broker, certificates: Certificates, request: pytest.FixtureRequest
) -> Iterator[Connection]:
    context = ssl.create_default_context(cafile=str(certificates.ca))
    context.minimum_version = context.maximum_version = request.param
    with Connection(f"127.0.0.1:{port(broker, 'SSL')}") as connection:
        connection.socket = context.wrap_socket(connection.socket, server_hostname="localhost")
        connection.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
        yield connection


def test_what_is_fetched_is_what_is_fetched_without_tls(
    broker: Broker, through_tls: Connection
) -> None:
    offloaded = on_loop(broker, lambda: server(broker).metrics.offloaded)
    assert (offloaded > 0) == KERNEL_HAS_IT
    with Connection(broker.bootstrap_servers) as plain:
        for size in (100_000, BATCHES * BATCH_BYTES):
            request = fetch_request(From("records", max_bytes=size), max_bytes=size)
            asked = frame(request_bytes(request, FETCH_VERSION, 77))
            plain.send_bytes(asked)
            expected = plain.receive_frame()
            assert len(expected) > min(size, BATCH_BYTES)
            for _ in range(2):
                through_tls.send_bytes(asked)
                assert through_tls.receive_frame() == expected
    kinds = {type(each) for each in connections(broker) if each.listener == "SSL"}
    assert kinds == {KernelTlsConnection}


def test_what_is_produced_arrives(broker: Broker, through_tls: Connection) -> None:
    for size in (10, 900_000):
        answer = produce(through_tls, "records", values(os.urandom(size)))
        assert answer.error_code == 0


def test_many_requests_at_once_are_all_answered(through_tls: Connection) -> None:
    asked = [(ApiVersionsRequest(), 0)] * 2000
    ids = through_tls.send_together(asked)
    assert [through_tls.receive(ApiVersionsResponse, 0)[0] for _ in asked] == ids


def test_a_client_that_leaves_is_told_goodbye(through_tls: Connection) -> None:
    tls = through_tls.socket
    assert isinstance(tls, ssl.SSLSocket)
    plain = tls.unwrap()  # waits for the broker's close_notify
    assert plain.recv(1) == b""


# Python's ssl cannot ask for new keys; the openssl command can. Nothing else here needs it.
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")
def test_a_key_update_of_the_client_changes_nothing_or_ends_the_connection(
    broker: Broker, certificates: Certificates
) -> None:
    asked = frame(request_bytes(ApiVersionsRequest(), 0, 7))
    with subprocess.Popen(
        ["openssl", "s_client", "-quiet", "-no_ign_eof", "-tls1_3", "-CAfile", certificates.ca,
         "-connect", f"127.0.0.1:{port(broker, 'SSL')}"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as client:  # fmt: skip
        assert client.stdin is not None
        assert client.stdout is not None
        assert client.stderr is not None
        first = b""
        for _ in range(3):
            client.stdin.write(asked)
            client.stdin.flush()
            size = client.stdout.read(4)
            if KERNEL_HAS_IT and first and not size:
                break  # a kernel before 6.14 cannot change the key: the client connects again
            reply = size + client.stdout.read(int.from_bytes(size, "big"))
            assert reply == (first or reply)
            first = reply
            client.stdin.write(b"K\n")  # s_client: send a KeyUpdate that asks for one
            client.stdin.flush()
            while client.stderr.readline() not in (b"KEYUPDATE\n", b""):
                pass
        client.kill()
    with Connection(broker.bootstrap_servers) as plain:
        plain.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
