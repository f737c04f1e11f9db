"""The gate, by feeding it frames."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.security.mechanism import LoginFailed, ServerMechanism, Success
from ottla.security.plain import PlainServer
from ottla.security.principal import Principal
from ottla.security.sasl import GateSettings, GateState, SaslGate, Step, Verdict
from ottla.wire import codec
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.headers import write_request_header
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.reply import UnanswerableError

NOW_MS = 1_000_000


class Expiring:
    """Lets everyone in until a time."""

    def step(self, data: bytes) -> tuple[bytes, Success | None]:
        if data == b"no":
            raise LoginFailed("told", "reason")
        return b"", Success(data.decode(), NOW_MS + 5000)


def plain() -> ServerMechanism:
    return PlainServer({"alice": "pw", "bob": "pw"})


def new_gate(max_reauth_ms: int = 0) -> SaslGate:
    return SaslGate(
        GateSettings(
            {"PLAIN": plain, "X": Expiring},
            max_reauth_ms=max_reauth_ms,
            now_ms=lambda: NOW_MS,
            private={"HIDDEN": (plain, Principal("Ottla", "worker"))},
        )
    )


def frame(request: Message, version: int) -> memoryview:
    head = write_request_header(request.API_KEY, version, 7, "me")
    return memoryview(head + codec.encode(request, version))


def handshake(gate: SaslGate, mechanism: str = "PLAIN", version: int = 1, now: float = 0) -> Step:
    return gate.step(frame(SaslHandshakeRequest(mechanism=mechanism), version), now)


def token(gate: SaslGate, data: bytes = b"\0alice\0pw", version: int = 2, now: float = 0) -> Step:
    return gate.step(frame(SaslAuthenticateRequest(auth_bytes=data), version), now)


def reply(step: Step, version: int = 2) -> SaslAuthenticateResponse:
    assert step.reply is not None
    return codec.decode(SaslAuthenticateResponse, version, step.reply)


def test_versions_then_handshake_then_token() -> None:
    gate = new_gate()
    assert gate.step(frame(ApiVersionsRequest(), 0), 0).verdict is Verdict.PASS
    step = handshake(gate)
    assert step.verdict is Verdict.MORE
    assert step.reply is not None
    listed = codec.decode(SaslHandshakeResponse, 1, step.reply)
    assert (listed.error_code, listed.mechanisms) == (0, ["PLAIN", "X"])
    step = token(gate)
    assert step.verdict is Verdict.DONE
    assert gate.principal == Principal("User", "alice")
    assert reply(step).error_code == 0
    assert gate.step(frame(MetadataRequest(), 9), 0).verdict is Verdict.PASS


def test_bare_tokens_follow_the_old_handshake() -> None:
    gate = new_gate()
    handshake(gate, version=0)
    step = gate.step(memoryview(b"\0alice\0pw"), 0)
    assert (step.verdict, step.header, step.reply) == (Verdict.DONE, None, b"")
    failing = new_gate()
    handshake(failing, version=0)
    step = failing.step(memoryview(b"\0alice\0no"), 0)
    assert (step.verdict, step.reply) == (Verdict.FAILED, None)


def test_an_unknown_mechanism_is_told_the_known_ones() -> None:
    gate = new_gate()
    step = handshake(gate, "GSSAPI")
    assert step.verdict is Verdict.FAILED
    assert step.reply is not None
    listed = codec.decode(SaslHandshakeResponse, 1, step.reply)
    assert listed.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert listed.mechanisms == ["PLAIN", "X"]
    assert gate.state is GateState.FAILED


def test_a_wrong_password_is_reported_and_nothing_more_is_taken() -> None:
    gate = new_gate()
    handshake(gate)
    step = token(gate, b"\0alice\0no")
    assert step.verdict is Verdict.FAILED
    told = reply(step)
    assert told.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert told.error_message == "Authentication failed: Invalid username or password"
    assert gate.principal is None
    with pytest.raises(UnanswerableError):
        handshake(gate, now=5)
    with pytest.raises(UnanswerableError):
        token(gate)


@pytest.mark.parametrize("versions_first", [0, 1, 2])
def test_any_other_request_ends_the_connection(versions_first: int) -> None:
    gate = new_gate()
    if versions_first:
        gate.step(frame(ApiVersionsRequest(), 0), 0)
    if versions_first == 2:
        handshake(gate)
    with pytest.raises(UnanswerableError):
        gate.step(frame(MetadataRequest(), 9), 0)
    assert gate.state is GateState.FAILED


def test_versions_are_reported_once_but_a_version_that_is_too_new_may_ask_again() -> None:
    gate = new_gate()
    newer = write_request_header(ApiKey.API_VERSIONS, 99, 1, "me")
    assert gate.step(memoryview(newer), 0).verdict is Verdict.PASS
    assert gate.step(frame(ApiVersionsRequest(), 3), 0).verdict is Verdict.PASS
    with pytest.raises(UnanswerableError):
        gate.step(frame(ApiVersionsRequest(), 3), 0)


def test_a_session_ends_and_a_client_authenticates_again() -> None:
    gate = new_gate(max_reauth_ms=3000)
    handshake(gate, now=100)
    assert reply(token(gate, now=100)).session_lifetime_ms == 3000
    metadata = frame(MetadataRequest(), 9)
    assert gate.step(metadata, 102.9).verdict is Verdict.PASS
    assert handshake(gate, now=102.9).verdict is Verdict.MORE
    assert token(gate, now=102.9).verdict is Verdict.DONE
    assert gate.step(metadata, 105).verdict is Verdict.PASS
    with pytest.raises(UnanswerableError, match="session expired"):
        gate.step(metadata, 106)
    assert handshake(gate, now=107).verdict is Verdict.MORE  # late, but it does


def test_a_credential_that_ends_sooner_bounds_the_session() -> None:
    for limit, life in ((0, 5000), (3000, 3000), (60_000, 5000)):
        gate = new_gate(limit)
        handshake(gate, "X")
        assert reply(token(gate, b"carol")).session_lifetime_ms == life


def test_nobody_becomes_someone_else() -> None:
    gate = new_gate()
    handshake(gate)
    token(gate)
    handshake(gate, now=5)
    step = token(gate, b"\0bob\0pw", now=5)
    assert step.verdict is Verdict.FAILED
    assert reply(step).error_message == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )
    assert gate.principal == Principal("User", "alice")


def test_the_mechanism_of_a_session_stays() -> None:
    gate = new_gate()
    handshake(gate)
    token(gate)
    with pytest.raises(UnanswerableError, match="mechanism"):
        handshake(gate, "X", now=5)


def test_authenticating_twice_in_a_second_is_left_to_the_broker_to_refuse() -> None:
    gate = new_gate()
    handshake(gate)
    token(gate)
    assert handshake(gate, now=5).verdict is Verdict.MORE
    token(gate, now=5)
    assert handshake(gate, now=5.5).verdict is Verdict.PASS


def test_a_private_mechanism_gives_its_principal_and_is_not_listed() -> None:
    gate = new_gate(max_reauth_ms=1000)
    handshake(gate, "HIDDEN")
    step = token(gate)
    assert gate.principal == Principal("Ottla", "worker")
    assert reply(step).session_lifetime_ms == 0


@given(st.lists(st.binary(min_size=8, max_size=80), max_size=6), st.integers(0, 3))
@settings(max_examples=400)
def test_no_bytes_get_in(frames: list[bytes], begun: int) -> None:
    gate = new_gate()
    if begun:
        handshake(gate, version=begun % 2)
    try:
        for data in frames:
            assert gate.step(memoryview(data), 0).verdict is not Verdict.DONE
    except UnanswerableError:
        pass
    assert gate.principal is None
