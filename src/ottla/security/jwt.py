"""Judges the tokens of OAUTHBEARER: JSON Web Tokens, signed or, only when asked for, unsecured.

Rules kept here:
1. A signed token needs a key of the JWKS, an asymmetric algorithm, `sub`, `exp` and `iat` that fit
   the clock, and the expected issuer and audience where they are set.
2. An unsecured token (`alg` none) is only read by `UnsecuredValidator`, which the broker makes only
   with `ottla.allow.unsecured.jwt=true`.
3. No error has the token or its claims in it.

Needs PyJWT and cryptography (extra `security`) for signed tokens. The clock is passed in.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ottla.config.errors import ConfigError
from ottla.extras import install_command
from ottla.security.oauthbearer import BearerToken, TokenRefused

if TYPE_CHECKING:
    from jwt import PyJWK

ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
LONGEST_TOKEN: Final = 64 << 10


class TokenRules(Struct, frozen=True):
    """What a token must say; the names are those of `sasl.oauthbearer.*`."""

    issuer: str | None = None
    audience: tuple[str, ...] = ()
    clock_skew_seconds: int = 30
    subject_claim: str = "sub"
    scope_claim: str = "scope"


class Keys(Struct):
    """The keys of a JWKS by id; replaced as a whole when the JWKS is read again."""

    by_id: dict[str, PyJWK] = {}
    unknown: Callable[[], None] | None = None
    """Called when a token names a key that is not there: the JWKS may be old."""


def parse_jwks(text: str) -> dict[str, PyJWK]:
    """The usable keys of a JWKS; raises ValueError where there is none."""
    import_jwt()
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    try:
        found = json.loads(text)
        listed = found["keys"]
        assert isinstance(listed, list)
    except (ValueError, KeyError, TypeError, AssertionError):
        raise ValueError("not a JSON Web Key Set") from None
    keys: dict[str, PyJWK] = {}
    for item in listed:
        if not isinstance(item, dict) or item.get("use", "sig") != "sig":
            continue
        try:
            key = PyJWK.from_dict(item)
        except (PyJWTError, ValueError, TypeError, AttributeError):
            continue  # malformed, or of a kind that is not supported; others may be usable
        if key.algorithm_name in ALGORITHMS:
            keys[str(item.get("kid", ""))] = key
    if not keys:
        raise ValueError("the JSON Web Key Set has no usable signing key")
    return keys


def import_jwt() -> None:
    """Raise ConfigError that says what to install where PyJWT is missing."""
    try:
        import jwt  # noqa: F401
    except ImportError:
        raise ConfigError(
            f"OAUTHBEARER needs PyJWT and cryptography; install them: {install_command('security')}"
        ) from None


class SignedValidator:
    """Judges signed tokens."""

    def __init__(self, rules: TokenRules, keys: Keys, now_ms: Callable[[], int]) -> None:
        self._rules = rules
        self._keys = keys
        self._now_ms = now_ms

    def __call__(self, text: str) -> BearerToken:
        """The token's user; raises TokenRefused."""
        import jwt

        if len(text) > LONGEST_TOKEN:
            raise TokenRefused("token is too long")
        try:
            head = jwt.get_unverified_header(text)
        except (jwt.InvalidTokenError, ValueError):
            raise TokenRefused("malformed token") from None
        if head.get("alg") not in ALGORITHMS:
            raise TokenRefused("algorithm is not allowed")
        key = self._find_key(head)
        if key is None:
            raise TokenRefused("no key of the JWKS matches the token")
        if key.algorithm_name != head["alg"] and not _same_family(key.algorithm_name, head["alg"]):
            raise TokenRefused("algorithm does not match the key")
        try:
            # Times are checked below, by our own clock.
            claims = jwt.decode(
                text,
                key.key,
                algorithms=[head["alg"]],
                options={
                    "verify_exp": False, "verify_iat": False, "verify_nbf": False,
                    "verify_aud": bool(self._rules.audience),
                    "verify_iss": self._rules.issuer is not None,
                    "verify_sub": False,
                },
                audience=list(self._rules.audience) or None,
                issuer=self._rules.issuer,
            )  # fmt: skip
        except jwt.PyJWTError as problem:
            raise TokenRefused(_plain(problem)) from None
        except (ValueError, TypeError):
            raise TokenRefused("malformed token") from None
        return judged(claims, self._rules, self._now_ms())

    def _find_key(self, head: Mapping[str, Any]) -> PyJWK | None:
        keys = self._keys.by_id
        kid = head.get("kid")
        if kid is None and len(keys) == 1:
            return next(iter(keys.values()))
        found = keys.get(str(kid))
        if found is None and self._keys.unknown is not None:
            self._keys.unknown()
        return found


class UnsecuredValidator:
    """Reads unsecured tokens, which anyone can create: for development only."""

    def __init__(self, rules: TokenRules, now_ms: Callable[[], int]) -> None:
        self._rules = rules
        self._now_ms = now_ms

    def __call__(self, text: str) -> BearerToken:
        """The token's user; raises TokenRefused."""
        parts = text.split(".")
        if len(text) > LONGEST_TOKEN or len(parts) != 3 or parts[2]:
            raise TokenRefused("not an unsecured token")
        head, claims = _decoded(parts[0]), _decoded(parts[1])
        if head.get("alg") != "none":
            raise TokenRefused("not an unsecured token")
        return judged(claims, self._rules, self._now_ms())


def judged(claims: Mapping[str, Any], rules: TokenRules, now_ms: int) -> BearerToken:
    """The user of a token whose signature is right (or does not count); raises TokenRefused."""
    user = claims.get(rules.subject_claim)
    if not isinstance(user, str) or not user.strip():
        raise TokenRefused(f"claim {rules.subject_claim} is missing")
    if not user.isprintable():  # no name that a log or a reply could not have
        raise TokenRefused(f"claim {rules.subject_claim} has control characters")
    scope = claims.get(rules.scope_claim, "")
    if not isinstance(scope, str | list):
        raise TokenRefused(f"claim {rules.scope_claim} is neither a string nor a list")
    expires, issued = _time_ms(claims, "exp"), _time_ms(claims, "iat")
    skew = rules.clock_skew_seconds * 1000
    if now_ms >= expires + skew:
        raise TokenRefused("token has expired")
    if issued > now_ms + skew:
        raise TokenRefused("token was issued in the future")
    if issued > expires:
        raise TokenRefused("token expires before it was issued")
    if "nbf" in claims and _time_ms(claims, "nbf") > now_ms + skew:
        raise TokenRefused("token is not valid yet")
    return BearerToken(user.strip(), expires)


def _time_ms(claims: Mapping[str, Any], name: str) -> int:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise TokenRefused(f"claim {name} is missing or not a time")
    return int(value * 1000)


def _decoded(part: str) -> dict[str, Any]:
    try:
        found = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, Base64Error, RecursionError):
        raise TokenRefused("malformed token") from None
    if not isinstance(found, dict):
        raise TokenRefused("malformed token")
    return found


def _same_family(of_key: str, of_token: str) -> bool:
    """An RSA key may sign with any RSA algorithm; where a JWKS names none, it counts as RS256."""
    return {of_key[:2], of_token[:2]} <= {"RS", "PS"}


def _plain(problem: Exception) -> str:
    """What is wrong, by the kind of the error: its text may have claims in it."""
    name = type(problem).__name__.removesuffix("Error").removeprefix("Invalid")
    return f"invalid token: {name.lower()}"
