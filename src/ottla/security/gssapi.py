"""SASL/GSSAPI (RFC 4752): Kerberos tickets, through the library `gssapi` (extra `kerberos`).

Rules kept here:
1. Tokens of the mechanism go to and fro until both sides have a context; then the server offers,
   and the client takes, no security layer: TLS is what protects a connection.
2. The client is who its ticket says. An authorization id is not looked at, as in Kafka.
3. Clients want mutual authentication: a broker that has no key of the service is found out.
4. What the library says of a refused token is for the log; the client gets one text.
5. `first` and `step` of a client may ask a KDC over the network: not for an event loop.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from ottla.config.errors import ConfigError
from ottla.extras import install_command
from ottla.security.kerberos import (
    GSSAPI,
    KerberosAcceptor,
    KerberosLogin,
    Rule,
    parse_rules,
    short_name,
)
from ottla.security.mechanism import LoginFailed, Success

INVALID: Final = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism "
    + GSSAPI
)
_NO_LAYER: Final = 1
_OFFER: Final = bytes((_NO_LAYER, 0, 0, 0))
"""No security layer is the only one there is; messages in one have no size then."""


class GssapiServer:
    """The broker's side of one login."""

    def __init__(self, context: Any, rules: Sequence[Rule]) -> None:
        self._context = context
        self._rules = rules
        self._offered = False

    def step(self, data: bytes) -> tuple[bytes, Success | None]:
        """Take a token, or the answer to the offer of security layers."""
        library = _library()
        try:
            if self._offered:
                return b"", Success(self._user(self._context.unwrap(data).message))
            if not self._context.complete:
                token = self._context.step(data)
                if token or not self._context.complete:
                    return token or b"", None
            elif data:
                raise LoginFailed(INVALID, "a token after the last one")
            self._offered = True
            return self._context.wrap(_OFFER, False).message, None
        except library.exceptions.GSSError as problem:
            raise LoginFailed(INVALID, _plain(problem)) from None

    def _user(self, answer: bytes) -> str:
        if len(answer) < len(_OFFER) or answer[0] != _NO_LAYER:
            raise LoginFailed(INVALID, "the client wants a security layer, which is not offered")
        principal = str(self._context.initiator_name)
        user = short_name(self._rules, principal)
        if user is None:
            raise LoginFailed(
                INVALID, f"no rule of sasl.kerberos.principal.to.local.rules fits {principal!r}"
            )
        return user


class GssapiClient:
    """The client's side of one login, at the service of a host."""

    def __init__(self, login: KerberosLogin, host: str) -> None:
        self._login = login
        self._host = host
        self._context: Any = None
        self._answered = False

    def first(self) -> bytes:
        """The ticket for the broker; raises LoginFailed and ConfigError."""
        gssapi = _library()
        flags = gssapi.RequirementFlag
        service = f"{self._login.service}@{self._host}"
        try:
            name = gssapi.Name(service, gssapi.NameType.hostbased_service)
            self._context = _context_class()(
                name=name,
                usage="initiate",
                creds=_own_tickets(self._login),
                mech=gssapi.MechType.kerberos,
                flags=flags.mutual_authentication | flags.integrity
                | flags.replay_detection | flags.out_of_sequence_detection,
            )  # fmt: skip
            token: bytes = self._context.step(None)
        except gssapi.exceptions.GSSError as problem:
            raise LoginFailed(f"no Kerberos ticket for {service}: {_plain(problem)}") from None
        return token

    def step(self, challenge: bytes) -> bytes | None:
        """The answer to a challenge, None where the login is complete; raises LoginFailed."""
        if self._answered:
            return None
        context = self._context
        try:
            if not context.complete:
                return context.step(challenge) or b""
            offer = context.unwrap(challenge).message
            if len(offer) != len(_OFFER) or not offer[0] & _NO_LAYER:
                raise LoginFailed("the broker wants a security layer, which is not supported")
            self._answered = True
            answer: bytes = context.wrap(_OFFER, False).message
        except _library().exceptions.GSSError as problem:
            raise LoginFailed(f"the broker's Kerberos token is wrong: {_plain(problem)}") from None
        return answer


def new_acceptor(settings: KerberosAcceptor) -> Callable[[], GssapiServer]:
    """What makes logins of a listener; looks at the keytab. Raises ConfigError."""
    gssapi = _library()
    _check_keytab(settings)
    try:
        credentials = gssapi.Credentials(
            usage="accept",
            mechs=[gssapi.MechType.kerberos],
            name=gssapi.Name(settings.principal, gssapi.NameType.kerberos_principal),
            store={"keytab": f"FILE:{settings.keytab}"},
        )
    except gssapi.exceptions.GSSError as problem:
        raise ConfigError(
            f"{settings.setting}: no key of {settings.principal} in {settings.keytab}: "
            f"{_plain(problem)}"
        ) from None
    rules = parse_rules(settings.rules, _default_realm())
    context = _context_class()
    return lambda: GssapiServer(context(usage="accept", creds=credentials), rules)


def _check_keytab(settings: KerberosAcceptor) -> None:
    try:
        with Path(settings.keytab).open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
    except OSError as problem:
        raise ConfigError(
            f"{settings.setting}: cannot read the keytab {settings.keytab}: {problem.strerror}"
        ) from None
    if mode & 0o004:
        raise ConfigError(
            f"{settings.setting}: the keytab can be read by every user of this machine; "
            f"chmod 600 {settings.keytab}"
        )


def _own_tickets(login: KerberosLogin) -> Any:
    gssapi = _library()
    name = None
    if login.principal is not None:
        name = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
    if login.keytab is None:
        return gssapi.Credentials(usage="initiate", name=name)
    # In memory, and shared by all connections: the library renews them by the keytab.
    cache_name = sha256(f"{login.principal} {login.keytab}".encode()).hexdigest()[:16]
    store = {"client_keytab": f"FILE:{login.keytab}", "ccache": f"MEMORY:ottla-{cache_name}"}
    return gssapi.Credentials(usage="initiate", name=name, store=store)


def _default_realm() -> str:
    """Of this machine; empty where it has none."""
    gssapi = _library()
    try:
        name = gssapi.Name("anyone", gssapi.NameType.user)
        return str(name.canonicalize(gssapi.MechType.kerberos)).partition("@")[2]
    except gssapi.exceptions.GSSError:
        return ""


@cache
def _library() -> Any:
    try:
        return import_module("gssapi")
    except ImportError as problem:
        said = f" ({problem})" if problem.name != "gssapi" else ""
        raise ConfigError(
            f"GSSAPI needs the package gssapi{said}; install MIT Kerberos (Debian: libkrb5-dev, "
            f"gcc, python3-dev) and: {install_command('kerberos')}"
        ) from None


@cache
def _context_class() -> Any:
    """A context that raises at once, instead of at its next use."""
    found = type("Context", (_library().SecurityContext,), {})
    found.__DEFER_STEP_ERRORS__ = False  # type: ignore[attr-defined]  # its metaclass sets it
    return found


def _plain(problem: Any) -> str:
    """The library's words without its codes: those of Kerberos, or else those of GSSAPI."""
    try:
        said = [*problem.get_all_statuses(problem.min_code, False)]
        known = [text for text in said if text not in ("", "Success", "Unknown error")]
        return "; ".join(known or problem.get_all_statuses(problem.maj_code, True))
    except Exception:  # noqa: BLE001  # a text for a log must not end a login otherwise
        return str(problem)
