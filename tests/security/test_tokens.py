"""Delegation tokens: who may renew and expire them, and how long they live."""

import pytest

from ottla.security.principal import Principal
from ottla.security.tokens import LARGEST, DelegationToken, expired, new_token, renewed, token_hmac
from ottla.wire.errors import ErrorCode, KafkaError

ALICE, BOB, EVE = (Principal("User", name) for name in ("alice", "bob", "eve"))
DAY = 86_400_000


def _token(wanted_ms: int = -1) -> DelegationToken:
    return new_token(
        "id", ALICE, BOB, [BOB], now=1000, wanted_ms=wanted_ms, longest_ms=7 * DAY, expiry_ms=DAY
    )


def test_a_token_ends_when_its_owner_wants_or_when_the_broker_says() -> None:
    assert (_token().expires_at, _token().max_at) == (1000 + DAY, 1000 + 7 * DAY)
    assert (_token(500).expires_at, _token(500).max_at) == (1500, 1500)
    assert _token(100 * DAY).max_at == 1000 + 7 * DAY


def test_a_renewer_is_a_user() -> None:
    with pytest.raises(KafkaError) as refusal:
        new_token(
            "id", ALICE, ALICE, [Principal("Group", "g")], now=0, wanted_ms=1, longest_ms=1,
            expiry_ms=1,
        )  # fmt: skip
    assert refusal.value.code == ErrorCode.INVALID_PRINCIPAL_TYPE


def test_owner_and_renewers_may_renew_until_the_maximum() -> None:
    token = _token()
    assert renewed(token, BOB, now=5000, wanted_ms=-1, expiry_ms=DAY).expires_at == 5000 + DAY
    assert renewed(token, ALICE, now=5000, wanted_ms=10, expiry_ms=DAY).expires_at == 5010
    late = renewed(token, ALICE, now=1000 + DAY, wanted_ms=-1, expiry_ms=LARGEST)
    assert late.expires_at == token.max_at


@pytest.mark.parametrize(
    ("who", "now", "code"),
    [
        (EVE, 5000, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        (ALICE, 1001 + DAY, ErrorCode.DELEGATION_TOKEN_EXPIRED),
    ],
)
def test_others_may_not_renew_nor_may_anyone_after_its_end(
    who: Principal, now: int, code: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as refusal:
        renewed(_token(), who, now=now, wanted_ms=-1, expiry_ms=DAY)
    assert refusal.value.code == code


def test_a_token_is_expired_at_once_or_later() -> None:
    assert expired(_token(), ALICE, now=5000, period_ms=-1) is None
    later = expired(_token(), BOB, now=5000, period_ms=10)
    assert later is not None
    assert later.expires_at == 5010
    with pytest.raises(KafkaError):
        expired(_token(), EVE, now=5000, period_ms=-1)


def test_the_hmac_is_hmac_sha512_of_the_id() -> None:
    """As `openssl dgst -sha512 -hmac secret` makes it."""
    assert token_hmac("secret", "id").hex() == (
        "2aab23f380f61ef9a7111a7ca97f6f02b0771b16c0ba10cc108af5b54985f86d"
        "8b0dcd8cbd03ac474c33b27985362edd3ffa0518ae7c9e453e1ceedd535176b5"
    )
