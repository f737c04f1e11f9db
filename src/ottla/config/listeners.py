"""Where the broker listens, and what it tells clients to connect to.

1. A listener is NAME://HOST:PORT. Names are case-insensitive and different from each other; ports
   too, unless one host is an IPv4 and the other an IPv6 address. Port 0 means any free port.
2. An empty host, 0.0.0.0 and :: mean all interfaces and are never advertised: without
   `advertised.listeners` the machine's own name is used; in `advertised.listeners` they are wrong
   (an empty host there stands for the machine's name too). What only means "this machine" sends
   clients on others to themselves.
3. An advertised port 0 stands for the port that the listener of that name was bound to.
4. Listeners named in `controller.listener.names` are left out: there is no controller listener.

The host name is passed in: nothing here asks the system.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from ipaddress import IPv6Address, ip_address

import msgspec

from ottla.config.errors import ConfigError, invalid_value

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
TLS_PROTOCOLS = ("SSL", "SASL_SSL")
SASL_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")

_ENDPOINT = re.compile(r"(?P<name>[^:/]*)://\[?(?P<host>[0-9a-zA-Z\-%._:]*)\]?:(?P<port>-?[0-9]+)")
_NAME = re.compile(r"[A-Z0-9_.\-]+")
LONGEST_LABEL = 63
WILDCARDS = ("", "0.0.0.0", "::")
_LOCAL_NAMES = ("localhost", "localhost4", "localhost6", "ip6-localhost", "ip6-loopback")


class Listener(msgspec.Struct, frozen=True):
    """One endpoint. Port 0 means a free port, an empty host all interfaces of both families."""

    name: str
    host: str
    port: int
    protocol: str

    @property
    def has_tls(self) -> bool:
        """True for SSL and SASL_SSL."""
        return self.protocol in TLS_PROTOCOLS

    @property
    def has_sasl(self) -> bool:
        """True for SASL_PLAINTEXT and SASL_SSL."""
        return self.protocol in SASL_PROTOCOLS

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def protocol_map(text: str) -> dict[str, str]:
    """`listener.security.protocol.map` as name -> protocol; ValueError when it does not parse."""
    protocols: dict[str, str] = {}
    for part in _parts(text):
        name, colon, protocol = (piece.strip().upper() for piece in part.partition(":"))
        if not colon or not name or protocol not in PROTOCOLS:
            raise ValueError(f"{part!r} is not NAME:PROTOCOL with one of {', '.join(PROTOCOLS)}")
        if name in protocols:
            raise ValueError(f"{name} is defined twice")
        protocols[name] = protocol
    return protocols


def connections_per_ip(text: str) -> dict[str, int]:
    """`max.connections.per.ip.overrides` as address -> limit; ValueError when it does not parse.

    Kafka looks up names, once. Here they are refused: a client would never match one.
    """
    limits: dict[str, int] = {}
    for part in _parts(text):
        address, _, limit = part.rpartition(":")
        if not address.strip() or not limit.strip().isdecimal():
            raise ValueError(f"{part!r} is not address:count")
        limits[_address(address.strip().strip("[]"))] = int(limit)
    return limits


def _address(text: str) -> str:
    """An IP address as the system writes it."""
    try:
        return str(ip_address(text))
    except ValueError:
        raise ValueError(f"{text} is not an IP address; names are not looked up") from None


def check_host(host: str) -> None:
    """Refuse with ValueError what no host can be called: the system would not even look for it."""
    parts = host.removesuffix(".").split(".")
    if host and not all(0 < len(part) <= LONGEST_LABEL for part in parts):
        raise ValueError(f"The parts of a host's name have 1 to {LONGEST_LABEL} characters")


def parse_listeners(
    endpoints: Sequence[str],
    protocols: Mapping[str, str],
    controller_names: Collection[str] = (),
) -> tuple[Listener, ...]:
    """The listeners to open, checked; ConfigError with one line otherwise."""
    listeners = _parse("listeners", endpoints, protocols, controller_names)
    _check_distinct_ports(listeners)
    return listeners


def advertised_listeners(
    listeners: Sequence[Listener],
    bound_ports: Mapping[str, int],
    hostname: str,
    advertised: Sequence[str] | None,
    protocols: Mapping[str, str],
    controller_names: Collection[str] = (),
) -> tuple[Listener, ...]:
    """The advertised listeners. `bound_ports` has the real port of every listener, by name."""
    if advertised is None:
        chosen: Sequence[Listener] = listeners
    else:
        chosen = parse_advertised(advertised, protocols, listeners, controller_names)
    return tuple(
        Listener(
            listener.name,
            hostname if listener.host in WILDCARDS else listener.host,
            listener.port or bound_ports[listener.name],
            listener.protocol,
        )
        for listener in chosen
    )


def parse_advertised(
    advertised: Sequence[str],
    protocols: Mapping[str, str],
    listeners: Sequence[Listener],
    controller_names: Collection[str] = (),
) -> tuple[Listener, ...]:
    """`advertised.listeners`, checked against the listeners it speaks for."""
    setting = "advertised.listeners"
    chosen = _parse(setting, advertised, protocols, controller_names)
    names = [listener.name for listener in listeners]
    for listener in chosen:
        if listener.host in ("0.0.0.0", "::"):
            raise invalid_value(
                setting, listener, "A client cannot connect to all interfaces; name a real host"
            )
        if listener.name not in names:
            raise invalid_value(
                setting, listener, f"listeners has no {listener.name} (it has {', '.join(names)})"
            )
    return chosen


def is_loopback(host: str) -> bool:
    """True for a name or an address that means "this machine" wherever it is used."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        first, _, domain = host.lower().removesuffix(".").partition(".")
        return (first in _LOCAL_NAMES and domain in ("", "localdomain")) or domain == "localhost"


def sent_to_themselves(
    listeners: Sequence[Listener], advertised: Sequence[Listener]
) -> list[Listener]:
    """Of what is advertised: what stands for all interfaces, and means "this machine" only."""
    everywhere = {listener.name for listener in listeners if listener.host in WILDCARDS}
    return [each for each in advertised if each.name in everywhere and is_loopback(each.host)]


def inter_broker_listener(
    listeners: Sequence[Listener], name: str | None, protocol: str, is_set: bool = True
) -> Listener:
    """The listener that brokers use among themselves.

    Where neither a name nor a protocol is set (`is_set`) and none has the protocol, the first one.
    """
    for listener in listeners:
        if listener.name == name.upper() if name else listener.protocol == protocol:
            return listener
    if not name and not is_set:
        return listeners[0]
    setting = "inter.broker.listener.name" if name else "security.inter.broker.protocol"
    names = ", ".join(listener.name for listener in listeners)
    raise invalid_value(setting, name or protocol, f"No such listener (there are: {names})")


def _parse(
    setting: str,
    endpoints: Sequence[str],
    protocols: Mapping[str, str],
    controller_names: Collection[str],
) -> tuple[Listener, ...]:
    left_out = {name.upper() for name in controller_names}
    listeners: dict[str, Listener] = {}
    for text in endpoints:
        match = _ENDPOINT.fullmatch(text)
        name = match["name"].upper() if match else ""
        if not match or not _NAME.fullmatch(name):
            raise invalid_value(setting, text, "Must be NAME://HOST:PORT")
        port = int(match["port"]) if len(match["port"]) <= 6 else -1
        if not 0 <= port <= 65_535:
            raise invalid_value(setting, text, "The port must be between 0 and 65535")
        try:
            check_host(match["host"])
        except ValueError as problem:
            raise invalid_value(setting, text, str(problem)) from None
        if name in listeners:
            raise invalid_value(setting, ",".join(endpoints), f"{name} is defined twice")
        if name not in left_out:
            protocol = _protocol(setting, text, name, protocols)
            listeners[name] = Listener(name, match["host"], port, protocol)
    if not listeners:
        raise invalid_value(setting, ",".join(endpoints), "At least one listener is needed")
    return tuple(listeners.values())


def _protocol(setting: str, text: str, name: str, protocols: Mapping[str, str]) -> str:
    protocol = protocols.get(name)
    if protocol is None:
        raise invalid_value(
            setting, text, f"listener.security.protocol.map has no protocol for {name}"
        )
    return protocol


def _check_distinct_ports(listeners: Iterable[Listener]) -> None:
    by_port: dict[int, list[Listener]] = {}
    for listener in listeners:
        if listener.port:
            by_port.setdefault(listener.port, []).append(listener)
    for port, sharing in by_port.items():
        families = [_family(listener.host) for listener in sharing]
        if len(sharing) > 1 and sorted(families) != [4, 6]:
            raise ConfigError(
                f"Invalid value {','.join(map(str, sharing))} for configuration listeners: port "
                f"{port} is used twice; only one IPv4 and one IPv6 address may share a port"
            )


def _family(host: str) -> int:
    try:
        return 6 if isinstance(ip_address(host), IPv6Address) else 4
    except ValueError:
        return 0


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
