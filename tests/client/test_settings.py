import pickle

import pytest

from ottla.client import ClientSettings, KafkaError
from ottla.client.settings import Address, addresses


def test_bootstrap_servers_are_addresses_separated_by_commas() -> None:
    assert addresses("a:1, b:2,[::1]:3") == [Address("a", 1), Address("b", 2), Address("::1", 3)]


def test_a_missing_port_is_kafkas() -> None:
    assert addresses("localhost") == [Address("localhost", 9092)]
    assert addresses("[::1]") == [Address("::1", 9092)]


def test_an_ipv6_address_is_shown_in_brackets() -> None:
    assert str(Address("::1", 3)) == "[::1]:3"


@pytest.mark.parametrize(
    "text", ["", ",", ":1", "a:", "a:x", "a:0", "a:65536", "http://a:1", "[::1", "[::1]x", "a:-1"]
)
def test_what_is_no_address_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(KafkaError, match="not a broker's address"):
        addresses(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("foo:abc", "'abc' is not a port from 1 to 65535"),
        ("foo:", "the port is missing"),
        (":9092", "the host is missing"),
        ("http://foo:9092", "it must not be a URL"),
        ("", "it is empty"),
    ],
)
def test_it_is_said_what_is_wrong_with_it_and_what_is_right(text: str, why: str) -> None:
    with pytest.raises(KafkaError) as refused:
        addresses(text)
    assert str(refused.value) == (
        f"{text!r} is not a broker's address: {why}; use host:port, like 127.0.0.1:9092"
    )


def test_settings_can_be_sent_to_another_process() -> None:
    settings = ClientSettings(bootstrap_servers="a:1", deadline=3.0)
    assert pickle.loads(pickle.dumps(settings)) == settings
