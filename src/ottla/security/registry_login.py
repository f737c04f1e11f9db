"""How the schema registry of `ottla serve --registry` logs in at its broker. Pure.

Rules kept here:
1. Where the first listener asks for a login, the registry uses a password that was made at this
   start, and is a super user: no ACL can be about it.
2. Over TLS it trusts the certificate in the broker's own keystore, and does not look at the host
   name. Where clients need a certificate it shows the broker's.
"""

from collections.abc import Callable
from typing import NamedTuple

from ottla.config import BrokerConfig
from ottla.config.errors import ConfigError
from ottla.config.types import Value
from ottla.security.principal import REGISTRY
from ottla.security.private import REGISTRY_MECHANISM

_OWN = ("keystore.type", "keystore.location", "keystore.password", "keystore.key",
        "keystore.certificate.chain", "key.password")  # fmt: skip
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


class RegistryLogin(NamedTuple):
    """Settings for both sides."""

    broker: dict[str, str]
    client: dict[str, str]


def registry_login(config: BrokerConfig, password: str) -> RegistryLogin:
    """What to add to the broker's settings, and the registry's client settings."""
    listener = config.bound_listeners[0]
    broker: dict[str, str] = {}
    client = {"security.protocol": listener.protocol}
    if listener.has_sasl:
        broker["ottla.registry.password"] = password
        broker["super.users"] = ";".join(filter(None, (config.super_users, str(REGISTRY))))
        client["sasl.mechanism"] = REGISTRY_MECHANISM
        client["sasl.jaas.config"] = (
            f'{_MODULE} required username="{REGISTRY.name}" password="{password}";'
        )
    elif listener.has_tls and config.authorizer_class_name:
        raise ConfigError(
            "--registry has no user on an SSL listener; with an authorizer, use SASL_SSL"
        )
    if listener.has_tls:

        def text(name: str) -> str | None:
            return _text(config.listener_value(listener.name, f"ssl.{name}"))

        client["ssl.endpoint.identification.algorithm"] = ""
        client |= _trusted(text)
        if text("client.auth") == "required":
            client |= {f"ssl.{name}": found for name in _OWN if (found := text(name))}
            key = _text(config.listener_value(listener.name, "ottla.ssl.key.location"))
            client |= {"ottla.ssl.key.location": key} if key else {}
    return RegistryLogin(broker, client)


def _trusted(text: Callable[[str], str | None]) -> dict[str, str]:
    """The truststore of the registry: what the broker shows, or what it trusts itself."""
    if chain := text("keystore.certificate.chain"):
        return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": chain}
    if (text("keystore.type") or "").upper() == "PEM":
        location = text("keystore.location") or ""
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": location}
    names = ("truststore.type", "truststore.location", "truststore.password")
    found = {f"ssl.{name}": value for name in names if (value := text(name))}
    if "ssl.truststore.location" not in found:
        raise ConfigError(
            "--registry cannot know the broker's certificate; set ssl.truststore.location, or use "
            "a keystore of type PEM"
        )
    return found


def _text(value: Value) -> str | None:
    return None if value is None else str(value)
