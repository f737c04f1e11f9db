"""Where a broker can be reached: which addresses its listeners are bound to."""

import socket

import pytest

from ottla.config.listeners import Listener
from ottla.embedded import Broker
from ottla.server.listening import hosts_to_bind


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


# Containers often have no IPv6; binding to it cannot be tested there.
needs_ipv6 = pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")


def _connects(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError:
        return False
    return True


@needs_ipv6
@pytest.mark.parametrize("host", ["localhost", "", "[::]"])
def test_a_listener_on_all_or_on_localhost_takes_clients_of_both_families(host: str) -> None:
    with Broker(config={"listeners": f"PLAINTEXT://{host}:0"}) as broker:
        assert _connects("127.0.0.1", broker.port)
        assert _connects("::1", broker.port)


@needs_ipv6
def test_an_embedded_broker_says_where_it_listens() -> None:
    with Broker(config={"listeners": "PLAINTEXT://[::1]:0"}) as broker:
        assert broker.bootstrap_servers == f"[::1]:{broker.port}"
    with Broker(config={"listeners": "PLAINTEXT://0.0.0.0:0"}) as broker:
        assert broker.bootstrap_servers == f"127.0.0.1:{broker.port}"


def test_two_listeners_that_share_a_port_keep_to_their_family() -> None:
    four = Listener("A", "0.0.0.0", 9092, "PLAINTEXT")
    six = Listener("B", "::", 9092, "PLAINTEXT")
    assert hosts_to_bind(four, (four, six)) == ("0.0.0.0",)
    assert hosts_to_bind(six, (four, six)) == ("::",)
    assert hosts_to_bind(six, (six,)) == ("0.0.0.0", "::")
