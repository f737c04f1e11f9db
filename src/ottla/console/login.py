"""Logging in: sessions, the users file, and the brokers' own credentials.

Rules kept here:
1. A session is a random token in a cookie that scripts cannot read and other sites cannot send. It
   is kept in memory, ends after hours without use, and with the console.
2. With `Login.SASL` a session has clients of its own, which log in to the brokers as that user.
3. A failed login says no more than that and takes as long for a user that does not exist. Few are
   tried at a time, and after some failures an address or a user has to wait.
4. A session of a user of the file ends when the user's line is changed or removed.
"""

from __future__ import annotations

import math
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
from ottla.console.calls import BadRequest, ConsoleCall
from ottla.console.cluster import Cluster
from ottla.console.settings import ConsoleSettings, Login
from ottla.console.users import UsersFile
from ottla.security.attempts import Attempts
from ottla.security.secrets import Secret

log = structlog.get_logger()

COOKIE: Final = "ottla_console"
IDLE_SECONDS: Final = 8 * 3600.0
MOST_SESSIONS: Final = 1000
CHECKED_AT_ONCE: Final = 2
"""scrypt takes 16 MB and tens of milliseconds each."""
CHECK_PATIENCE_SECONDS: Final = 2.0
LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


class Session(NamedTuple):
    """Who has logged in."""

    user: str
    cluster: Cluster
    used: float
    mark: str = ""
    """What the users file held of the user; empty without one."""


class ConsoleLoginFailed(Exception):  # noqa: N818 (it names what happened)
    """A user or password is wrong."""


class TooManyLogins(Exception):  # noqa: N818 (it names what happened)
    """No password is looked at now."""

    def __init__(self, wait: float) -> None:
        super().__init__("too many failed logins")
        self.wait = wait
        """Seconds until one is."""


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
        self._attempts = Attempts(now)

    def find(self, token: str | None) -> Session | None:
        """The session of a cookie."""
        if token is None:
            return None
        key = _digest(token)
        with self._lock:
            found = self._sessions.get(key)
            if found is None or self._now() - found.used > IDLE_SECONDS:
                return None
            if found.mark != self._mark(found.user):
                return None
            self._sessions[key] = found._replace(used=self._now())
            return found

    def begin(self, user: str, password: str, address: str) -> str:
        """Check a password; returns the token of a new session. Raises LoginFailed, TooManyLogins,
        KafkaError.
        """
        wait = self._attempts.wait(address, user)
        if wait > 0:
            raise TooManyLogins(wait)
        if not self._checks.acquire(timeout=CHECK_PATIENCE_SECONDS):
            raise TooManyLogins(1.0)
        try:
            mark = self._mark(user)
            cluster = self._checked(user, password)
        except ConsoleLoginFailed:
            self._attempts.failed(address, user)
            raise
        finally:
            self._checks.release()
        self._attempts.succeeded(address, user)
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._forget_old()
            self._sessions[_digest(token)] = Session(user, cluster, self._now(), mark)
        return token

    def _mark(self, user: str) -> str:
        return "" if self._users is None else self._users.mark(user)

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
                raise ConsoleLoginFailed
            return self._cluster
        security = self._settings.security
        assert security is not None
        cluster = Cluster(self._settings.bootstrap_servers, as_user(security, user, password))
        try:
            with cluster.client() as client:
                client.metadata([])
        except AuthenticationFailed:
            raise ConsoleLoginFailed from None
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


def login_mechanism(security: ClientSecurity) -> str | None:
    """The mechanism by which users log in to the brokers; None where it needs no password."""
    values = dict(security.values)
    mechanism = values.get("sasl.mechanism", Secret("")).reveal().strip()
    return mechanism if mechanism in LOGIN_MODULES else None


def as_user(security: ClientSecurity, user: str, password: str) -> ClientSecurity:
    """The same way to the brokers, as another client."""
    values = {name: text for name, text in security.values if name != "sasl.jaas.config"}
    mechanism = login_mechanism(security)
    assert mechanism is not None  # it was checked when the console was started
    module = LOGIN_MODULES[mechanism]
    jaas = f"{module} required username={_quoted(user)} password={_quoted(password)};"
    values["sasl.jaas.config"] = Secret(jaas)
    return ClientSecurity(security.protocol, tuple(sorted(values.items(), key=lambda i: i[0])))


def _quoted(text: str) -> str:
    """A JAAS value. `${...}` in it must not be resolved: it is a stranger's."""
    if "\n" in text or "${" in text or "\0" in text:
        raise ConsoleLoginFailed
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def login_form(call: ConsoleCall) -> Response:
    """The page that asks for a user and password."""
    return call.render("login.html", failed=False, wait=0)


def log_in(call: ConsoleCall, sessions: Sessions) -> Response:
    """Begin a session."""
    user, password = call.form.get("user", ""), call.form.get("password", "")
    if not user or len(user) > 200 or len(password) > 1000:
        raise BadRequest("enter a user and a password")
    try:
        token = sessions.begin(user, password, call.address)
    except TooManyLogins as problem:
        log.warning("login refused: too many failures", user=user, address=call.address)
        answer = call.render("login.html", 429, failed=False, wait=math.ceil(problem.wait))
        answer.headers["retry-after"] = str(math.ceil(problem.wait))
        return answer
    except ConsoleLoginFailed:
        log.warning("login failed", user=user, address=call.address)
        return call.render("login.html", 401, failed=True, wait=0)
    redirect = RedirectResponse("/", 303)
    redirect.set_cookie(
        COOKIE,
        token,
        httponly=True,
        samesite="strict",
        secure=call.console.settings.has_tls,
    )
    return redirect


def log_out(request: Request, sessions: Sessions) -> Response:
    """End a session."""
    sessions.end(request.cookies.get(COOKIE))
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer
