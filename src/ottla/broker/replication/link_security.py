"""How brokers authenticate to each other: TLS and SASL of the links between them.

Rules kept here:
1. The settings are those of the listener between brokers (`security/listeners.py`).
2. Brokers of `--workers` show each other the same certificate, and know a password that was made at
   this start: no truststore is needed, and no host name is looked at.
3. The files are looked at before each connection, and read again when they have changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ottla.security.listeners import LinkSettings
from ottla.security.mechanism import ClientMechanism
from ottla.security.sasl_client import new_client, new_kerberos_client

if TYPE_CHECKING:
    import ssl

NO_SECURITY: Final = LinkSettings()


class WrongBroker(Exception):  # noqa: N818 (it names what happened)
    """The other side is not the broker that it should be."""


class LinkSecurity:
    """What a broker needs to connect to others."""

    def __init__(self, settings: LinkSettings = NO_SECURITY) -> None:
        self._settings = settings
        self._context: ssl.SSLContext | None = None
        self._files: object = None
        self._own: bytes = b""
        if settings.tls is not None:
            self.context()  # what is wrong with it is found at the start

    @property
    def login_waits(self) -> bool:
        """Whether the steps of a login may wait for others, as for a Kerberos ticket."""
        return self._settings.kerberos is not None

    @property
    def mechanism(self) -> str | None:
        """The SASL mechanism; None where there is no login."""
        return self._settings.mechanism

    def new_login(self, host: str) -> ClientMechanism:
        """A login at another broker, which is on this host."""
        settings = self._settings
        if settings.kerberos is not None:
            return new_kerberos_client(settings.kerberos, host)
        assert settings.mechanism is not None
        return new_client(settings.mechanism, settings.user, settings.password.reveal())

    def context(self) -> ssl.SSLContext | None:
        """The TLS context; None for a plain connection. Raises ConfigError."""
        tls = self._settings.tls
        if tls is None:
            return None
        import ssl

        from ottla.security.tls_context import (
            client_context,
            file_state,
            load_material,
            pem_certificates,
            read_keystore,
        )

        files = file_state(tls)
        if self._context is None or files != self._files:
            if self._settings.same_certificate and tls.keystore is not None:
                context = client_context(replace(tls, keystore=None, truststore=None))
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE  # `check` compares the certificate instead
                own = read_keystore(tls.keystore, tls.key_password)
                load_material(context, own)
                self._own = next(pem_certificates(own.pem.reveal()))
            else:
                context = client_context(tls)
            self._context, self._files = context, files
        return self._context

    def check(self, tls: ssl.SSLObject | None) -> None:
        """Whether the other side is a worker of the same machine; raises WrongBroker."""
        if self._settings.same_certificate and (
            tls is None or tls.getpeercert(binary_form=True) != self._own
        ):
            raise WrongBroker("it does not have the certificate of this broker's workers")
