"""Logging in: sessions, the users file, and the brokers' own credentials.

Rules kept here:
1. A session is a random token in a cookie that scripts cannot read and other sites cannot send. It
   is kept in memory, ends after hours without use, and with the console.
2. With `Login.SASL` a session has clients of its own, which log in to the brokers as that user.
3. A failed login says no more than that, takes as long for a user that does not exist, and few can
   be tried at a time.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from hashlib import sha256
from threading import BoundedSemaphore, Lock
from time import monotonic
from typing import Final, NamedTuple

import structlog
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ottla.client.security import AuthenticationFailed, ClientSecurity
from ottla.console.calls import BadRequest, Call
from ottla.console.cluster import Cluster
from ottla.console.settings import ConsoleSettings, Login
from ottla.console.users import UsersFile
from ottla.security.secrets import Secret

log = structlog.get_logger()

COOKIE: Final = "ottla_console"
IDLE_SECONDS: Final = 8 * 3600.0
MOST_SESSIONS: Final = 1000
CHECKED_AT_ONCE: Final = 2
"""scrypt takes 16 MB and tens of milliseconds each."""
_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


class Session(NamedTuple):
    """Who has logged in."""

    user: str
    cluster: Cluster
    used: float


class LoginFailed(Exception):  # noqa: N818 (it names what happened)
    """A user or password is wrong."""


class Sessions:
    """Who has logged in, and how that is checked."""

    def __init__(
        self,
        settings: ConsoleSettings,
        cluster: Cluster,
        users: UsersFile | None = None,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._users = users
        self._now = now
        self._lock = Lock()
        self._sessions: dict[bytes, Session] = {}
        self._checks = BoundedSemaphore(CHECKED_AT_ONCE)

    def find(self, token: str | None) -> Session | None:
        """The session of a cookie."""
        if token is None:
            return None
        key = _digest(token)
        with self._lock:
            found = self._sessions.get(key)
            if found is None or self._now() - found.used > IDLE_SECONDS:
                return None
            self._sessions[key] = found._replace(used=self._now())
            return found

    def begin(self, user: str, password: str) -> str:
        """Check a password; returns the token of a new session. Raises LoginFailed, KafkaError."""
        with self._checks:
            cluster = self._checked(user, password)
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._forget_old()
            self._sessions[_digest(token)] = Session(user, cluster, self._now())
        return token

    def end(self, token: str | None) -> None:
        """Forget a session."""
        with self._lock:
            found = self._sessions.pop(_digest(token or ""), None)
        self._close(found)

    def close(self) -> None:
        """Forget all."""
        with self._lock:
            sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            self._close(session)

    def _close(self, session: Session | None) -> None:
        if session is not None and session.cluster is not self._cluster:
            session.cluster.close()

    def _checked(self, user: str, password: str) -> Cluster:
        if self._settings.login is Login.USERS:
            if self._users is None or not self._users.is_password(user, password):
                raise LoginFailed
            return self._cluster
        security = self._settings.security
        assert security is not None
        cluster = Cluster(self._settings.bootstrap_servers, as_user(security, user, password))
        try:
            with cluster.client() as client:
                client.metadata([])
        except AuthenticationFailed:
            raise LoginFailed from None
        except BaseException:
            cluster.close()
            raise
        return cluster

    def _forget_old(self) -> None:
        """Make room for one more."""
        now = self._now()
        by_age = sorted(self._sessions.items(), key=lambda item: item[1].used)
        too_many = len(by_age) - MOST_SESSIONS + 1
        for number, (key, session) in enumerate(by_age):
            if number < too_many or now - session.used > IDLE_SECONDS:
                del self._sessions[key]
                self._close(session)


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "replace")).digest()


def as_user(security: ClientSecurity, user: str, password: str) -> ClientSecurity:
    """The same way to the brokers, as somebody else."""
    values = {name: text for name, text in security.values if name != "sasl.jaas.config"}
    mechanism = values.get("sasl.mechanism", Secret("PLAIN")).reveal()
    module = _MODULES.get(mechanism, _MODULES["PLAIN"])
    jaas = f"{module} required username={_quoted(user)} password={_quoted(password)};"
    values["sasl.jaas.config"] = Secret(jaas)
    return ClientSecurity(security.protocol, tuple(sorted(values.items(), key=lambda i: i[0])))


def _quoted(text: str) -> str:
    """A JAAS value. `${...}` in it must not be resolved: it is a stranger's."""
    if "\n" in text or "${" in text or "\0" in text:
        raise LoginFailed
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def login_form(call: Call) -> Response:
    """The page that asks for a user and password."""
    return call.render("login.html", failed=False)


def log_in(call: Call, sessions: Sessions) -> Response:
    """Begin a session."""
    user, password = call.form.get("user", ""), call.form.get("password", "")
    if not user or len(user) > 200 or len(password) > 1000:
        raise BadRequest("enter a user and a password")
    try:
        token = sessions.begin(user, password)
    except LoginFailed:
        log.warning("login failed", user=user)
        return call.render("login.html", 401, failed=True)
    answer = RedirectResponse("/", 303)
    answer.set_cookie(
        COOKIE,
        token,
        httponly=True,
        samesite="strict",
        secure=call.console.settings.has_tls,
    )
    return answer


def log_out(request: Request, sessions: Sessions) -> Response:
    """End a session."""
    sessions.end(request.cookies.get(COOKIE))
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer
