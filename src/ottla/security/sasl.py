"""The gate before authentication: Kafka's SASL states for one connection. Pure.

Rules kept here:
1. Until a client is authenticated only ApiVersions (once), SaslHandshake and SaslAuthenticate are
   looked at; any other request ends the connection.
2. SaslHandshake v1 is followed by SaslAuthenticate requests, v0 by bare tokens with their sizes.
3. After a failure nothing more is taken. The client gets the mechanism's text, never the reason.
4. An authenticated client may authenticate again (KIP-368): with the same mechanism, as the same
   user, and not more than once a second. When its session has expired it must.
5. A session ends with its credential or after `connections.max.reauth.ms`, whichever is first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from struct import Struct as Packing
from typing import Final

from msgspec import Struct

from ottla.security.mechanism import LoginFailed, ServerMechanism, Success
from ottla.security.principal import USER, Principal
from ottla.wire import codec
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.fields import DecodeError
from ottla.wire.headers import RequestHeader, read_request_header
from ottla.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.reply import UnanswerableError

LEAST_REAUTHENTICATION_SECONDS: Final = 1.0
_HANDSHAKE: Final = int(ApiKey.SASL_HANDSHAKE)
_AUTHENTICATE: Final = int(ApiKey.SASL_AUTHENTICATE)
_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
_KEY: Final = Packing(">h")
_LAST_API_VERSIONS: Final = 4


class GateState(Enum):
    """How far a login is."""

    HANDSHAKE_OR_VERSIONS = "the client may ask for versions, and must choose a mechanism"
    HANDSHAKE = "the client must choose a mechanism"
    TOKENS = "the login continues in SaslAuthenticate requests"
    BARE_TOKENS = "the login continues in bare tokens (SaslHandshake v0)"
    COMPLETE = "the client is authenticated"
    FAILED = "the login has failed; nothing more is taken"


class Verdict(Enum):
    """What one frame has led to."""

    PASS = "it is a request for the broker"
    MORE = "the login continues"
    DONE = "the client is authenticated"
    FAILED = "the login has failed: answer after a while, then close"


class Step(Struct, frozen=True):
    """What to do about a frame."""

    verdict: Verdict
    header: RequestHeader | None = None
    """Of the request that the reply is for; None for a bare token."""
    reply: bytes | None = None
    """The body of the reply, or the bare token; None where there is none to send."""
    problem: str = ""
    """Why the login has failed, for the log."""


PASSED: Final = Step(Verdict.PASS)
NewMechanism = Callable[[], ServerMechanism]


class GateSettings(Struct, frozen=True):
    """What the gates of one listener have in common."""

    mechanisms: Mapping[str, NewMechanism]
    """The enabled mechanisms by name, in the order of the handshake's reply."""
    largest_frame: int = 524_288
    max_reauth_ms: int | Mapping[str, int] = 0
    """`connections.max.reauth.ms`; by mechanism where they differ."""
    now_ms: Callable[[], int] = lambda: 0
    private: Mapping[str, tuple[NewMechanism, Principal]] = {}
    """Mechanisms that are not offered to clients, and who is authenticated by them."""


class SaslGate:
    """The login of one connection."""

    __slots__ = (
        "_expires",
        "_last_began",
        "_mechanism",
        "_name",
        "_previous",
        "_settings",
        "principal",
        "state",
        "via_token",
    )

    def __init__(self, settings: GateSettings) -> None:
        self._settings = settings
        self.state = GateState.HANDSHAKE_OR_VERSIONS
        self._name = ""
        self._mechanism: ServerMechanism | None = None
        self.principal: Principal | None = None
        """Who the client is; while it authenticates again, who it was."""
        self.via_token = False
        """Whether it logged in with a delegation token."""
        self._previous = ""
        self._last_began: float | None = None
        self._expires: float | None = None

    @property
    def largest_frame(self) -> int:
        """The largest frame that is taken before authentication."""
        return self._settings.largest_frame

    @property
    def is_complete(self) -> bool:
        """True while the client is authenticated and not about to authenticate again."""
        return self.state is GateState.COMPLETE

    @property
    def takes_bare_tokens(self) -> bool:
        """True while the next frame is a token without a header, which may be very short."""
        return self.state is GateState.BARE_TOKENS

    def step(self, frame: memoryview, now: float) -> Step:
        """Judge one frame; raises UnanswerableError where it ends the connection without a word.

        `now` is a monotonic clock in seconds.
        """
        if self.state is GateState.COMPLETE:
            if not self._begins_again(frame, now):
                return PASSED
        elif self.state is GateState.BARE_TOKENS:
            return self._bare(bytes(frame), now)
        elif self.state is GateState.FAILED:
            raise UnanswerableError("request after a failed authentication")
        try:
            header = read_request_header(frame)
            if self.state is GateState.TOKENS:
                return self._token(header, frame, now)
            return self._choice(header, frame)
        except DecodeError as problem:
            self.state = GateState.FAILED
            raise UnanswerableError(f"malformed request before authentication: {problem}") from None

    def _begins_again(self, frame: memoryview, now: float) -> bool:
        """Whether an authenticated client's frame begins another login."""
        if _KEY.unpack_from(frame)[0] != _HANDSHAKE:
            if self._expires is not None and now >= self._expires:
                raise UnanswerableError("session expired and client did not re-authenticate")
            return False
        last, self._last_began = self._last_began, now
        if last is not None and now - last < LEAST_REAUTHENTICATION_SECONDS:
            return False
        self.state = GateState.HANDSHAKE
        self._previous = self._name
        return True

    def _choice(self, header: RequestHeader, frame: memoryview) -> Step:
        if header.api_key == _API_VERSIONS and self.state is GateState.HANDSHAKE_OR_VERSIONS:
            if header.api_version <= _LAST_API_VERSIONS:  # a newer one asks again
                self.state = GateState.HANDSHAKE
            return PASSED
        if header.api_key != _HANDSHAKE or not 0 <= header.api_version <= 1:
            self.state = GateState.FAILED
            raise UnanswerableError(
                f"unexpected request with api key {header.api_key} before authentication"
            )
        asked = codec.decode(SaslHandshakeRequest, header.api_version, frame, header.body_at)
        listed = list(self._settings.mechanisms)
        private = self._settings.private.get(asked.mechanism)
        make = self._settings.mechanisms.get(asked.mechanism)
        if private is not None:
            make = private[0]
        if make is None:
            self.state = GateState.FAILED
            reply = SaslHandshakeResponse(
                error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=listed
            )
            return Step(
                Verdict.FAILED,
                header,
                codec.encode(reply, header.api_version),
                f"unsupported SASL mechanism {asked.mechanism[:40]!r}",
            )
        if self._previous and asked.mechanism != self._previous:
            self.state = GateState.FAILED
            raise UnanswerableError(
                f"SASL mechanism {asked.mechanism} is not the one of the session, {self._previous}"
            )
        self._name, self._mechanism = asked.mechanism, make()
        self.state = GateState.TOKENS if header.api_version else GateState.BARE_TOKENS
        reply = SaslHandshakeResponse(mechanisms=listed)
        return Step(Verdict.MORE, header, codec.encode(reply, header.api_version))

    def _token(self, header: RequestHeader, frame: memoryview, now: float) -> Step:
        version = header.api_version
        if header.api_key != _AUTHENTICATE or not 0 <= version <= 2:
            self.state = GateState.FAILED
            raise UnanswerableError(
                f"unexpected request with api key {header.api_key} during authentication"
            )
        asked = codec.decode(SaslAuthenticateRequest, version, frame, header.body_at)
        try:
            challenge, success = self._exchange(asked.auth_bytes)
        except LoginFailed as problem:
            self.state = GateState.FAILED
            refusal = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(problem)
            )
            return Step(Verdict.FAILED, header, codec.encode(refusal, version), self._why(problem))
        lifetime = 0 if success is None else self._complete(success, now)
        reply = SaslAuthenticateResponse(
            error_message=None, auth_bytes=challenge, session_lifetime_ms=lifetime
        )
        verdict = Verdict.MORE if success is None else Verdict.DONE
        return Step(verdict, header, codec.encode(reply, version))

    def _bare(self, token: bytes, now: float) -> Step:
        try:
            challenge, success = self._exchange(token)
        except LoginFailed as problem:
            self.state = GateState.FAILED
            return Step(Verdict.FAILED, problem=self._why(problem))
        if success is None:
            return Step(Verdict.MORE, reply=challenge)
        self._complete(success, now)
        return Step(Verdict.DONE, reply=challenge)

    def _exchange(self, data: bytes) -> tuple[bytes, Success | None]:
        mechanism = self._mechanism
        assert mechanism is not None
        challenge, success = mechanism.step(data)
        if success is not None and self.principal is not None:
            found = self._principal_of(success)
            if found != self.principal:
                raise LoginFailed(
                    "Cannot change principals during re-authentication from "
                    f"{self.principal.kind}.{self.principal.name}: {found.kind}.{found.name}"
                )
        return challenge, success

    def _complete(self, success: Success, now: float) -> int:
        """The client is authenticated; returns the life of its session, 0 for no end."""
        self.principal = self._principal_of(success)
        self.via_token = success.via_token
        self._mechanism = None
        self.state = GateState.COMPLETE
        lives = []
        limits = self._settings.max_reauth_ms
        limit = limits if isinstance(limits, int) else limits.get(self._name, 0)
        if limit > 0 and self._name not in self._settings.private:
            lives.append(limit)
        if success.expires_ms is not None:
            lives.append(max(success.expires_ms - self._settings.now_ms(), 0))
        self._expires = now + min(lives) / 1000 if lives else None
        return min(lives, default=0)

    def _principal_of(self, success: Success) -> Principal:
        private = self._settings.private.get(self._name)
        return Principal(USER, success.user) if private is None else private[1]

    def _why(self, problem: LoginFailed) -> str:
        return f"{self._name}: {problem.reason}"
