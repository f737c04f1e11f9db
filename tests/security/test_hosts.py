"""Hosts in ACLs: an address is written as Java's InetAddress.getHostAddress writes it."""

from ipaddress import IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.security.hosts import host_text


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::ff00:42:8329", "2001:db8:0:0:0:ff00:42:8329"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("::", "0:0:0:0:0:0:0:0"),
        ("not:an:address", "not:an:address"),
    ],
)
def test_an_address_is_written_as_java_does(address: str, expected: str) -> None:
    assert host_text(address) == expected


@given(st.ip_addresses(v=6))
def test_the_text_means_the_same_address(address: IPv6Address) -> None:
    expected = address.ipv4_mapped or address
    text = host_text(str(address))
    assert (IPv6Address(text) if ":" in text else text) in (expected, str(expected))
