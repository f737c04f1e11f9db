"""The advertised host of a broker that listens on all interfaces.

Rules kept here:
1. It is the machine's name, as in Kafka, unless that means "this machine" to everyone, as
   `localhost` does: clients elsewhere would be sent to themselves.
2. Then it is the address from which the machine would reach others: that one they can reach, too.
   Nothing is sent to find it.
3. A machine without any has only the name it was given. Where that is no better there is a warning,
   unless it is configured so.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import structlog
from msgspec.structs import replace

from ottla.config import BrokerConfig
from ottla.config.listeners import Listener, is_loopback, sent_to_themselves
from ottla.metadata.image import Image

log = structlog.get_logger()

_ELSEWHERE: Final = (
    (socket.AF_INET, "192.0.2.1"),
    (socket.AF_INET6, "2001:db8::1"),
)
"""Addresses for documentation (RFC 5737, RFC 3849), which nobody has."""
_ANY_PORT: Final = 9


def own_host() -> str:
    """What other machines may call this one."""
    name = socket.getfqdn()
    if not is_loopback(name):
        return name
    address = outward_address()
    if address is not None:
        return address
    given = socket.gethostname()
    return name if is_loopback(given) else given


def outward_address() -> str | None:
    """The address from which this machine reaches others; None where it reaches nobody."""
    for family, elsewhere in _ELSEWHERE:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as sock:
                sock.connect((elsewhere, _ANY_PORT))  # for UDP it only chooses a route
                address: str = sock.getsockname()[0]
        except OSError:
            continue
        if not is_loopback(address):
            return address
    return None


def log_started(
    config: BrokerConfig,
    ports: Mapping[str, int],
    advertised: Sequence[Listener],
    image: Image,
    partitions: int,
) -> None:
    """Say where the broker can be reached, and what it has."""
    bound = [replace(each, port=ports[each.name]) for each in config.bound_listeners]
    log.info(
        "broker started",
        listeners=", ".join(map(str, bound)),
        advertised=", ".join(map(str, advertised)),
        id=config.node_id,
        data=str(Path(config.log_dirs[0])),
        topics=len(image.topics),
        partitions=partitions,
    )
    warn_of_lost_clients(config, advertised)


def warn_of_lost_clients(config: BrokerConfig, advertised: Sequence[Listener]) -> None:
    """Say it where clients on other machines would not find this one."""
    if config.advertised_listeners:
        return
    for each in sent_to_themselves(config.bound_listeners, advertised):
        log.warning(
            "advertised listener is not reachable from other machines; set advertised.listeners "
            "to a host name or an address of this machine",
            advertised=str(each),
        )
