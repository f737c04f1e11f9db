"""How a client logs in: Kafka's client settings as values, and the login itself.

Rules kept here:
1. The names are Kafka's: `security.protocol`, `ssl.*`, `sasl.mechanism`, `sasl.jaas.config`,
   `sasl.oauthbearer.*`. Names of `ssl.` and `sasl.` that are not known are refused.
2. Values can be pickled and sent elsewhere; files are read, and `${env:}` and `${file:}` resolved,
   where a connection is made. Nothing shows a password in its repr.
3. A failed login is not retried: it would fail again, and lock accounts.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ottla.config.errors import ConfigError, invalid_value
from ottla.config.listener_configs import PER_LISTENER
from ottla.config.listeners import PROTOCOLS, SASL_PROTOCOLS, TLS_PROTOCOLS
from ottla.config.types import Value
from ottla.security.jaas import parse_jaas
from ottla.security.kerberos import GSSAPI
from ottla.security.kerberos import login as kerberos_login
from ottla.security.mechanism import ClientMechanism, LoginFailed
from ottla.security.oauthbearer import OAUTHBEARER
from ottla.security.sasl_client import check_mechanism, new_client, new_kerberos_client
from ottla.security.scram import TOKEN_EXTENSION
from ottla.security.secrets import Secret, resolve
from ottla.security.tls_settings import tls_settings
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    import ssl

_TOKEN_SECONDS: Final = 10.0
_CLIENT_ONLY: Final = ("sasl.mechanism",)
_TOKEN_SETTINGS: Final = (
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope",
)
_REFUSED: Final = ("sasl.client.callback.handler.class", "sasl.login.callback.handler.class",
                   "sasl.login.class", "ssl.engine.factory.class", "ssl.provider")  # fmt: skip


class ClientSecurity(Struct, frozen=True):
    """Settings as they were given, hidden; checked when this is made by `client_security`."""

    protocol: str
    values: tuple[tuple[str, Secret], ...]

    @property
    def has_tls(self) -> bool:
        """True for SSL and SASL_SSL."""
        return self.protocol in TLS_PROTOCOLS

    @property
    def has_sasl(self) -> bool:
        """True for SASL_PLAINTEXT and SASL_SSL."""
        return self.protocol in SASL_PROTOCOLS

    def context(self) -> ssl.SSLContext:
        """The TLS context; reads files. Raises ConfigError."""
        from ottla.security.tls_context import client_context

        texts = self._texts()
        return client_context(tls_settings(lambda name: _value(texts, name)))

    def _texts(self) -> dict[str, str]:
        return {name: resolve(text.reveal(), os.environ) for name, text in self.values}

    def credentials(self) -> tuple[str, str, str]:
        """Mechanism, user and password or token; may fetch a token. Raises ConfigError."""
        texts = self._texts()
        mechanism = texts.get("sasl.mechanism", GSSAPI)
        options = _jaas_options(texts)
        check_mechanism(mechanism)
        if mechanism == OAUTHBEARER:
            return mechanism, "", _token(texts, options)
        user, password = options.get("username"), options.get("password")
        if not user or password is None:
            raise ConfigError(f"{mechanism} needs sasl.jaas.config with a username and a password")
        return mechanism, user, password

    def new_login(self, host: str) -> tuple[str, ClientMechanism]:
        """The mechanism, and a login with it; may fetch a token. Raises ConfigError."""
        texts = self._texts()
        options = _jaas_options(texts)
        if texts.get("sasl.mechanism", GSSAPI) == GSSAPI:
            service = texts.get("sasl.kerberos.service.name")
            return GSSAPI, new_kerberos_client(
                kerberos_login(options, service, "sasl.jaas.config"), host
            )
        mechanism, user, password = self.credentials()
        # With `tokenauth="true"` the user is the id of a delegation token (KIP-48).
        by_token = options.get(TOKEN_EXTENSION, "").lower() == "true"
        return mechanism, new_client(mechanism, user, password, by_token=by_token)


def _jaas_options(texts: Mapping[str, str]) -> dict[str, str]:
    return parse_jaas(texts["sasl.jaas.config"]).options if "sasl.jaas.config" in texts else {}


def client_security(properties: Mapping[str, str]) -> ClientSecurity | None:
    """The settings of security among Kafka's client settings; None for PLAINTEXT."""
    protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        raise invalid_value("security.protocol", protocol, f"Must be one of {', '.join(PROTOCOLS)}")
    values = []
    for name, text in properties.items():
        if not name.startswith(("ssl.", "sasl.", "ottla.ssl.")):
            continue
        known = name in PER_LISTENER or name in _CLIENT_ONLY
        if not known or name in _REFUSED:
            raise ConfigError(f"{name} is not supported by Ottla's client")
        values.append((name, Secret(text)))
    if protocol == "PLAINTEXT":
        return None
    security = ClientSecurity(protocol, tuple(sorted(values, key=lambda pair: pair[0])))
    texts = {name: text.reveal() for name, text in values}
    if security.has_tls and not any("${" in text for text in texts.values()):
        tls_settings(lambda name: _value(texts, name))
    if security.has_sasl and "${" not in texts.get("sasl.mechanism", ""):
        _check_login(texts)
    return security


def _check_login(texts: Mapping[str, str]) -> None:
    mechanism = texts.get("sasl.mechanism", GSSAPI)
    check_mechanism(mechanism)
    if mechanism == GSSAPI and not any("${" in text for text in texts.values()):
        service = texts.get("sasl.kerberos.service.name")
        kerberos_login(_jaas_options(texts), service, "sasl.jaas.config")


def _value(texts: Mapping[str, str], name: str) -> Value:
    row = PER_LISTENER[name]
    return row.parse(texts[name]) if name in texts else row.default


def log_in(security: ClientSecurity, ask: Callable[..., object], where: str, host: str) -> None:
    """Authenticate over a connection; `ask(request, kind, newest=)` sends one request."""
    mechanism, login = security.new_login(host)
    shaken = ask(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse)
    assert isinstance(shaken, SaslHandshakeResponse)
    if shaken.error_code:
        raise refused(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            f"{where}: SASL mechanism {mechanism} is not enabled there (it has "
            f"{', '.join(shaken.mechanisms) or 'none'})",
        )
    try:
        message: bytes | None = login.first()
    except LoginFailed as problem:
        raise refused(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{where}: {problem}") from None
    while message is not None:
        answer = ask(
            SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse, newest=0
        )
        assert isinstance(answer, SaslAuthenticateResponse)
        if answer.error_code:
            raise refused(
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                f"{where}: {answer.error_message or 'authentication failed'}",
            )
        try:
            message = login.step(answer.auth_bytes)
        except LoginFailed as problem:
            raise refused(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{where}: {problem}") from None


class AuthenticationFailed(KafkaError):  # noqa: N818 (it names what happened)
    """The broker does not let this client in, or is not the one it should be. Not retried."""

    @property
    def retriable(self) -> bool:
        """False: it would fail again."""
        return False


def refused(code: ErrorCode, text: str) -> AuthenticationFailed:
    """What a login that failed is."""
    return AuthenticationFailed(code, text)


def _token(texts: Mapping[str, str], options: Mapping[str, str]) -> str:
    import urllib.request
    from urllib.parse import unquote, urlencode, urlsplit

    url = texts.get("sasl.oauthbearer.token.endpoint.url", "")
    unsecured = options.get("unsecuredLoginStringClaim_sub")
    if not url and unsecured:
        return _unsecured_token(unsecured)
    parts = urlsplit(url)
    if parts.scheme == "file":
        try:
            return Path(unquote(parts.path)).read_text("utf-8").strip()
        except OSError as problem:
            raise ConfigError(f"cannot read the token at {url}: {problem.strerror}") from None
    if parts.scheme != "https":
        raise invalid_value(_TOKEN_SETTINGS[0], url, "Must be an https:// or file:// URL")
    client = texts.get(_TOKEN_SETTINGS[1]) or options.get("clientId", "")
    secret = texts.get(_TOKEN_SETTINGS[2]) or options.get("clientSecret", "")
    scope = texts.get(_TOKEN_SETTINGS[3]) or options.get("scope", "")
    form = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
    basic = b64encode(f"{client}:{secret}".encode()).decode()
    request = urllib.request.Request(
        url, urlencode(form).encode(), {"Authorization": f"Basic {basic}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_TOKEN_SECONDS) as answer:
            found = json.loads(answer.read(1 << 20))
        return str(found["access_token"])
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise refused(
            ErrorCode.SASL_AUTHENTICATION_FAILED, f"cannot get a token from {url}: {problem}"
        ) from None


def _unsecured_token(user: str) -> str:
    """An unsigned token, as Kafka's clients make it in development."""
    import time
    from base64 import urlsafe_b64encode

    now = int(time.time())
    claims = {"sub": user, "iat": now, "exp": now + 3600}
    parts = (
        urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
        for part in ({"alg": "none"}, claims)
    )
    return f"{'.'.join(parts)}."
