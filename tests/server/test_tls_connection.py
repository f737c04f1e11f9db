"""A broker behind TLS, by a client that sends bytes as it likes."""

import os
import select
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from struct import pack, unpack
from weakref import ref

import pytest
from structlog.testing import capture_logs

from ottla.client.connection import BrokerConnection as ClientConnection
from ottla.client.security import client_security
from ottla.client.settings import ClientSettings, addresses
from ottla.embedded import Broker
from ottla.server import arrivals
from ottla.server.tls_connection import TlsConnection
from ottla.wire import codec
from ottla.wire.errors import ErrorCode
from ottla.wire.headers import write_request_header
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from testkit.certificates import Certificates, plain_users
from tests.server.inside import connections, on_loop, running, server, until

PATIENCE = 20.0


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(certificates: Certificates) -> Iterator[Broker]:
    jaas = plain_users(alice="pw")
    config = {
        **certificates.broker_config(),
        "listeners": "SASL_SSL://127.0.0.1:0,SSL://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,"
        "PLAINTEXT://127.0.0.1:0",
        "listener.name.ssl.ssl.client.auth": "requested",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas,
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
        "ottla.handshake.timeout.ms": "1500",
        "connection.failed.authentication.delay.ms": "300",
        "ssl.principal.mapping.rules": "RULE:^CN=([a-z]+),.*$/$1/,RULE:^CN=none.*$/none/",
    }
    with Broker(config=config) as running_broker:
        yield running_broker


def port_of(broker: Broker, name: str) -> int:
    return next(
        each.port for each in running(broker).node.lifecycle.advertised if each.name == name
    )


def plain_socket(broker: Broker, name: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port_of(broker, name)), PATIENCE)


def tls_socket(
    broker: Broker, certificates: Certificates, name: str = "SSL", client: Path | None = None,
    version: ssl.TLSVersion | None = None,
) -> ssl.SSLSocket:  # fmt: skip
    context = ssl.create_default_context(cafile=str(certificates.ca))
    if client is not None:
        context.load_cert_chain(client)
    if version is not None:
        context.minimum_version = context.maximum_version = version
    return context.wrap_socket(plain_socket(broker, name), server_hostname="localhost")


def framed(message: Message, version: int, number: int = 1) -> bytes:
    content = write_request_header(message.API_KEY, version, number, None)
    content += codec.encode(message, version)
    return pack(">i", len(content)) + content


def received(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def reply(sock: socket.socket) -> bytes:
    return received(sock, unpack(">i", received(sock, 4))[0])


VERSIONS = framed(ApiVersionsRequest(), 0)


def ask(sock: socket.socket) -> bytes:
    sock.sendall(VERSIONS)
    return reply(sock)


HANDSHAKE = framed(SaslHandshakeRequest(mechanism="PLAIN"), 1)


def token(password: str = "pw") -> bytes:
    return framed(SaslAuthenticateRequest(auth_bytes=b"\0alice\0" + password.encode()), 1)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_requests_in_any_pieces_are_answered(
    broker: Broker, certificates: Certificates, version: ssl.TLSVersion
) -> None:
    with tls_socket(broker, certificates, version=version) as sock:
        for piece in (1, 3, 1000):
            data = VERSIONS * 5
            for at in range(0, len(data), piece):
                sock.sendall(data[at : at + piece])
            assert len({reply(sock) for _ in range(5)}) == 1


def test_many_requests_at_once_are_all_answered(broker: Broker, certificates: Certificates) -> None:
    with tls_socket(broker, certificates) as sock:
        count = 3000  # more than one turn, than one record, and than what is held
        sock.settimeout(PATIENCE)
        sock.sendall(VERSIONS * count)
        for _ in range(count):
            reply(sock)


def test_a_client_that_reads_late_gets_everything(
    broker: Broker, certificates: Certificates
) -> None:
    with tls_socket(broker, certificates) as sock:
        sock.setblocking(False)
        wanted = 0
        data = VERSIONS * 200
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline and wanted < 10_000:
            try:
                sent = sock.send(data)
            except ssl.SSLWantWriteError:
                select.select([], [sock], [], 0.01)
                continue
            assert sent == len(data)
            wanted += 200
        sock.settimeout(PATIENCE)
        for _ in range(wanted):
            reply(sock)
    assert wanted


def test_a_certificate_names_the_client_by_the_rules(
    broker: Broker, certificates: Certificates
) -> None:
    with tls_socket(broker, certificates, client=certificates.issue("carol")) as sock:
        sock.sendall(VERSIONS)
        reply(sock)
        assert [str(each.principal) for each in connections(broker)] == ["User:carol"]
    until(broker, lambda: not server(broker).connections)
    with (
        capture_logs() as logs,
        tls_socket(broker, certificates, client=certificates.issue("Carol7")) as sock,
        pytest.raises((OSError, EOFError)),
    ):
        ask(sock)
    assert any("mapping.rules matches CN=Carol7" in str(line) for line in logs)


def test_a_client_whose_name_cannot_be_found_out_is_not_let_in_as_anonymous(
    broker: Broker, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object, __: str) -> str | None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr("ottla.server.door.mapped", fail)
    client = certificates.issue("carol", "carol")
    with (
        tls_socket(broker, certificates, client=client) as sock,
        pytest.raises((EOFError, ConnectionError)),
    ):
        ask(sock)


def test_without_a_certificate_a_client_is_anonymous(
    broker: Broker, certificates: Certificates
) -> None:
    with tls_socket(broker, certificates) as sock:
        sock.sendall(VERSIONS)
        reply(sock)
        assert [str(each.principal) for each in connections(broker)] == ["User:ANONYMOUS"]


def test_a_login_through_tls(broker: Broker, certificates: Certificates) -> None:
    with tls_socket(broker, certificates, "SASL_SSL") as sock:
        sock.sendall(VERSIONS + HANDSHAKE + token() + VERSIONS)
        for _ in range(4):
            reply(sock)
        assert [str(each.principal) for each in connections(broker)] == ["User:alice"]
        assert on_loop(broker, lambda: len(server(broker).arrivals)) == 0


@pytest.mark.parametrize("name", ["SASL_SSL", "SASL_PLAINTEXT"])
def test_a_wrong_password_is_answered_after_the_delay_and_the_connection_ends(
    broker: Broker, certificates: Certificates, name: str
) -> None:
    opened = (
        tls_socket(broker, certificates, name) if name == "SASL_SSL" else plain_socket(broker, name)
    )
    with opened as sock:
        sock.sendall(HANDSHAKE)
        reply(sock)
        began = time.monotonic()
        sock.sendall(token("wrong") + VERSIONS)
        assert b"Invalid username or password" in reply(sock)
        assert time.monotonic() - began >= 0.29
        with pytest.raises((EOFError, ConnectionError)):
            reply(sock)


@pytest.mark.parametrize("name", ["SSL", "SASL_SSL"])
def test_plaintext_to_a_tls_port_is_named_in_the_log(broker: Broker, name: str) -> None:
    with capture_logs() as logs, plain_socket(broker, name) as sock:
        sock.sendall(VERSIONS)
        assert sock.recv(1) == b""
    assert any("client sent plaintext to a TLS listener" in str(line) for line in logs)


@pytest.mark.parametrize("name", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_tls_to_a_plaintext_port_is_named_in_the_log(broker: Broker, name: str) -> None:
    with capture_logs() as logs, plain_socket(broker, name) as sock, pytest.raises(OSError):  # noqa: PT011
        ssl.create_default_context().wrap_socket(sock, server_hostname="localhost")
    assert any("TLS handshake to a PLAINTEXT listener" in str(line) for line in logs)


def test_a_certificate_of_another_authority_is_refused(
    broker: Broker, certificates: Certificates, tmp_path: Path
) -> None:
    other = Certificates(tmp_path).issue("carol")
    with capture_logs() as logs, pytest.raises((OSError, EOFError)):
        ask(tls_socket(broker, certificates, client=other))
    assert any("client certificate refused" in str(line) for line in logs)


@pytest.mark.parametrize("sends", [b"", b"\x16\x03\x01\x02\x00\x01", VERSIONS[:5]])
@pytest.mark.parametrize("name", ["SASL_SSL", "SASL_PLAINTEXT"])
def test_a_client_that_does_not_authenticate_is_closed_whatever_it_sends(
    broker: Broker, name: str, sends: bytes
) -> None:
    with plain_socket(broker, name) as sock:
        began = time.monotonic()
        sock.settimeout(0.1)
        ended = False
        sock.sendall(sends)
        while not ended and time.monotonic() - began < PATIENCE:
            try:
                sock.sendall(b"\0" if sends and name == "SASL_SSL" else b"")
                ended = sock.recv(100) == b""
            except TimeoutError:
                continue
            except OSError:
                ended = True
        assert ended
    until(broker, lambda: not server(broker).connections)


def test_frames_are_small_before_authentication(broker: Broker) -> None:
    with plain_socket(broker, "SASL_PLAINTEXT") as sock:
        sock.sendall(pack(">i", 600_000) + bytes(100))
        assert sock.recv(1) == b""


def test_bytes_that_are_no_tls_after_the_handshake_end_the_connection(
    broker: Broker, certificates: Certificates
) -> None:
    with tls_socket(broker, certificates) as sock:
        sock.sendall(VERSIONS)
        reply(sock)
        os.write(sock.fileno(), b"\x17\x03\x03\x00\x20" + bytes(32))
        with pytest.raises((OSError, EOFError)):
            reply(sock)


def test_a_certificate_is_reloaded_and_a_bad_one_is_not(
    certificates: Certificates, tmp_path: Path
) -> None:
    own = tmp_path / "own.pem"

    def put(content: bytes) -> None:
        fresh = tmp_path / "fresh.pem"
        fresh.write_bytes(content)
        fresh.chmod(0o600)
        fresh.replace(own)

    def shown(broker: Broker) -> bytes:
        with tls_socket(broker, certificates) as sock:
            found = sock.getpeercert(binary_form=True)
            assert found is not None
            return found

    put(certificates.broker.read_bytes())
    config = {
        **certificates.broker_config(),
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": str(own),
        "ssl.allow.dn.changes": "true",
    }
    with Broker(config=config) as broker:
        first = shown(broker)
        with tls_socket(broker, certificates) as old:
            put(certificates.issue("broker2", "localhost", "127.0.0.1", "::1").read_bytes())
            on_loop(broker, server(broker).reload_certificates)
            until(broker, lambda: not server(broker)._reloading)
            second = shown(broker)
            assert second != first
            with capture_logs() as logs:
                put(b"nonsense")
                on_loop(broker, server(broker).reload_certificates)
                until(broker, lambda: not server(broker)._reloading)
                on_loop(broker, server(broker).reload_certificates)
                until(broker, lambda: not server(broker)._reloading)
            assert sum("keeping the old one" in str(line) for line in logs) == 1
            assert shown(broker) == second
            old.sendall(VERSIONS)
            reply(old)


def test_a_certificate_is_altered_while_the_broker_runs_and_a_bad_one_is_refused(
    certificates: Certificates, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("nonsense")
    other = certificates.issue("broker3", "localhost", "127.0.0.1", "::1")
    config = {
        **certificates.broker_config(),
        "listeners": "SSL://127.0.0.1:0",
        "ssl.allow.dn.changes": "true",
    }

    def shown(broker: Broker) -> bytes | None:
        with tls_socket(broker, certificates) as sock:
            return sock.getpeercert(binary_form=True)

    def alter(broker: Broker, location: Path) -> tuple[int, str | None]:
        setting = AlterableConfig(
            name="listener.name.ssl.ssl.keystore.location", value=str(location)
        )
        resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[setting])
        security = client_security(
            {
                "security.protocol": "SSL",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(certificates.ca),
            }
        )
        servers = broker.bootstrap_servers
        (address,) = addresses(servers)
        settings = ClientSettings(bootstrap_servers=servers, security=security)
        connection = ClientConnection(address, settings)
        answer = connection.call(
            IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse
        )
        connection.close()
        return answer.responses[0].error_code, answer.responses[0].error_message

    with Broker(config=config) as broker:
        first = shown(broker)
        code, message = alter(broker, bad)
        assert code == ErrorCode.INVALID_REQUEST
        assert message is not None
        assert "ssl.keystore.location" in message
        assert shown(broker) == first
        assert alter(broker, other) == (ErrorCode.NONE, None)
        on_loop(broker, server(broker).reload_certificates)
        until(broker, lambda: not server(broker)._reloading)
        assert shown(broker) != first


@pytest.mark.parametrize("name", ["SSL", "SASL_SSL"])
def test_a_connection_that_has_ended_keeps_nothing_of_openssl(
    broker: Broker, certificates: Certificates, name: str
) -> None:
    until(broker, lambda: not server(broker).connections)
    with tls_socket(broker, certificates, name) as sock:
        ask(sock)
        (connection,) = connections(broker)
        assert isinstance(connection, TlsConnection)
        openssl = ref(connection._tls)
        assert openssl() is not None
    until(broker, connection.closed)
    until(broker, lambda: openssl() is None)


def test_a_flood_is_told_of_once_and_its_oldest_connections_are_closed(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    until(broker, lambda: not server(broker).connections)
    monkeypatch.setattr(arrivals, "MOST_ARRIVALS", 3)
    with capture_logs() as logs, ExitStack() as stack:
        socks = [stack.enter_context(plain_socket(broker, "SASL_SSL")) for _ in range(10)]
        assert [sock.recv(1) for sock in socks[:7]] == [b""] * 7
    told = [line for line in logs if "too many unauthenticated" in str(line["event"])]
    assert len(told) == 1
