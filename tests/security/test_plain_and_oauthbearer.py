import base64
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from ottla.security.jwt import (
    Keys,
    SignedValidator,
    TokenRules,
    UnsecuredValidator,
    parse_jwks,
)
from ottla.security.mechanism import LoginFailed
from ottla.security.oauthbearer import (
    BearerToken,
    OauthBearerClient,
    OauthBearerServer,
    TokenRefused,
)
from ottla.security.plain import PlainClient, PlainServer

NOW = 1_800_000_000
RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())


def jwk(key: Any, kid: str) -> dict[str, Any]:
    algorithm: Any = jwt.algorithms.RSAAlgorithm if key is RSA else jwt.algorithms.ECAlgorithm
    return {**json.loads(algorithm.to_jwk(key.public_key())), "kid": kid, "use": "sig"}


KEYS = Keys(parse_jwks(json.dumps({"keys": [jwk(RSA, "r"), jwk(EC, "e")]})))
CLAIMS = {"sub": "alice", "exp": NOW + 60, "iat": NOW - 60, "iss": "me", "aud": "kafka"}


def signed(key: Any = RSA, kid: str = "r", alg: str = "RS256", **changes: Any) -> str:
    claims = {name: value for name, value in {**CLAIMS, **changes}.items() if value is not None}
    return jwt.encode(claims, key, algorithm=alg, headers={"kid": kid})


def unsecured(**changes: Any) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    return f"{part({'alg': 'none'})}.{part({**CLAIMS, **changes})}."


def validator(**rules: Any) -> SignedValidator:
    return SignedValidator(TokenRules(**rules), KEYS, lambda: NOW * 1000)


def test_plain_lets_the_right_password_in() -> None:
    _, success = PlainServer({"alice": "pw"}).step(PlainClient("alice", "pw").first())
    assert success is not None
    assert success.user == "alice"
    assert PlainServer({"alice": "pw"}).step(b"alice\0alice\0pw")[1]


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0mallory\0pw", "Authentication failed: Invalid username or password"),
        (b"\0mallory\0\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0\0pw", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"bob\0alice\0pw", "Authentication failed: Client requested an authorization id that is "
         "different from username"),
        (b"\0\xff\0pw", "Invalid SASL/PLAIN response: not UTF-8"),
    ],
)  # fmt: skip
def test_plain_refuses_with_kafkas_words(message: bytes, told: str) -> None:
    with pytest.raises(LoginFailed) as failed:
        PlainServer({"alice": "pw"}).step(message)
    assert str(failed.value) == told


@given(st.binary(max_size=100))
def test_plain_lets_no_other_bytes_in(message: bytes) -> None:
    try:
        PlainServer({"alice": "a long password"}).step(message)
    except LoginFailed:
        return
    raise AssertionError("it got in")


@pytest.mark.parametrize(
    "token", [signed(), signed(EC, "e", "ES256"), signed(alg="PS256"), signed(exp=NOW - 20)]
)
def test_signed_tokens_are_accepted(token: str) -> None:
    assert validator(issuer="me", audience=("kafka",))(token).user == "alice"


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (signed(exp=NOW - 31), "token has expired"),
        (signed(exp=None), "claim exp is missing or not a time"),
        (signed(iat=None), "claim iat is missing or not a time"),
        (signed(iat=NOW + 40), "token was issued in the future"),
        (signed(nbf=NOW + 40), "token is not valid yet"),
        (signed(sub=None), "claim sub is missing"),
        (signed(sub=" "), "claim sub is missing"),
        (signed(iss="other"), "invalid token: issuer"),
        (signed(aud="other"), "invalid token: audience"),
        (signed(kid="x"), "no key of the JWKS matches the token"),
        (signed(rsa.generate_private_key(65537, 2048)), "invalid token: signature"),
        (signed(RSA, "e"), "algorithm does not match the key"),
        (jwt.encode(CLAIMS, "k" * 32, algorithm="HS256", headers={"kid": "r"}),
         "algorithm is not allowed"),
        (unsecured(), "algorithm is not allowed"),
        ("a.b.c", "malformed token"),
        ("x" * 70_000, "token is too long"),
    ],
)  # fmt: skip
def test_other_tokens_are_refused_with_one_reason(token: str, why: str) -> None:
    with pytest.raises(TokenRefused) as refused:
        validator(issuer="me", audience=("kafka",))(token)
    assert str(refused.value) == why


def test_a_token_that_is_nested_too_deeply_is_malformed() -> None:
    deep = base64.urlsafe_b64encode(b"[" * 20_000).decode()
    for read in (validator(), UnsecuredValidator(TokenRules(), lambda: NOW * 1000)):
        with pytest.raises(TokenRefused):
            read(f"{deep}.{deep}.")


def test_a_user_that_cannot_be_written_is_nobody() -> None:
    with pytest.raises(TokenRefused):
        UnsecuredValidator(TokenRules(), lambda: NOW * 1000)(unsecured(sub="a\ud800"))


def test_an_unknown_key_asks_for_the_jwks_again() -> None:
    asked: list[int] = []
    keys = Keys(KEYS.by_id, lambda: asked.append(1))
    with pytest.raises(TokenRefused):
        SignedValidator(TokenRules(), keys, lambda: NOW * 1000)(signed(kid="new"))
    assert asked == [1]


def test_unsecured_tokens_are_read_by_their_validator_alone() -> None:
    read = UnsecuredValidator(TokenRules(), lambda: NOW * 1000)
    assert read(unsecured()).user == "alice"
    for token in (unsecured(exp=NOW - 31), signed(), "..", unsecured() + "x", "e30.e30."):
        with pytest.raises(TokenRefused):
            read(token)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"keys": 1}', '{"keys": []}',
                                  '{"keys": [{"kty": "oct", "k": "AAAA"}]}'])  # fmt: skip
def test_a_jwks_without_usable_keys_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="JSON Web Key Set"):
        parse_jwks(text)


def _alice(_: str) -> BearerToken:
    return BearerToken("alice", 123)


def _refuse(_: str) -> BearerToken:
    raise TokenRefused("token has expired")


def test_a_token_is_one_step() -> None:
    challenge, success = OauthBearerServer(_alice).step(OauthBearerClient("t").first())
    assert challenge == b""
    assert success is not None
    assert (success.user, success.expires_ms) == ("alice", 123)


def test_a_refused_token_is_two_steps() -> None:
    server, client = OauthBearerServer(_refuse), OauthBearerClient("t")
    challenge, success = server.step(client.first())
    assert (challenge, success) == (b'{"status":"invalid_token"}', None)
    answer = client.step(challenge)
    assert answer == b"\x01"
    with pytest.raises(LoginFailed) as failed:
        server.step(answer)
    assert failed.value.reason == "token has expired"


@pytest.mark.parametrize(
    "message",
    [b"", b"n,,\x01\x01", b"n,,\x01auth=Basic x\x01\x01", b"n,,\x01auth=Bearer \x01\x01",
     b"n,,\x01x=y\x01\x01", b"n,a=bob,\x01auth=Bearer t\x01\x01", b"n,,auth=Bearer t"],
)  # fmt: skip
def test_malformed_messages_are_refused(message: bytes) -> None:
    with pytest.raises(LoginFailed):
        OauthBearerServer(_alice).step(message)


@given(st.binary(max_size=200))
def test_oauthbearer_raises_nothing_else(message: bytes) -> None:
    try:
        OauthBearerServer(_refuse).step(message)
    except LoginFailed:
        pass
