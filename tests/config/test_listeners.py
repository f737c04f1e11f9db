"""Where to listen and what to advertise."""

import pytest

from ottla.config import BrokerConfig, ConfigError
from ottla.config.listeners import Listener, is_loopback, sent_to_themselves


def _config(listeners: str, advertised: str | None = None, **more: str) -> BrokerConfig:
    static = {"listeners": listeners, **{k.replace("_", "."): v for k, v in more.items()}}
    if advertised is not None:
        static["advertised.listeners"] = advertised
    return BrokerConfig.from_static(static)


def _advertised(config: BrokerConfig, **ports: int) -> list[str]:
    bound = {each.name: ports.get(each.name, each.port) for each in config.bound_listeners}
    return [str(each) for each in config.advertised(bound, "machine.example")]


def test_a_listener_has_name_host_and_port() -> None:
    assert _config("plaintext://broker-1.example:19092").bound_listeners == (
        Listener("PLAINTEXT", "broker-1.example", 19092, "PLAINTEXT"),
    )


def test_an_ipv6_host_stands_in_brackets() -> None:
    config = _config("PLAINTEXT://[::1]:9092")
    assert config.bound_listeners[0].host == "::1"
    assert _advertised(config) == ["PLAINTEXT://[::1]:9092"]


def test_a_free_port_is_advertised_as_bound() -> None:
    config = _config("PLAINTEXT://127.0.0.1:0", "PLAINTEXT://broker.example:0")
    assert _advertised(config, PLAINTEXT=43210) == ["PLAINTEXT://broker.example:43210"]
    config = _config("PLAINTEXT://127.0.0.1:0")
    assert _advertised(config, PLAINTEXT=43210) == ["PLAINTEXT://127.0.0.1:43210"]


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
def test_all_interfaces_are_advertised_as_the_machines_name(host: str) -> None:
    assert _advertised(_config(f"PLAINTEXT://{host}:9092")) == ["PLAINTEXT://machine.example:9092"]


def test_a_host_that_nobody_can_be_called_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"advertised\.listeners: The parts of a host's name"):
        _config("PLAINTEXT://:9092", "PLAINTEXT://a..b:9092")
    with pytest.raises(ConfigError, match=r"ottla\.metrics\.host: The parts of a host's name"):
        _config("PLAINTEXT://:9092", **{"ottla.metrics.host": "a..b"})
    assert _advertised(_config("PLAINTEXT://a.b.:9092")) == ["PLAINTEXT://a.b.:9092"]


def test_localhost_is_advertised_as_it_is() -> None:
    assert _advertised(_config("PLAINTEXT://localhost:9092")) == ["PLAINTEXT://localhost:9092"]


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_all_interfaces_cannot_be_advertised_by_name(host: str) -> None:
    with pytest.raises(ConfigError, match="cannot connect to all interfaces"):
        _config("PLAINTEXT://:9092", f"PLAINTEXT://{host}:9092")


def test_advertised_ports_may_be_equal() -> None:
    config = _config(
        "A://:1,B://:2",
        "A://a.example:9092,B://b.example:9092",
        listener_security_protocol_map="A:PLAINTEXT,B:PLAINTEXT",
    )
    assert _advertised(config) == ["A://a.example:9092", "B://b.example:9092"]


def test_a_subset_of_the_listeners_may_be_advertised() -> None:
    config = _config(
        "A://:1,B://:2", "B://b.example:2", listener_security_protocol_map="A:PLAINTEXT,B:PLAINTEXT"
    )
    assert _advertised(config) == ["B://b.example:2"]


def test_controller_listeners_are_left_out() -> None:
    config = _config(
        "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        controller_listener_names="CONTROLLER",
    )
    assert [each.name for each in config.bound_listeners] == ["PLAINTEXT"]
    assert _advertised(config) == ["PLAINTEXT://localhost:9092"]


def test_the_inter_broker_listener_is_found_by_name_or_by_protocol() -> None:
    protocols = "A:PLAINTEXT,B:PLAINTEXT"
    by_protocol = _config("A://:1,B://:2", listener_security_protocol_map=protocols)
    assert by_protocol.inter_broker.name == "A"
    by_name = _config(
        "A://:1,B://:2",
        listener_security_protocol_map=protocols,
        inter_broker_listener_name="b",
    )
    assert by_name.inter_broker.name == "B"


def test_one_port_may_be_shared_by_both_address_families() -> None:
    config = _config(
        "A://127.0.0.1:9092,B://[::1]:9092",
        listener_security_protocol_map="A:PLAINTEXT,B:PLAINTEXT",
    )
    assert len(config.bound_listeners) == 2


@pytest.mark.parametrize(
    ("listeners", "complaint"),
    [
        ("", "At least one listener is needed"),
        ("127.0.0.1:9092", "Must be NAME://HOST:PORT"),
        ("PLAINTEXT://host", "Must be NAME://HOST:PORT"),
        ("://host:1", "Must be NAME://HOST:PORT"),
        ("PLAINTEXT://a host:1", "Must be NAME://HOST:PORT"),
        ("PLAINTEXT://a..b:1", "The parts of a host's name have 1 to 63 characters"),
        ("PLAINTEXT://.b:1", "The parts of a host's name have 1 to 63 characters"),
        ("PLAINTEXT://.:1", "The parts of a host's name have 1 to 63 characters"),
        (f"PLAINTEXT://{'x' * 64}.b:1", "The parts of a host's name have 1 to 63 characters"),
        ("PLAINTEXT://h:65536", "The port must be between 0 and 65535"),
        ("PLAINTEXT://h:-1", "The port must be between 0 and 65535"),
        ("PLAINTEXT://h:99999999999999999999", "The port must be between 0 and 65535"),
        ("PLAINTEXT://a:1,plaintext://b:2", "PLAINTEXT is defined twice"),
        ("A://x:1,B://y:1", "port 1 is used twice"),
        ("A://127.0.0.1:1,B://127.0.0.2:1", "port 1 is used twice"),
        ("NAMED://h:1", "has no protocol for NAMED"),
    ],
)
def test_wrong_listeners_are_refused(listeners: str, complaint: str) -> None:
    protocols = "PLAINTEXT:PLAINTEXT,A:PLAINTEXT,B:PLAINTEXT,SASL_SSL:SASL_SSL,S:SSL"
    with pytest.raises(ConfigError, match=complaint):
        _config(listeners, listener_security_protocol_map=protocols)


@pytest.mark.parametrize("text", ["A", "A:", ":SSL", "A:TELNET", "A:SSL,a:SSL"])
def test_a_wrong_protocol_map_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"listener\.security\.protocol\.map"):
        _config("PLAINTEXT://:1", listener_security_protocol_map=text)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST.",
        "localhost.localdomain",
        "ip6-localhost",
        "a.localhost",
        "127.0.1.1",
        "::1",
    ],
)
def test_what_means_this_machine_everywhere(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["shop", "localhost.example.org", "10.0.0.7", "fd00::7", ""])
def test_what_means_one_machine_to_all(host: str) -> None:
    assert not is_loopback(host)


def test_only_listeners_on_all_interfaces_send_clients_to_themselves() -> None:
    config = _config(
        "PLAINTEXT://0.0.0.0:1,HERE://127.0.0.1:2",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,HERE:PLAINTEXT",
    )
    ports = {"PLAINTEXT": 1, "HERE": 2}
    for name, expected in (("localhost", ["PLAINTEXT"]), ("shop", [])):
        told = sent_to_themselves(config.bound_listeners, config.advertised(ports, name))
        assert [each.name for each in told] == expected
