"""Large frames as the protocol sees them, by feeding bytes; and their shared room."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.server.budget import FrameBudget
from ottla.server.large_frames import LARGE_FRAME, LARGEST_WITHOUT_RECORDS
from ottla.server.states import Input
from ottla.wire.reply import UnanswerableError
from tests.server.fake_shell import METADATA, PRODUCE, FakeShell, request


def shells(count: int, limit: int) -> list[FakeShell]:
    budget = FrameBudget(limit)
    found = [FakeShell(budget=budget) for _ in range(count)]
    for shell in found:
        shell.largest_request = 1 << 28
    return found


LARGE = 3 * LARGE_FRAME


def test_a_large_frame_waits_for_room() -> None:
    first, second, third = shells(3, 2 * LARGE)
    frames = [request(n, PRODUCE, bytes(LARGE - 10)) for n in range(3)]
    for shell, frame in zip((first, second, third), frames, strict=True):
        shell.receive(frame[:LARGE_FRAME])
    assert first.protocol.may_receive()
    assert second.protocol.may_receive()
    assert not third.protocol.may_receive()
    assert third.protocol.input is Input.PAUSED
    assert not third.protocol.resume_input()
    first.receive(frames[0][LARGE_FRAME:])
    assert first.handled == [0]
    assert third.rooms_freed
    assert third.protocol.resume_input()
    third.receive(frames[2][LARGE_FRAME:])
    second.receive(frames[1][LARGE_FRAME:])
    assert (second.handled, third.handled) == ([1], [2])


def test_room_comes_back_when_a_connection_ends_and_when_it_waited() -> None:
    first, second, third = shells(3, LARGE)
    for number, shell in enumerate((first, second, third)):
        shell.receive(request(number, PRODUCE, bytes(LARGE - 10))[:LARGE_FRAME])
        shell.protocol.may_receive()
    second.protocol.close()
    first.protocol.close()
    assert third.rooms_freed
    assert third.protocol.resume_input()


def test_one_frame_is_always_received() -> None:
    (shell,) = shells(1, 1)
    frame = request(1, PRODUCE, bytes(LARGE))
    shell.receive(frame[:LARGE_FRAME])
    assert shell.protocol.may_receive()


def test_a_large_request_without_records_is_refused_before_it_is_received() -> None:
    (shell,) = shells(1, 1 << 30)
    with pytest.raises(UnanswerableError, match="too large"):
        shell.receive(request(1, METADATA, bytes(LARGEST_WITHOUT_RECORDS))[:1000])


class _Waiter:
    def room_freed(self) -> None:
        pass


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 60)), max_size=80))
def test_the_room_that_is_taken_never_passes_the_limit_and_all_of_it_comes_back(
    steps: list[tuple[int, int]],
) -> None:
    budget, waiters = FrameBudget(100), [_Waiter() for _ in range(6)]
    held: dict[int, int] = {}
    wanted: dict[int, int] = {}
    for number, size in steps:
        who = waiters[number]
        if number in held:
            budget.give_back(held.pop(number), who)
        else:
            wanted.setdefault(number, size)
            if budget.take(wanted[number], who):
                held[number] = wanted.pop(number)
        assert budget.taken == sum(held.values())
        assert budget.taken <= 100 or len(held) == 1
    for number, size in held.items():
        budget.give_back(size, waiters[number])
    for _ in waiters:  # nobody is left behind
        for number in list(wanted):
            if budget.take(wanted[number], waiters[number]):
                budget.give_back(wanted.pop(number), waiters[number])
    assert not wanted
    assert budget.taken == 0
