"""The rules of a connection, by feeding bytes: no socket, no loop, no broker."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.later import Later
from ottla.log.storage.file_cache import Slice
from ottla.server.protocol import (
    MOST_HELD_BYTES,
    MOST_PIPELINED,
    REQUESTS_IN_ONE_TURN,
    SEND_AT_BYTES,
)
from ottla.server.states import (
    FLOW,
    INPUT,
    Flow,
    FlowEvent,
    IllegalMove,
    Input,
    InputEvent,
    moved,
)
from ottla.wire.reply import UnanswerableError
from tests.server.fake_shell import METADATA, PRODUCE, FakeShell, request


def waiting_shell(*, by_task: bool = False) -> FakeShell:
    """All replies are promised, and come when the test says so."""
    shell = FakeShell(
        lambda header: shell.promise_by_task(header) if by_task else shell.promise(header)
    )
    return shell


# 1. The next request starts after the previous reply; only Produce joins Produce --------------


def test_a_request_is_not_handled_before_the_previous_one_is_answered() -> None:
    shell = waiting_shell()
    shell.receive(request(1) + request(2))
    assert shell.handled == [1]
    shell.complete(1)
    shell.work()
    assert shell.handled == [1, 2]


def test_produce_joins_produce_up_to_a_limit() -> None:
    shell = waiting_shell()
    shell.receive(b"".join(request(n, PRODUCE) for n in range(MOST_PIPELINED)))
    shell.work()
    shell.work()
    shell.receive(request(MOST_PIPELINED, PRODUCE))
    shell.protocol.wake()
    while shell.protocol.flow is Flow.RESTING:
        shell.protocol.wake()
        shell.work()
    shell.work()
    assert shell.handled == list(range(MOST_PIPELINED))


@pytest.mark.parametrize(("first", "second"), [(PRODUCE, METADATA), (METADATA, PRODUCE)])
def test_nothing_else_joins(first: int, second: int) -> None:
    shell = waiting_shell()
    shell.receive(request(1, first) + request(2, second))
    assert shell.handled == [1]


def test_produce_does_not_join_one_that_has_not_appended_yet() -> None:
    shell = waiting_shell(by_task=True)
    shell.receive(request(1, PRODUCE) + request(2, PRODUCE))
    assert shell.handled == [1]
    shell.complete(1)
    assert shell.handled == [1, 2]


# 2. Replies leave in the order of the requests --------------------------------------------------


def test_a_reply_waits_for_those_before_it() -> None:
    shell = waiting_shell()
    shell.receive(request(1, PRODUCE) + request(2, PRODUCE) + request(3, PRODUCE))
    shell.complete(3)
    shell.complete(2)
    assert shell.replies() == []
    shell.complete(1)
    assert shell.replies() == [1, 2, 3]


def test_a_reply_that_is_there_at_once_waits_for_those_before_it() -> None:
    shell = FakeShell(
        lambda header: shell.promise(header) if header.correlation_id == 1 else (b"now",)
    )
    shell.receive(request(1, PRODUCE) + request(2, PRODUCE))
    assert shell.replies() == []
    shell.complete(1)
    assert shell.replies() == [1, 2]


def test_a_reply_that_was_complete_when_it_was_promised_is_queued() -> None:
    done: Later[tuple[bytes, ...] | None] = Later()
    done.complete((b"done",))
    shell = FakeShell(lambda _: done)  # type: ignore[arg-type,return-value]  # bytes alone are parts
    shell.receive(request(7))
    assert shell.replies() == [7]


def test_a_request_without_a_reply_is_counted_and_sends_nothing() -> None:
    shell = FakeShell(lambda _: None)
    shell.receive(request(1, PRODUCE))
    assert shell.replies() == []
    assert shell.counted == [(PRODUCE, 0)]


def test_a_promise_of_no_reply_lets_the_next_one_leave() -> None:
    shell = waiting_shell()
    shell.receive(request(1, PRODUCE) + request(2, PRODUCE))
    shell.complete(2)
    shell.waiting[1].complete(None)
    assert shell.replies() == [2]


# 3. A client that does not read is not read either ----------------------------------------------


def test_enough_behind_a_waiting_request_pauses_the_input() -> None:
    shell = waiting_shell()
    shell.receive(request(1))
    assert shell.protocol.may_receive()
    shell.receive(b"".join(request(n, body=b"x" * 1000) for n in range(2, 80)))
    assert shell.protocol.inbox.waiting > MOST_HELD_BYTES
    assert not shell.protocol.may_receive()
    assert shell.protocol.input is Input.PAUSED
    assert not shell.protocol.resume_input()


def test_the_input_opens_again_when_the_request_is_answered() -> None:
    shell = waiting_shell()
    shell.receive(request(1) + request(2, body=b"x" * (2 * MOST_HELD_BYTES)))
    assert not shell.protocol.may_receive()
    shell.complete(1)
    assert shell.protocol.resume_input()
    assert shell.protocol.input is Input.OPEN


def test_a_frame_larger_than_what_is_held_still_comes_in() -> None:
    shell = FakeShell()
    shell.receive(request(1, body=b"x" * (4 * MOST_HELD_BYTES))[:-1])
    assert shell.protocol.may_receive()


def test_nothing_is_handled_while_the_socket_is_full() -> None:
    shell = FakeShell()
    shell.receive(request(1))
    shell.protocol.blocked()
    shell.receive(request(2))
    shell.work()
    assert shell.handled == [1]
    assert shell.replies() == [1]
    shell.protocol.drained()
    shell.work()
    assert shell.handled == [1, 2]


# 4. Many requests at once give way --------------------------------------------------------------


def test_many_requests_at_once_give_way() -> None:
    shell = FakeShell()
    shell.receive(b"".join(request(n) for n in range(REQUESTS_IN_ONE_TURN + 1)))
    assert len(shell.handled) == REQUESTS_IN_ONE_TURN
    assert (shell.protocol.flow, shell.wakes) == (Flow.RESTING, 1)
    assert not shell.protocol.may_receive()
    assert shell.protocol.wake()
    shell.work()
    assert len(shell.handled) == REQUESTS_IN_ONE_TURN + 1


def test_a_wake_that_comes_late_changes_nothing() -> None:
    shell = FakeShell()
    shell.protocol.give_way()
    shell.protocol.blocked()
    assert not shell.protocol.wake()
    assert shell.protocol.flow is Flow.SENDING


# 5. What cannot be answered ends the input; what came before is answered ------------------------


@pytest.mark.parametrize("size", [-1, 0, 7, (1 << 20) + 1])
def test_a_frame_of_an_impossible_size_cannot_be_answered(size: int) -> None:
    shell = FakeShell()
    with pytest.raises(UnanswerableError):
        shell.receive(request(1) + size.to_bytes(4, "big", signed=True))
    assert shell.replies() == [1]


def test_a_malformed_header_cannot_be_answered() -> None:
    shell = FakeShell()
    with pytest.raises(UnanswerableError, match="header"):
        shell.receive(b"\0\0\0\x0a" + b"\0\x03\0\x03" + b"\0\0\0\x01" + b"\x7f\xff")


def test_after_refused_input_the_rest_is_answered_and_then_it_is_over() -> None:
    shell = waiting_shell()
    shell.receive(request(1))
    shell.protocol.refuse_input()
    assert not shell.protocol.is_answered
    shell.complete(1)
    assert not shell.protocol.is_answered, "the reply has not been sent"
    assert shell.replies() == [1]
    assert shell.protocol.is_answered


def test_a_client_that_finished_sending_gets_all_replies() -> None:
    shell = waiting_shell()
    shell.receive(request(1) + request(2) + request(3)[:-1])
    shell.protocol.peer_finished()
    for number in (1, 2):
        assert not shell.protocol.is_answered
        shell.complete(number)
        shell.work()
        assert shell.replies() == [number]
    assert shell.protocol.is_answered, "half a request is not one"
    assert shell.handled == [1, 2]


def test_a_failed_reply_ends_the_connection_after_those_before_it() -> None:
    shell = waiting_shell()
    shell.receive(b"".join(request(n, PRODUCE) for n in (1, 2, 3)))
    broken = ValueError("no")
    shell.waiting[2].fail(broken)
    assert shell.failures == []
    shell.complete(1)
    assert shell.failures == [broken]
    assert shell.replies() == [1]
    assert shell.protocol.is_answered
    shell.complete(3)
    assert shell.replies() == []


# 6. Many bytes are sent before more is handled --------------------------------------------------


def test_many_bytes_of_replies_are_sent_first() -> None:
    shell = FakeShell(lambda _: (b"x" * (SEND_AT_BYTES // 2),))
    shell.receive(b"".join(request(n) for n in range(10)))
    assert shell.handled == [0, 1]
    assert shell.protocol.must_send
    assert shell.replies() == [0, 1]
    shell.work()
    assert shell.handled == [0, 1, 2, 3]


# 7. No request is handled inside of another's handler -------------------------------------------


def test_a_reply_that_comes_inside_a_handler_starts_nothing() -> None:
    def answer(header: object) -> Later[object] | tuple[bytes]:
        number = shell.handled[-1]
        if number == 1:
            return shell.promise(header)  # type: ignore[arg-type,return-value]
        if number == 2:
            shell.waiting[1].complete((b"1",))
            assert shell.handled == [1, 2]
        return (b"at once",)

    shell = FakeShell(answer)  # type: ignore[arg-type]  # it gets a header
    shell.receive(request(1, PRODUCE) + request(2, PRODUCE) + request(3, PRODUCE))
    assert shell.replies() == [1, 2, 3]


# The end ----------------------------------------------------------------------------------------


def test_closing_abandons_what_waits_and_lets_go_of_files() -> None:
    class File:
        pins = 1

        def unpin(self) -> None:
            self.pins -= 1

    shell = waiting_shell()
    shell.receive(request(1))
    stopped: list[bool] = []
    shell.waiting[1].when_abandoned(lambda: stopped.append(True))
    file = File()
    shell.protocol.outbox.add_file(Slice(file, 0, 100))  # type: ignore[arg-type]  # what is needed
    shell.protocol.close()
    assert (stopped, file.pins, shell.protocol.outbox.size) == ([True], 0, 0)
    with pytest.raises(IllegalMove):
        shell.protocol.close()


@pytest.mark.parametrize(("state", "event"), list(product(Flow, FlowEvent)))
def test_a_move_of_the_flow_that_the_table_does_not_name_raises(
    state: Flow, event: FlowEvent
) -> None:
    if event in FLOW[state]:
        assert moved(FLOW, state, event) is FLOW[state][event]
    else:
        with pytest.raises(IllegalMove, match=f"{event.name} in state {state.name}"):
            moved(FLOW, state, event)


@pytest.mark.parametrize(("state", "event"), list(product(Input, InputEvent)))
def test_a_move_of_the_input_that_the_table_does_not_name_raises(
    state: Input, event: InputEvent
) -> None:
    if event in INPUT[state]:
        assert moved(INPUT, state, event) is INPUT[state][event]
    else:
        with pytest.raises(IllegalMove, match=f"{event.name} in state {state.name}"):
            moved(INPUT, state, event)


# All together -----------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 300), max_size=50), st.data())
def test_however_the_bytes_are_cut_all_requests_are_answered_in_order(
    sizes: list[int], data: st.DataObject
) -> None:
    shell = FakeShell()
    stream = b"".join(request(n, body=b"x" * size) for n, size in enumerate(sizes))
    while stream:
        count = data.draw(st.integers(1, len(stream)))
        shell.receive(stream[:count])
        stream = stream[count:]
        while shell.protocol.wake():
            shell.work()
    assert shell.replies() == list(range(len(sizes)))


class Traffic(RuleBasedStateMachine):
    """Requests, replies, full sockets, cold files and rests, in any order that can come."""

    def __init__(self) -> None:
        super().__init__()
        self.shell = FakeShell(
            lambda header: self.shell.promise(header) if header.correlation_id % 3 else (b"now",)
        )
        self.sent: list[int] = []
        self.asked = 0

    @rule(key=st.sampled_from([PRODUCE, METADATA]), count=st.integers(1, 40))
    def requests_arrive(self, key: int, count: int) -> None:
        if self.shell.protocol.flow is Flow.RESTING or not self.shell.protocol.may_receive():
            return
        frames = b"".join(request(self.asked + n, key) for n in range(count))
        self.asked += count
        self.shell.receive(frames)

    @rule(data=st.data())
    def a_reply_is_ready(self, data: st.DataObject) -> None:
        waiting = [n for n, later in self.shell.waiting.items() if not later.done]
        if waiting:
            self.shell.complete(data.draw(st.sampled_from(sorted(waiting))))

    @rule()
    def the_next_turn_comes(self) -> None:
        if self.shell.protocol.wake() or self.shell.protocol.flow is Flow.READY:
            self.shell.work()

    @precondition(lambda self: self.shell.protocol.flow in (Flow.READY, Flow.RESTING))
    @rule()
    def the_socket_is_full(self) -> None:
        self.shell.protocol.blocked()

    @precondition(lambda self: self.shell.protocol.flow is Flow.SENDING)
    @rule()
    def the_socket_takes_all(self) -> None:
        self.sent += self.shell.replies()
        self.shell.protocol.drained()

    @precondition(lambda self: self.shell.protocol.flow in (Flow.READY, Flow.RESTING))
    @rule()
    def replies_leave(self) -> None:
        self.sent += self.shell.replies()

    @invariant()
    def replies_are_in_order_and_each_is_sent_once(self) -> None:
        assert self.sent == list(range(len(self.sent)))

    def teardown(self) -> None:
        """In the end everything is answered."""
        shell = self.shell
        for _ in range(10 * self.asked + 10):
            if len(self.sent) == self.asked:
                break
            if shell.protocol.flow is Flow.SENDING:
                self.the_socket_takes_all()
            self.the_next_turn_comes()
            for number, later in shell.waiting.items():
                if not later.done:
                    shell.complete(number)
            self.sent += shell.replies()
        assert self.sent == list(range(self.asked))


TestTraffic = Traffic.TestCase
TestTraffic.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
