"""What a listener needs at run time: its TLS context, its logins, its mapping rules.

Rules kept here:
1. A door is made before anything is bound: a wrong certificate or JAAS line is a ConfigError.
2. A certificate whose files have changed is loaded again. One that cannot be loaded, or that may
   not take the place of the old one, is reported once, and the old one stays. Connections that are
   open keep theirs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog

from ottla.config import BrokerConfig
from ottla.config.errors import ConfigError
from ottla.config.listener_configs import PREFIX
from ottla.config.listeners import Listener
from ottla.security.jwt import SignedValidator, UnsecuredValidator
from ottla.security.kerberos import GSSAPI, KerberosAcceptor
from ottla.security.listeners import (
    ListenerSecurity,
    OauthSettings,
    SaslSettings,
    listener_security,
)
from ottla.security.mapping import mapped
from ottla.security.mechanism import ServerMechanism
from ottla.security.oauthbearer import OAUTHBEARER, OauthBearerServer, Validate
from ottla.security.plain import PLAIN, PlainServer
from ottla.security.principal import REGISTRY, WORKER, Principal
from ottla.security.private import REGISTRY_MECHANISM, WORKER_MECHANISM, private_login
from ottla.security.sasl import GateSettings, SaslGate
from ottla.security.scram import FindCredential, FindToken, ScramServer

if TYPE_CHECKING:
    import ssl

    from ottla.security.jwks import JwksReader
    from ottla.security.tls_context import Material

log = structlog.get_logger()


class Door:
    """One listener's side of authentication."""

    def __init__(
        self,
        security: ListenerSecurity,
        find_credential: FindCredential,
        find_token: FindToken,
        secret: Callable[[], bytes],
        own_processes: Mapping[str, tuple[Principal, str]] | None = None,
        *,
        offload: bool = False,
    ) -> None:
        """`own_processes`: who logs in by a private mechanism, and with which password.

        `offload`: the kernel may encrypt, where it can.
        """
        self.name = security.name
        self._security = security
        self._rules = security.rules()
        self._jwks: JwksReader | None = None
        self._gate: GateSettings | None = None
        self.context: ssl.SSLContext | None = None
        self._material: Material | None = None
        self.offloads = False
        """Whether the kernel is to encrypt what is sent."""
        self._tried: object = None
        """The TLS settings and the state of their files that were loaded last, or could not be."""
        if security.tls is not None:
            from ottla.security.tls_context import file_state, server_context

            self._tried = (security.tls, file_state(security.tls))
            self.context, self._material = server_context(security.tls, self._prefix)
            if offload:
                from ottla.server.kernel_tls import is_available

                self.offloads = is_available()
            self._allow_offload()
            _warn_of_expiry(self.name, self._material)
        if security.sasl is not None:

            def scram(mechanism: str) -> ServerMechanism:
                return ScramServer(mechanism, find_credential, secret(), find_token)

            self._gate = self._new_settings(security.sasl, scram, own_processes or {})

    @classmethod
    def of(
        cls,
        config: BrokerConfig,
        listener: Listener,
        find_credential: FindCredential,
        find_token: FindToken,
        secret: Callable[[], bytes],
    ) -> Door:
        """The door of a listener; raises ConfigError."""
        own = {}
        if config.ottla_worker_password and listener == config.inter_broker:
            own[WORKER_MECHANISM] = (WORKER, config.ottla_worker_password)
        if config.ottla_registry_password and listener == config.bound_listeners[0]:
            own[REGISTRY_MECHANISM] = (REGISTRY, config.ottla_registry_password)
        security = listener_security(config, listener)
        offload = config.ottla_tls_offload == "auto"
        return cls(security, find_credential, find_token, secret, own, offload=offload)

    @property
    def has_tls(self) -> bool:
        """True for SSL and SASL_SSL."""
        return self.context is not None

    @property
    def has_sasl(self) -> bool:
        """True for SASL_PLAINTEXT and SASL_SSL."""
        return self._gate is not None

    def new_gate(self) -> SaslGate | None:
        """The login of a new connection; None where there is none."""
        return None if self._gate is None else SaslGate(self._gate)

    def mapped(self, subject: str) -> str | None:
        """The user of a certificate's subject."""
        return mapped(self._rules, subject)

    def start(self) -> None:
        """Begin to read the key set of OAUTHBEARER."""
        if self._jwks is not None:
            self._jwks.start()

    def stop(self) -> None:
        """Stop reading it."""
        if self._jwks is not None:
            self._jwks.stop()

    # Reloading ----------------------------------------------------------------------------

    @property
    def _prefix(self) -> str:
        return f"{PREFIX}{self.name.lower()}."

    def has_changed(self, config: BrokerConfig, listener: Listener) -> bool:
        """Whether the TLS settings or the files of them are not those that were loaded."""
        return self._security.tls is not None and self._wanted(config, listener) != self._tried

    def _wanted(self, config: BrokerConfig, listener: Listener) -> object:
        from ottla.security.tls_context import file_state

        try:
            tls = listener_security(config, listener).tls
        except ConfigError as problem:
            return str(problem)
        assert tls is not None
        return tls, file_state(tls)

    def reload(self, config: BrokerConfig, listener: Listener) -> None:
        """Load the certificate again; reads files, so a thread does it."""
        from ottla.security.tls_context import check_reload, server_context

        self._tried = self._wanted(config, listener)  # what is wrong is reported once
        try:
            security = listener_security(config, listener)
            assert security.tls is not None
            context, material = server_context(security.tls, self._prefix)
            assert self._material is not None
            check_reload(self._material, material, security.tls)
        except ConfigError as problem:
            log.error(
                "certificate not reloaded; keeping the old one",
                listener=self.name,
                reason=str(problem),
            )
            return
        self._security, self.context, self._material = security, context, material
        self._allow_offload()
        log.info(
            "certificate reloaded",
            listener=self.name,
            subject=material.certificate.subject,
            expires=material.certificate.not_after.isoformat(),
        )

    def _allow_offload(self) -> None:
        if self.offloads and self.context is not None:
            from ottla.server.kernel_tls import ENABLE_KTLS

            self.context.options |= ENABLE_KTLS

    # Logins -------------------------------------------------------------------------------

    def _new_settings(
        self,
        sasl: SaslSettings,
        scram: Callable[[str], ServerMechanism],
        own_processes: Mapping[str, tuple[Principal, str]],
    ) -> GateSettings:
        passwords = {user: password.reveal() for user, password in sasl.passwords.items()}
        validate = None if sasl.oauth is None else self._validator(sasl.oauth)
        by_ticket = None if sasl.kerberos is None else _kerberos(sasl.kerberos)

        def factory(mechanism: str) -> Callable[[], ServerMechanism]:
            if mechanism == PLAIN:
                return lambda: PlainServer(passwords)
            if mechanism == OAUTHBEARER:
                assert validate is not None
                return lambda: OauthBearerServer(validate)
            if mechanism == GSSAPI:
                assert by_ticket is not None
                return by_ticket
            return lambda: scram(mechanism)

        private = {
            mechanism: (private_login(who, password), who)
            for mechanism, (who, password) in own_processes.items()
        }
        return GateSettings(
            mechanisms={mechanism: factory(mechanism) for mechanism in sasl.mechanisms},
            largest_frame=sasl.largest_frame,
            max_reauth_ms=sasl.max_reauth_ms,
            now_ms=_now_ms,
            private=private,
        )

    def _validator(self, oauth: OauthSettings) -> Validate:
        if oauth.jwks_url is None:
            log.warning("unsecured tokens are accepted: anyone can log in as any user",
                        listener=self.name)  # fmt: skip
            return UnsecuredValidator(oauth.rules, _now_ms)
        from ottla.security.jwks import JwksReader

        self._jwks = JwksReader(oauth)
        return SignedValidator(oauth.rules, self._jwks.keys, _now_ms)


def _kerberos(settings: KerberosAcceptor) -> Callable[[], ServerMechanism]:
    from ottla.security.gssapi import new_acceptor  # an extra

    return new_acceptor(settings)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _warn_of_expiry(listener: str, material: Material) -> None:
    ends = material.certificate.not_after
    if ends < datetime.now(UTC):
        log.error(
            "certificate has expired; clients will refuse it",
            listener=listener,
            subject=material.certificate.subject,
            expired=ends.isoformat(),
        )
