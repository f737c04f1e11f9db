"""What each listener asks of its clients, and how brokers authenticate to each other. Pure.

Rules kept here:
1. Everything is checked when it is read: a listener that could let nobody in, or someone whom it
   should not, is a ConfigError that names the setting.
2. A setting of the listener takes precedence over the plain one (`config/listener_configs.py`).
3. Nothing here shows a password in its repr.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from ottla.config import BrokerConfig
from ottla.config.errors import ConfigError, invalid_value
from ottla.config.listener_configs import PREFIX
from ottla.config.listeners import Listener, is_loopback
from ottla.config.types import Value
from ottla.security.jaas import Jaas, parse_jaas
from ottla.security.jwt import TokenRules
from ottla.security.kerberos import GSSAPI, KerberosAcceptor, KerberosLogin, acceptor
from ottla.security.kerberos import login as kerberos_login
from ottla.security.mapping import DEFAULT, Rule, parse_mapping_rules
from ottla.security.oauthbearer import OAUTHBEARER
from ottla.security.plain import PLAIN
from ottla.security.principal import WORKER
from ottla.security.private import WORKER_MECHANISM
from ottla.security.scram import HASHES
from ottla.security.secrets import Secret
from ottla.security.tls_settings import TlsSettings, tls_settings

MECHANISMS: Final = (PLAIN, *HASHES, OAUTHBEARER, GSSAPI)
"""Between the brokers of `--workers`: SCRAM-SHA-256 with a password made at each start."""
_MODULES: Final = {
    PLAIN: "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    OAUTHBEARER: "OAuthBearerLoginModule",
    GSSAPI: "Krb5LoginModule",
}
_OAUTH_HANDLERS: Final = (
    "OAuthBearerValidatorCallbackHandler",
    "OAuthBearerUnsecuredValidatorCallbackHandler",
)


class OauthSettings(Struct, frozen=True):
    """How tokens are judged. Without a URL they are unsecured ones."""

    rules: TokenRules
    jwks_url: str | None
    refresh_ms: int = 3_600_000
    retry_ms: int = 100
    longest_retry_ms: int = 10_000


class SaslSettings(Struct, frozen=True):
    """The logins of a listener."""

    mechanisms: tuple[str, ...]
    passwords: dict[str, Secret]
    """Of PLAIN, by user."""
    max_reauth_ms: dict[str, int]
    largest_frame: int
    oauth: OauthSettings | None
    kerberos: KerberosAcceptor | None = None


class ListenerSecurity(Struct, frozen=True):
    """What a listener asks of its clients; neither TLS nor SASL for PLAINTEXT."""

    name: str
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None
    mapping_rules: str = DEFAULT

    @property
    def authenticates(self) -> bool:
        """True if every client of it is known by name."""
        if self.sasl is not None:
            oauth = self.sasl.oauth
            return oauth is None or oauth.jwks_url is not None  # else anyone can be anyone
        return self.tls is not None and self.tls.client_auth == "required"

    def rules(self) -> list[Rule]:
        """`ssl.principal.mapping.rules`."""
        return parse_mapping_rules(self.mapping_rules)


class LinkSettings(Struct, frozen=True):
    """How a broker logs in at the others; nothing of it for PLAINTEXT."""

    tls: TlsSettings | None = None
    mechanism: str | None = None
    user: str = ""
    password: Secret = Secret("")
    same_certificate: bool = False
    """The other broker must show our own certificate: it is a worker of the same machine."""
    kerberos: KerberosLogin | None = None


def listener_security(config: BrokerConfig, listener: Listener) -> ListenerSecurity:
    """What one listener asks; raises ConfigError."""
    tls = sasl = None
    mapping = DEFAULT
    prefix = f"{PREFIX}{listener.name.lower()}."
    if listener.has_tls:
        tls = tls_settings(lambda name: config.listener_value(listener.name, name), prefix)
        mapping = str(config.listener_value(listener.name, "ssl.principal.mapping.rules"))
        try:
            parse_mapping_rules(mapping)
        except ValueError as problem:
            raise invalid_value("ssl.principal.mapping.rules", mapping, str(problem)) from None
    if listener.has_sasl:
        sasl = _sasl(config, listener.name)
    return ListenerSecurity(listener.name, tls, sasl, mapping)


def _sasl(config: BrokerConfig, listener: str) -> SaslSettings:
    enabled = config.listener_value(listener, "sasl.enabled.mechanisms")
    assert isinstance(enabled, tuple)
    setting = f"{PREFIX}{listener.lower()}.sasl.enabled.mechanisms"
    for mechanism in enabled:
        if mechanism not in MECHANISMS:
            raise invalid_value(setting, mechanism, f"Must be of {', '.join(MECHANISMS)}")
    if not enabled:
        raise invalid_value(setting, "", f"Must name at least one of {', '.join(MECHANISMS)}")
    passwords: dict[str, Secret] = {}
    oauth = kerberos = None
    for mechanism in enabled:
        jaas = _jaas(config, listener, mechanism)
        _check_handler(config, listener, mechanism)
        if mechanism == PLAIN:
            passwords = {} if jaas is None else {u: Secret(p) for u, p in jaas.users.items()}
            if not passwords:
                raise ConfigError(
                    f"PLAIN has no users: set {_jaas_name(listener, PLAIN)} to "
                    "org.apache.kafka.common.security.plain.PlainLoginModule required "
                    'user_NAME="PASSWORD" ;'
                )
        elif mechanism == OAUTHBEARER:
            oauth = _oauth(config, listener)
        elif mechanism == GSSAPI:
            kerberos = acceptor(
                {} if jaas is None else jaas.options,
                _service_name(config, listener),
                _texts(config.listener_value(listener, "sasl.kerberos.principal.to.local.rules")),
                _jaas_name(listener, GSSAPI),
            )
    return SaslSettings(
        mechanisms=enabled,
        passwords=passwords,
        max_reauth_ms={
            each: _int(config.listener_value(listener, "connections.max.reauth.ms", each))
            for each in enabled
        },
        largest_frame=_int(config.listener_value(listener, "sasl.server.max.receive.size")),
        oauth=oauth,
        kerberos=kerberos,
    )


def _jaas_name(listener: str, mechanism: str) -> str:
    return f"{PREFIX}{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"


def _jaas(config: BrokerConfig, listener: str, mechanism: str) -> Jaas | None:
    text = config.listener_value(listener, "sasl.jaas.config", mechanism)
    if not isinstance(text, str) or not text:
        return None
    name = _jaas_name(listener, mechanism)
    jaas = parse_jaas(text, name)
    if jaas.module.rpartition(".")[2] != _MODULES[mechanism]:
        raise invalid_value(name, "[hidden]", f"The login module of {mechanism} is "
                            f"{_MODULES[mechanism]}, not {jaas.module}")  # fmt: skip
    return jaas


def _check_handler(config: BrokerConfig, listener: str, mechanism: str) -> None:
    handler = config.listener_value(listener, "sasl.server.callback.handler.class", mechanism)
    known = mechanism == OAUTHBEARER and str(handler).rpartition(".")[2] in _OAUTH_HANDLERS
    if handler and not known:
        raise invalid_value(
            f"{PREFIX}{listener.lower()}.{mechanism.lower()}.sasl.server.callback.handler.class",
            handler,
            "Handlers are Java classes, which Ottla cannot run",
        )


def _oauth(config: BrokerConfig, listener: str) -> OauthSettings:
    def get(name: str) -> Value:
        return config.listener_value(listener, f"sasl.oauthbearer.{name}")

    url = get("jwks.endpoint.url")
    handler = config.listener_value(listener, "sasl.server.callback.handler.class", OAUTHBEARER)
    wants_unsecured = "Unsecured" in str(handler or "")
    if (not url or wants_unsecured) and not config.ottla_allow_unsecured_jwt:
        raise ConfigError(
            "OAUTHBEARER without sasl.oauthbearer.jwks.endpoint.url accepts tokens that anyone "
            "can write; set the URL, or ottla.allow.unsecured.jwt=true for development"
        )
    name = "sasl.oauthbearer.jwks.endpoint.url"
    if url and not str(url).startswith(("https://", "file://")):
        raise invalid_value(name, url, "Must be an https:// or file:// URL")
    audience = config.sasl_oauthbearer_expected_audience
    return OauthSettings(
        rules=TokenRules(
            issuer=config.sasl_oauthbearer_expected_issuer or None,
            audience=audience,
            clock_skew_seconds=config.sasl_oauthbearer_clock_skew_seconds,
            subject_claim=config.sasl_oauthbearer_sub_claim_name,
            scope_claim=config.sasl_oauthbearer_scope_claim_name,
        ),
        jwks_url=str(url) if url and not wants_unsecured else None,
        refresh_ms=config.sasl_oauthbearer_jwks_endpoint_refresh_ms,
        retry_ms=config.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms,
        longest_retry_ms=config.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms,
    )


def link_settings(config: BrokerConfig) -> LinkSettings:
    """How this broker logs in at others; raises ConfigError where it could not."""
    listener = config.inter_broker
    worker = config.ottla_worker_password
    tls = None
    if listener.has_tls:
        prefix = f"{PREFIX}{listener.name.lower()}."
        tls = tls_settings(lambda name: config.listener_value(listener.name, name), prefix)
    if worker:
        mechanism = WORKER_MECHANISM if listener.has_sasl else None
        return LinkSettings(tls, mechanism, WORKER.name, Secret(worker), listener.has_tls)
    if not listener.has_sasl or not config.ottla_store:
        return LinkSettings(tls)  # a broker alone logs in nowhere
    mechanism = str(config.listener_value(listener.name, "sasl.mechanism.inter.broker.protocol"))
    enabled = config.listener_value(listener.name, "sasl.enabled.mechanisms")
    assert isinstance(enabled, tuple)
    setting = "sasl.mechanism.inter.broker.protocol"
    if mechanism not in enabled:
        raise invalid_value(
            setting, mechanism, f"Must be one of sasl.enabled.mechanisms ({', '.join(enabled)})"
        )
    if mechanism == OAUTHBEARER:
        raise invalid_value(setting, mechanism, "Brokers log in with SCRAM, PLAIN or GSSAPI")
    jaas = _jaas(config, listener.name, mechanism)
    options = {} if jaas is None else jaas.options
    if mechanism == GSSAPI:
        service = _service_name(config, listener.name)
        login = kerberos_login(options, service, _jaas_name(listener.name, GSSAPI))
        return LinkSettings(tls, mechanism, kerberos=login)
    if not options.get("username") or not options.get("password"):
        raise ConfigError(
            f"Brokers cannot authenticate to each other: set username and password in "
            f"{_jaas_name(listener.name, mechanism)}"
        )
    return LinkSettings(tls, mechanism, options["username"], Secret(options["password"]))


def insecure_listeners(config: BrokerConfig) -> list[Listener]:
    """Those that are reached from other machines and do not know who their clients are."""
    return [
        listener
        for listener in config.bound_listeners
        if not is_loopback(listener.host) and not listener_security(config, listener).authenticates
    ]


def _service_name(config: BrokerConfig, listener: str) -> str | None:
    found = config.listener_value(listener, "sasl.kerberos.service.name")
    return found if isinstance(found, str) else None


def _texts(value: Value) -> tuple[str, ...]:
    assert isinstance(value, tuple)
    return value


def _int(value: Value) -> int:
    assert isinstance(value, int)
    return value
