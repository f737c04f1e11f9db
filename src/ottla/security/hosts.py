"""A client's address as Java prints it: hosts of Kafka's ACLs are compared with it. Pure.

`::1` is `0:0:0:0:0:0:0:1`; an IPv4 client of an IPv6 socket (`::ffff:10.0.0.7`) is `10.0.0.7`.
"""

from socket import AF_INET6, inet_pton
from struct import Struct
from typing import Final

_GROUPS: Final = Struct(">8H")
_MAPPED: Final = bytes(10) + b"\xff\xff"


def host_text(address: str) -> str:
    """The text for an address that the system gave."""
    if ":" not in address:
        return address
    number, percent, scope = address.partition("%")
    try:
        packed = inet_pton(AF_INET6, number)
    except OSError:
        return address
    if packed.startswith(_MAPPED):
        return ".".join(map(str, packed[12:]))
    return ":".join(f"{group:x}" for group in _GROUPS.unpack(packed)) + percent + scope
