"""Logins as the protocol sees them, by feeding bytes."""

from struct import pack, unpack_from

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.security.mechanism import ServerMechanism
from ottla.security.plain import PlainServer
from ottla.security.principal import Principal
from ottla.security.sasl import GateSettings, SaslGate
from ottla.server.budget import FrameBudget
from ottla.server.states import Input
from ottla.wire import codec
from ottla.wire.headers import write_request_header
from ottla.wire.message import Message
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from ottla.wire.reply import UnanswerableError
from tests.server.fake_shell import PRODUCE, FakeShell, request


def plain() -> ServerMechanism:
    return PlainServer({"alice": "pw"})


def gated(largest: int = 1000) -> FakeShell:
    shell = FakeShell(gate=SaslGate(GateSettings({"PLAIN": plain}, largest_frame=largest)))
    shell.largest_request = 1 << 26
    return shell


def framed(message: Message, version: int, number: int) -> bytes:
    head = write_request_header(message.API_KEY, version, number, None)
    content = head + codec.encode(message, version)
    return pack(">i", len(content)) + content


def handshake(version: int = 1) -> bytes:
    return framed(SaslHandshakeRequest(mechanism="PLAIN"), version, 1)


def token(data: bytes = b"\0alice\0pw") -> bytes:
    return framed(SaslAuthenticateRequest(auth_bytes=data), 2, 2)


def test_requests_pass_after_the_login() -> None:
    shell = gated()
    shell.receive(handshake() + token() + request(3))
    assert shell.handled == [3]
    assert shell.replies() == [1, 2, 3]
    assert shell.principal == Principal("User", "alice")
    assert shell.logins == 1


def test_a_request_before_the_login_reaches_no_handler() -> None:
    shell = gated()
    with pytest.raises(UnanswerableError):
        shell.receive(request(1))
    assert shell.handled == []


def test_a_failed_login_is_answered_when_the_shell_says_so_and_nothing_behind_it_is_taken() -> None:
    shell = gated()
    shell.receive(handshake() + token(b"\0alice\0no") + request(3) + token() + request(4))
    assert shell.replies() == [1]
    assert shell.protocol.input is Input.ENDED
    answered = shell.protocol.is_answered
    assert not answered
    ((problem, answer, reply),) = shell.failed_logins
    assert problem == "PLAIN: invalid username or password"
    answer.complete(reply)
    assert shell.replies() == [2]
    assert shell.protocol.is_answered
    assert shell.handled == []
    assert shell.principal is None


def test_bare_tokens_are_short_and_answered_bare() -> None:
    shell = gated()
    shell.receive(handshake(0) + pack(">i", 9) + b"\0alice\0pw" + request(3))
    parts = b"".join(bytes(part) for part in shell.protocol.outbox.parts if isinstance(part, bytes))
    (first,) = unpack_from(">i", parts)
    assert parts[4 + first :][:4] == pack(">i", 0)
    assert shell.handled == [3]
    failing = gated()
    failing.receive(handshake(0) + pack(">i", 1) + b"x")
    ((_, answer, reply),) = failing.failed_logins
    assert reply is None
    answer.complete(None)
    assert failing.replies() == [1]
    assert failing.protocol.is_answered


def test_frames_are_small_before_the_login_and_large_right_after_it() -> None:
    with pytest.raises(UnanswerableError, match="invalid request size"):
        gated().receive(pack(">i", 1001))
    shell = gated()
    shell.receive(handshake() + token() + request(3, body=bytes(5000)))
    assert shell.handled == [3]


@given(st.lists(st.integers(1, 60), max_size=40))
@settings(max_examples=150)
def test_a_login_does_not_depend_on_how_bytes_arrive(sizes: list[int]) -> None:
    data = handshake() + token() + request(3) + request(4, PRODUCE)
    shell = gated()
    for size in sizes:
        shell.receive(data[:size])
        data = data[size:]
    shell.receive(data)
    assert shell.handled == [3, 4]
    assert shell.replies() == [1, 2, 3, 4]


def test_clients_that_are_not_known_share_little_room_and_are_closed_beyond_it() -> None:
    arrivals, size = FrameBudget(100_000), 40_000
    settings = GateSettings({"PLAIN": plain}, largest_frame=512 << 10)
    found = [FakeShell(gate=SaslGate(settings), arrivals=arrivals) for _ in range(3)]
    long = token(b"\0alice\0pw" + bytes(1) + bytes(size))
    for shell in found[:2]:
        shell.receive(handshake() + long[:20_000])
    found[2].receive(handshake())
    with pytest.raises(UnanswerableError, match="before authentication"):
        found[2].receive(long[:20_000])
    found[2].protocol.refuse_input()
    found[0].receive(long[20_000:])  # refused: it has four fields, and its room is free again
    assert found[0].failed_logins
    assert 0 < arrivals.taken < 50_000
    found[1].protocol.close()
    assert arrivals.taken == 0
