"""Delegation tokens (KIP-48, KIP-373): who may make, renew, expire and see one. Pure.

A token is kept without its HMAC, which is HMAC-SHA512 of the token's id with
`delegation.token.secret.key`: who knows it has the token.
"""

import hashlib
import hmac

import msgspec

from ottla.security.principal import USER, Principal
from ottla.wire.errors import ErrorCode, KafkaError

LARGEST = 2**63 - 1


class DelegationToken(msgspec.Struct, frozen=True):
    """What is known of a token; times are milliseconds of the wall clock."""

    id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_at: int
    expires_at: int
    max_at: int

    def is_over(self, now: int) -> bool:
        """Whether it can no longer be used."""
        return self.max_at < now or self.expires_at < now

    def may_change(self, principal: Principal) -> bool:
        """Whether a principal may renew and expire it."""
        return principal == self.owner or principal in self.renewers


def token_hmac(secret: str, token_id: str) -> bytes:
    """What a client proves to have: the password of the token."""
    return hmac.digest(secret.encode(), token_id.encode(), hashlib.sha512)


def new_token(
    token_id: str,
    owner: Principal,
    requester: Principal,
    renewers: list[Principal],
    *,
    now: int,
    wanted_ms: int,
    longest_ms: int,
    expiry_ms: int,
) -> DelegationToken:
    """A new token for an owner; raises KafkaError."""
    if any(renewer.kind != USER for renewer in renewers):
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    max_at = _sum(now, min(longest_ms, wanted_ms) if wanted_ms > 0 else longest_ms)
    expires_at = min(max_at, _sum(now, expiry_ms))
    return DelegationToken(token_id, owner, requester, tuple(renewers), now, expires_at, max_at)


def renewed(
    token: DelegationToken, principal: Principal, *, now: int, wanted_ms: int, expiry_ms: int
) -> DelegationToken:
    """The token with a later end; raises KafkaError."""
    if token.is_over(now):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    _check_may_change(token, principal)
    life = min(expiry_ms, wanted_ms) if wanted_ms > 0 else expiry_ms
    return msgspec.structs.replace(token, expires_at=min(token.max_at, _sum(now, life)))


def expired(
    token: DelegationToken, principal: Principal, *, now: int, period_ms: int
) -> DelegationToken | None:
    """The token with an earlier end; None: it is to be removed at once. Raises KafkaError."""
    _check_may_change(token, principal)
    if period_ms < 0:
        return None
    if token.is_over(now):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    return msgspec.structs.replace(token, expires_at=min(token.max_at, _sum(now, period_ms)))


def _check_may_change(token: DelegationToken, principal: Principal) -> None:
    if not token.may_change(principal):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _sum(now: int, duration: int) -> int:
    return min(LARGEST, now + duration)
