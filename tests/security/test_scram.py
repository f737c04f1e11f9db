"""SCRAM against an independent implementation, and what an attacker may not learn."""

from base64 import b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scramp import ScramClient as OtherClient  # type: ignore[import-untyped]
from scramp import ScramMechanism

from ottla.security.mechanism import LoginFailed, Success
from ottla.security.scram import (
    HASHES,
    ScramClient,
    ScramCredential,
    ScramServer,
    TokenLogin,
    decode_name,
    encode_name,
    fake_credential,
    new_credential,
)

SECRET = b"s" * 32
USERS = {(name, "alice"): new_credential(name, "wonderland") for name in HASHES}


def find(mechanism: str, user: str) -> ScramCredential | None:
    return USERS.get((mechanism, user))


@pytest.mark.parametrize("mechanism", HASHES)
def test_an_independent_client_logs_in(mechanism: str) -> None:
    server = ScramServer(mechanism, find, SECRET)
    client = OtherClient([mechanism], "alice", "wonderland")
    challenge, success = server.step(client.get_client_first().encode())
    assert success is None
    client.set_server_first(challenge.decode())
    last, success = server.step(client.get_client_final().encode())
    client.set_server_final(last.decode())
    assert success is not None
    assert success.user == "alice"


@pytest.mark.parametrize("mechanism", HASHES)
def test_our_client_logs_in_at_an_independent_server(mechanism: str) -> None:
    other = ScramMechanism(mechanism)
    salt, stored, server_key, iterations = other.make_auth_info("wonderland", iteration_count=4096)
    server = other.make_server(lambda _: (salt, stored, server_key, iterations))
    client = ScramClient(mechanism, "alice", "wonderland")
    server.set_client_first(client.first().decode())
    proof = client.step(server.get_server_first().encode())
    assert proof is not None
    server.set_client_final(proof.decode())
    assert client.step(server.get_server_final().encode()) is None


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("mallory", "wonderland")])
def test_wrong_passwords_and_unknown_users_fail_alike(
    mechanism: str, user: str, password: str
) -> None:
    server = ScramServer(mechanism, find, SECRET)
    client = ScramClient(mechanism, user, password)
    challenge, success = server.step(client.first())
    assert success is None
    proof = client.step(challenge)
    assert proof is not None
    with pytest.raises(LoginFailed) as failed:
        server.step(proof)
    assert str(failed.value) == (
        "Authentication failed during authentication due to invalid credentials with SASL "
        f"mechanism {mechanism}"
    )


@pytest.mark.parametrize("now", [None, new_credential("SCRAM-SHA-512", "another")])
def test_a_credential_that_is_changed_or_removed_during_the_login_does_not_count(
    now: ScramCredential | None,
) -> None:
    mechanism = "SCRAM-SHA-512"
    known: dict[str, ScramCredential | None] = {"alice": USERS[mechanism, "alice"]}
    server = ScramServer(mechanism, lambda _, user: known[user], SECRET)
    client = ScramClient(mechanism, "alice", "wonderland")
    proof = client.step(server.step(client.first())[0])
    assert proof is not None
    known["alice"] = now
    with pytest.raises(LoginFailed):
        server.step(proof)


def test_an_unknown_user_has_the_same_salt_every_time_and_it_looks_like_a_real_one() -> None:
    first = fake_credential("SCRAM-SHA-512", "mallory", SECRET)
    assert first == fake_credential("SCRAM-SHA-512", "mallory", SECRET)
    assert first.salt != fake_credential("SCRAM-SHA-512", "trudy", SECRET).salt
    assert first.salt != fake_credential("SCRAM-SHA-512", "mallory", b"other").salt
    real = USERS["SCRAM-SHA-512", "alice"]
    assert first.salt.isalnum()
    assert real.salt.isalnum()
    assert abs(len(first.salt) - len(real.salt)) <= 3
    assert first.iterations == real.iterations


def test_a_delegation_tokens_name_is_not_a_users() -> None:
    server = ScramServer("SCRAM-SHA-256", find, SECRET)
    client = ScramClient("SCRAM-SHA-256", "alice", "wonderland", "tokenauth=true")
    challenge, _ = server.step(client.first())
    proof = client.step(challenge)
    assert proof is not None
    with pytest.raises(LoginFailed):
        server.step(proof)


def login(server: ScramServer, client: ScramClient) -> Success | None:
    """The whole exchange; the client checks the server's last message."""
    proof = client.step(server.step(client.first())[0])
    assert proof is not None
    last, success = server.step(proof)
    assert client.step(last) is None
    return success


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize("extension", ["tokenauth=true", "x=1,tokenauth=TRUE"])
def test_a_delegation_token_lets_its_owner_in_until_it_ends(mechanism: str, extension: str) -> None:
    token = TokenLogin("alice", new_credential(mechanism, "hmac"), 1234)
    server = ScramServer(mechanism, find, SECRET, lambda _, name: {"id": token}.get(name))
    success = login(server, ScramClient(mechanism, "id", "hmac", extension))
    assert success == Success("alice", 1234, via_token=True)


@pytest.mark.parametrize("extension", ["", "tokenauth=false", "xtokenauth=true", "tokenauth=truex"])
def test_without_the_extension_a_tokens_id_is_an_unknown_user(extension: str) -> None:
    token = TokenLogin("alice", new_credential("SCRAM-SHA-256", "hmac"), 1234)
    server = ScramServer("SCRAM-SHA-256", find, SECRET, lambda *_: token)
    with pytest.raises(LoginFailed) as refusal:
        login(server, ScramClient("SCRAM-SHA-256", "id", "hmac", extension))
    assert refusal.value.reason == "unknown user"


def test_a_token_that_is_removed_during_the_login_does_not_count() -> None:
    tokens = {"id": TokenLogin("alice", new_credential("SCRAM-SHA-256", "hmac"), 1234)}
    server = ScramServer("SCRAM-SHA-256", find, SECRET, lambda _, name: tokens.get(name))
    client = ScramClient("SCRAM-SHA-256", "id", "hmac", "tokenauth=true")
    proof = client.step(server.step(client.first())[0])
    assert proof is not None
    tokens.clear()
    with pytest.raises(LoginFailed):
        server.step(proof)


@pytest.mark.parametrize(
    "first",
    [
        b"", b"n,,n=alice", b"y,,n=alice,r=abc", b"p=tls-unique,,n=alice,r=abc",
        b"n,a=bob,n=alice,r=abc", b"n,,n=,r=abc", b"n,,n=ali=ce,r=abc", b"n,,n=alice,r=",
        b"\xff\xfe", b"n,,m=x,n=alice,r=abc", b"n,,n=alice,r=a\x00b",
    ],
)  # fmt: skip
def test_malformed_first_messages_are_refused(first: bytes) -> None:
    with pytest.raises(LoginFailed):
        ScramServer("SCRAM-SHA-256", find, SECRET).step(first)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("r=", "r=x"),
        lambda text: text.replace("c=biws", "c=eSws"),
        lambda text: text.split(",p=")[0],
        lambda text: text[:-8],
        lambda text: text.split(",p=")[0] + ",p=" + b64encode(b"\0" * 64).decode(),
        lambda text: text + ",x=y",
    ],
)
def test_changed_last_messages_are_refused(change) -> None:  # type: ignore[no-untyped-def]
    server = ScramServer("SCRAM-SHA-256", find, SECRET)
    client = ScramClient("SCRAM-SHA-256", "alice", "wonderland")
    proof = client.step(server.step(client.first())[0])
    assert proof is not None
    with pytest.raises(LoginFailed):
        server.step(change(proof.decode()).encode())


def test_a_client_notices_a_server_that_does_not_know_the_password() -> None:
    server = ScramServer("SCRAM-SHA-256", find, SECRET)
    client = ScramClient("SCRAM-SHA-256", "alice", "wonderland")
    client.step(server.step(client.first())[0])
    with pytest.raises(LoginFailed, match="server signature"):
        client.step(b"v=" + b64encode(b"x" * 32))


@pytest.mark.parametrize("iterations", [1, 4095, 2**31])
def test_a_client_refuses_too_few_and_too_many_iterations(iterations: int) -> None:
    client = ScramClient("SCRAM-SHA-256", "alice", "x", nonce="abc")
    with pytest.raises(LoginFailed, match="iterations"):
        client.step(f"r=abcdef,s=YWJj,i={iterations}".encode())


@given(st.text(min_size=1))
def test_names_are_written_and_read_back(name: str) -> None:
    assert decode_name(encode_name(name)) == name


@given(st.lists(st.binary(max_size=200), max_size=4))
@settings(max_examples=300)
def test_no_bytes_get_in_or_raise_anything_else(messages: list[bytes]) -> None:
    server = ScramServer("SCRAM-SHA-256", find, SECRET)
    try:
        for message in messages:
            _, success = server.step(message)
            assert success is None
    except LoginFailed:
        pass


def test_a_credential_does_not_show_itself() -> None:
    assert "salt" not in repr(USERS["SCRAM-SHA-256", "alice"])
