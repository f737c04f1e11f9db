"""The address of a ZooKeeper store: `zookeeper://host1:2181,host2,host3/chroot`."""

import re
from typing import NamedTuple

from ottla.metadata.stores.zookeeper_security import NO_SECURITY, ZooKeeperSecurity

SCHEME = "zookeeper://"
DEFAULT_PORT = 2181

_HOST = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:(?P<port>[0-9]{1,5}))?")
_SEGMENT = re.compile(r"[A-Za-z0-9._-]+")


class ZooKeeperAddress(NamedTuple):
    """Servers, and the folder below which everything is kept: "" or a path without a last slash."""

    hosts: tuple[tuple[str, int], ...]
    chroot: str = ""
    security: ZooKeeperSecurity = NO_SECURITY

    def host_texts(self) -> list[str]:
        """The servers as `host:port`."""
        return [f"[{h}]:{port}" if ":" in h else f"{h}:{port}" for h, port in self.hosts]


def parse_address(text: str) -> ZooKeeperAddress:
    """The address in a text; ValueError in one line when it is none."""
    if not text.startswith(SCHEME):
        raise ValueError(f"{text!r} does not begin with {SCHEME}")
    servers, slash, path = text.removeprefix(SCHEME).partition("/")
    if not servers:
        raise ValueError(f"{text!r} has no server; use {SCHEME}host1,host2,host3/chroot")
    hosts = tuple(_parse_host(text, server) for server in servers.split(","))
    segments = path.rstrip("/").split("/") if path.strip("/") else []
    for segment in segments:
        if not _SEGMENT.fullmatch(segment) or segment in (".", ".."):
            raise ValueError(f"{text!r}: {slash}{path} is not a valid ZooKeeper path")
    if segments[:1] == ["zookeeper"]:
        raise ValueError(f"{text!r}: /zookeeper belongs to ZooKeeper itself")
    return ZooKeeperAddress(hosts, "".join(f"/{segment}" for segment in segments))


def _parse_host(text: str, server: str) -> tuple[str, int]:
    match = _HOST.fullmatch(server.strip())
    if not match:
        raise ValueError(f"{text!r}: {server!r} is not a host or host:port")
    port = int(match["port"] or DEFAULT_PORT)
    if not 0 < port < 1 << 16:
        raise ValueError(f"{text!r}: {port} is not a port")
    return match["host"].strip("[]"), port
