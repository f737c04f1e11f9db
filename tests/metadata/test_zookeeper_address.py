"""What is and what is not the address of a ZooKeeper store."""

import pytest

from ottla.metadata.stores.zookeeper_address import ZooKeeperAddress, parse_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("zookeeper://a", ZooKeeperAddress((("a", 2181),))),
        ("zookeeper://a/", ZooKeeperAddress((("a", 2181),))),
        (
            "zookeeper://a:2182,b.example,10.0.0.1:1/x/y",
            ZooKeeperAddress((("a", 2182), ("b.example", 2181), ("10.0.0.1", 1)), "/x/y"),
        ),
        (
            "zookeeper://[::1]:7,[fe80::1]/c/",
            ZooKeeperAddress((("::1", 7), ("fe80::1", 2181)), "/c"),
        ),
    ],
)
def test_servers_and_chroot_are_read(text: str, expected: ZooKeeperAddress) -> None:
    assert parse_address(text) == expected


def test_servers_are_written_as_kazoo_reads_them() -> None:
    address = parse_address("zookeeper://a,[::1]:7/c")
    assert address.host_texts() == ["a:2181", "[::1]:7"]


@pytest.mark.parametrize(
    "text",
    [
        "a:2181",
        "sqlite:///x",
        "zookeeper://",
        "zookeeper:///chroot",
        "zookeeper://a,,b",
        "zookeeper://a:0",
        "zookeeper://a:65536",
        "zookeeper://a:x",
        "zookeeper://a b",
        "zookeeper://a//b",
        "zookeeper://a/b/../c",
        "zookeeper://a/b c",
        "zookeeper://a/zookeeper/x",
    ],
)
def test_an_invalid_address_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"^'.+$") as raised:
        parse_address(text)
    assert "\n" not in str(raised.value)
