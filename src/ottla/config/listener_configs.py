"""Settings of one listener: `listener.name.<listener>.[<mechanism>.]<setting>`. Pure.

Rules kept here:
1. The listener and the mechanism are in lower case. A setting of the listener takes precedence over
   the plain one, and one of the mechanism over that of the listener.
2. Only the settings of security and `max.connections` can be set so; any other name is wrong.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec.structs import replace

from ottla.config.broker_network_configs import NETWORK_CONFIGS
from ottla.config.definition import ConfigDef, table
from ottla.config.errors import ConfigError
from ottla.config.security_configs import SECURITY_CONFIGS

PREFIX: Final = "listener.name."
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
_NOT_PER_LISTENER: Final = (
    "ottla.allow.unsecured.jwt",
    "ottla.handshake.timeout.ms",
    "ottla.registry.password",
    "ottla.worker.password",
)
PER_LISTENER: Final = table(
    *(row for row in SECURITY_CONFIGS if row.name not in _NOT_PER_LISTENER),
    *(row for row in NETWORK_CONFIGS if row.name == "max.connections"),
)
_PER_MECHANISM: Final = (
    "sasl.jaas.config",
    "connections.max.reauth.ms",
    "sasl.server.callback.handler.class",
    "sasl.login.class",
    "sasl.login.callback.handler.class",
)


class ListenerSetting(NamedTuple):
    """Which setting of which listener a name is."""

    listener: str
    mechanism: str | None
    setting: str


def parse_name(name: str) -> ListenerSetting | None:
    """What a name of the form `listener.name.x.y` stands for; None where it is not one."""
    rest = name.removeprefix(PREFIX)
    if rest == name:
        return None
    fitting = [each for each in PER_LISTENER if rest.endswith(f".{each}")]
    if not fitting:
        return None
    setting = max(fitting, key=len)
    listener, mechanism = rest[: -len(setting) - 1], None
    for each in MECHANISMS:
        if listener.endswith(f".{each.lower()}"):
            if setting not in _PER_MECHANISM:
                return None
            listener, mechanism = listener[: -len(each) - 1], each
            break
    return ListenerSetting(listener.upper(), mechanism, setting) if listener else None


def definition(name: str) -> ConfigDef:
    """The row of the table for such a name; raises ConfigError."""
    found = parse_name(name)
    if found is None:
        raise ConfigError(f"Unknown config name: {name}: a listener has no such setting")
    return replace(PER_LISTENER[found.setting], name=name)


def is_of_logins(name: str) -> bool:
    """Whether a name sets how clients log in by SASL, which is read when the broker starts."""
    found = parse_name(name)
    return found is not None and found.setting.startswith("sasl.")


def names(listener: str, setting: str, mechanism: str | None = None) -> Iterable[str]:
    """The names that set a listener's setting, strongest first, without the plain one."""
    prefix = f"{PREFIX}{listener.lower()}."
    if mechanism is not None:
        yield f"{prefix}{mechanism.lower()}.{setting}"
    yield f"{prefix}{setting}"
