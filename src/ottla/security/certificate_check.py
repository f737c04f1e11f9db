"""Whether listeners could use the certificates that a change of settings names. Reads files.

As in Kafka, an alteration of `listener.name.X.ssl.*` whose keystore or truststore cannot be used is
refused, and the old certificate stays. One that is altered is used for new connections within
seconds (`server/door.py`).
"""

from collections.abc import Iterable

from ottla.config import BrokerConfig
from ottla.config.listener_configs import PREFIX, parse_name
from ottla.security.listeners import listener_security


def check_certificates(config: BrokerConfig, altered: Iterable[str]) -> None:
    """Load what the listeners of these settings would use; raises ConfigError."""
    names = {
        found.listener
        for name in altered
        if (found := parse_name(name)) is not None and found.setting.startswith("ssl.")
    }
    for listener in config.bound_listeners:
        if listener.name.upper() in names and listener.has_tls:
            from ottla.security.tls_context import server_context  # its library costs time

            tls = listener_security(config, listener).tls
            assert tls is not None
            server_context(tls, f"{PREFIX}{listener.name.lower()}.")
