"""One client's connection without its socket: bytes and events in, requests and replies out.

A shell owns the socket (`connection.py`): it puts what it receives into the inbox, calls the
methods here for what happens, and sends what is in the outbox. Nothing here waits, reads a clock or
knows where bytes come from, so all of it is tested by feeding bytes.

Rules kept here:
1. A connection's next request starts after the previous reply, as in Kafka; only Produce may
   start behind Produce requests whose batches are appended and only wait to be safe, and only
   `MOST_PIPELINED` of them.
2. Replies leave in the order of the requests.
3. A client that does not read is not read either: what it can make us hold is bounded.
4. A client that sends many requests at once gives way to the others after some of them.
5. A frame that cannot be answered ends the input, and so does the end of what a client sends;
   nothing else does. As in Kafka all that was asked before is answered first.
6. Many bytes of replies are sent before more requests are handled.
7. No request is handled inside of another's handler, nor inside of what made a reply ready: a
   change that completes a reply is finished before what stands behind it is looked at.
8. Where there is a gate, no request reaches a handler before it lets it pass (`security/sasl.py`).
9. A large frame is received once there is room for all of it (`large_frames.py`). Behind a request
   that waits it gets none.
10. Of a client that is muted (`throttling.py`) nothing is handled, and little received; what was
   asked before is answered.
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import Final

from ottla.later import FAILED, Later
from ottla.security.sasl import SaslGate, Step, Verdict
from ottla.server.budget import FrameBudget
from ottla.server.inbox import KEPT_BYTES, SIZE_BYTES, Inbox, what_is_wrong_with_size
from ottla.server.interfaces import RequestHandler, Shell
from ottla.server.large_frames import UNKNOWN_CLIENTS_FRAME, FrameAdmission, LargeFrame
from ottla.server.outbox import Outbox
from ottla.server.states import (
    ENDED,
    FLOW,
    INPUT,
    OPEN,
    PAUSED,
    READY,
    RESTING,
    SENDING,
    Flow,
    FlowEvent,
    Input,
    InputEvent,
    moved,
)
from ottla.wire.apis import FIRST_FLEXIBLE, ApiKey
from ottla.wire.fields import DecodeError
from ottla.wire.headers import read_request_header
from ottla.wire.reply import Parts, UnanswerableError

MOST_PIPELINED: Final = 64
REQUESTS_IN_ONE_TURN: Final = 32
MOST_HELD_BYTES: Final = 64 << 10
"""Received while a request waits: enough to see what comes next, or that the client has gone."""
SEND_AT_BYTES: Final = 256 << 10
SMALLEST_REQUEST: Final = 8
_SIZE: Final = Struct(">i")
_SIZE_CORRELATION: Final = Struct(">ii")
_SIZE_CORRELATION_TAGS: Final = Struct(">iix")
_KEY: Final = Struct(">h")
_PRODUCE: Final = int(ApiKey.PRODUCE)
_READY: Final = (tuple, list)
# The answer to ApiVersions has the short header in every version: its reader knows nothing yet.
_FLEXIBLE_REPLY_FROM: Final[dict[int, int]] = {
    int(key): first for key, first in FIRST_FLEXIBLE.items() if key != ApiKey.API_VERSIONS
}
_NEVER: Final = 1 << 15
_MUTED: Final = -1
"""In the place of an API's key: nothing was asked, but nothing is handled behind it."""


class Exchange:
    """A request whose reply is not queued yet: it has the reply, or the promise of one."""

    __slots__ = ("correlation_id", "flexible", "key", "later", "parts", "started")

    def __init__(
        self,
        key: int,
        correlation_id: int,
        flexible: bool,
        started: float,
        later: Later[Parts | None] | None,
        parts: Parts | None,
    ) -> None:
        self.key = key
        self.correlation_id = correlation_id
        self.flexible = flexible
        self.started = started
        self.later = later
        self.parts = parts


class ServerProtocol:
    """The server's side of one connection."""

    __slots__ = (
        "_admission",
        "_exchanges",
        "_gate",
        "_handler",
        "_large",
        "_shell",
        "flow",
        "inbox",
        "input",
        "outbox",
    )

    def __init__(
        self,
        handler: RequestHandler,
        shell: Shell,
        gate: SaslGate | None = None,
        budget: FrameBudget | None = None,
        arrivals: FrameBudget | None = None,
    ) -> None:
        self._handler = handler
        self._shell = shell
        self._gate = gate
        unknown = None if gate is None else arrivals or FrameBudget()
        self._admission = FrameAdmission(shell, budget, unknown)
        self._large: LargeFrame | None = None
        """The frame that is being received, if that is a large one."""
        self._exchanges: deque[Exchange] = deque()
        self.inbox = Inbox()
        self.outbox = Outbox()
        self.flow: Flow = READY
        self.input: Input = OPEN

    @property
    def waits(self) -> bool:
        """True while the reply to some request is not there."""
        return bool(self._exchanges)

    @property
    def is_answered(self) -> bool:
        """True once nothing more comes in and everything that was asked is answered and sent."""
        return (
            self.input is ENDED
            and self.flow is READY
            and (not self._exchanges or self._exchanges[0].key == _MUTED)
            and not self.outbox.size
            and not self.inbox.holds_frame
        )

    @property
    def must_send(self) -> bool:
        """True where replies should leave before more requests are handled."""
        return self.outbox.size > SEND_AT_BYTES and self.may_send

    @property
    def may_send(self) -> bool:
        """True while neither the socket nor the disk has to be waited for."""
        return self.flow is READY or self.flow is RESTING

    # Input --------------------------------------------------------------------------------

    def may_receive(self) -> bool:
        """Whether bytes that are there should be received now; pauses where enough is held."""
        if self.flow is RESTING:
            return False
        if self._large is not None and not self._large.reserve(
            behind_another=bool(self._exchanges)
        ):
            self._move_input(InputEvent.PAUSE)
            return False
        if self.inbox.waiting > MOST_HELD_BYTES and self._holds_enough():
            self._move_input(InputEvent.PAUSE)
            return False
        return True

    def received(self, count: int) -> None:
        """This many bytes were put into the inbox's room."""
        self.inbox.end += count

    def peer_finished(self) -> None:
        """The client sends nothing more; it may still read."""
        self._move_input(InputEvent.END)

    def refuse_input(self) -> None:
        """What came cannot be answered: forget it and what follows, answer what came before."""
        self.inbox.drop()
        self._end_large()
        self._move_input(InputEvent.END)

    def resume_input(self) -> bool:
        """Receive again, if that was paused and there is room now; True if so.

        The rest of a large frame must come in, however much of it is there already.
        """
        if self.input is not PAUSED or self._holds_enough():
            return False
        if self._large is not None and not self._large.reserve(
            behind_another=bool(self._exchanges)
        ):
            return False
        self._move_input(InputEvent.RESUME)
        return True

    def _holds_enough(self) -> bool:
        """True while a request or reply is under way and much has arrived behind it."""
        return self.inbox.waiting > MOST_HELD_BYTES and (bool(self._exchanges) or not self.may_send)

    # Requests -----------------------------------------------------------------------------

    def handle_frames(self, left: int) -> int:
        """Handle what has arrived, at most this many requests; returns how many are left of them.

        Stops where the order of replies, a full socket or `must_send` says so. Gives way when none
        is left. Raises UnanswerableError where a frame cannot be answered.
        """
        inbox = self.inbox
        view = inbox.view
        gate = self._gate
        largest = (
            self._handler.largest_request
            if gate is None or gate.is_complete
            else gate.largest_frame
        )
        before, partial = left, 0
        while inbox.end - inbox.start >= SIZE_BYTES and (
            self.flow is READY or self.flow is RESTING
        ):
            start = inbox.start
            (size,) = _SIZE.unpack_from(view, start)
            if not SMALLEST_REQUEST <= size <= largest and not self._is_token_size(size):
                raise UnanswerableError(what_is_wrong_with_size(view, start, size, largest))
            stop = start + SIZE_BYTES + size
            if stop > inbox.end:
                partial = size
                break
            if self._exchanges and not self._may_join(view, start):
                break
            if left == 0:
                self.give_way()
                break
            left -= 1
            inbox.start = stop
            self._handle(view[start + SIZE_BYTES : stop])
            if size > KEPT_BYTES:
                inbox.give_up()
                view = inbox.view
            if self.outbox.size > SEND_AT_BYTES:
                break
        if self._large is not None and left != before:
            self._end_large()
        if partial > UNKNOWN_CLIENTS_FRAME and self._large is None:
            self._large = self._admission.begin(view, inbox.start, inbox.end, partial)
        return left

    def _is_token_size(self, size: int) -> bool:
        """Whether a frame of an unusual size may be one of a login, or the first one after it."""
        gate = self._gate
        if gate is None:
            return False
        if gate.is_complete:
            return SMALLEST_REQUEST <= size <= self._handler.largest_request
        return gate.takes_bare_tokens and 0 <= size <= gate.largest_frame

    def _end_large(self) -> None:
        """It is handled, or will not be."""
        if self._large is not None:
            self._large.end()
            self._large = None

    def _may_join(self, view: memoryview, start: int) -> bool:
        last = self._exchanges[-1]
        return (
            last.key == _PRODUCE
            and _KEY.unpack_from(view, start + SIZE_BYTES)[0] == _PRODUCE
            and (last.later is None or not last.later.by_task)
            and len(self._exchanges) < MOST_PIPELINED
        )

    def _handle(self, frame: memoryview) -> None:
        handler = self._handler
        started = handler.now()
        if self._gate is not None and self._take_login(self._gate, frame, started):
            return
        try:
            header = read_request_header(frame)
        except DecodeError as problem:
            raise UnanswerableError(f"malformed request header: {problem}") from None
        outcome = handler.handle(header, frame)
        key = header.api_key
        flexible = header.api_version >= _FLEXIBLE_REPLY_FROM.get(key, _NEVER)
        if isinstance(outcome, _READY):
            if not self._exchanges:
                self._queue(key, header.correlation_id, flexible, started, outcome)
            else:
                self._exchanges.append(
                    Exchange(key, header.correlation_id, flexible, started, None, outcome)
                )
        elif outcome is None:
            handler.answered(key, started, 0)
        else:
            self._exchanges.append(
                Exchange(key, header.correlation_id, flexible, started, outcome, None)
            )
            if outcome.done:
                self.release_replies()
            else:
                shell = self._shell
                outcome.then(shell.task_done if outcome.by_task else shell.reply_ready)

    def mute(self) -> Later[Parts | None]:
        """Handle nothing more until this is completed; it is abandoned if the connection ends."""
        muted: Later[Parts | None] = Later(by_task=True)
        self._exchanges.append(Exchange(_MUTED, 0, False, 0.0, muted, None))
        muted.then(self._shell.task_done)
        return muted

    # Login --------------------------------------------------------------------------------

    def _take_login(self, gate: SaslGate, frame: memoryview, started: float) -> bool:
        """Let the gate judge a frame; False where it is a request for the handler."""
        step = gate.step(frame, started)
        verdict = step.verdict
        if verdict is Verdict.PASS:
            return False
        if verdict is Verdict.FAILED:
            self._refuse_login(step, started)
            return True
        if verdict is Verdict.DONE:
            assert gate.principal is not None
            self._end_large()
            self._admission.authenticated()
            self._handler.authenticated(gate.principal, via_token=gate.via_token)
            self._shell.login_done()
        assert step.reply is not None
        if step.header is None:
            self.outbox.add_bytes(_SIZE.pack(len(step.reply)) + step.reply)
        else:
            key, version = step.header.api_key, step.header.api_version
            flexible = version >= _FLEXIBLE_REPLY_FROM.get(key, _NEVER)
            self._queue(key, step.header.correlation_id, flexible, started, (step.reply,))
        return True

    def _refuse_login(self, step: Step, started: float) -> None:
        """The reply, if there is one, leaves when the shell says so; nothing more is taken."""
        answer: Later[Parts | None] = Later(by_task=True)
        header = step.header
        key = int(ApiKey.SASL_AUTHENTICATE) if header is None else header.api_key
        number = 0 if header is None else header.correlation_id
        flexible = header is not None and header.api_version >= _FLEXIBLE_REPLY_FROM.get(
            key, _NEVER
        )
        self._exchanges.append(Exchange(key, number, flexible, started, answer, None))
        answer.then(self._shell.task_done)
        reply = None if step.reply is None else (step.reply,)
        self._shell.login_failed(step.problem, answer, reply)

    # Replies ------------------------------------------------------------------------------

    def release_replies(self) -> None:
        """Queue the oldest replies that were waited for and are there."""
        exchanges = self._exchanges
        while exchanges:
            first = exchanges[0]
            parts = first.parts
            if first.later is not None:
                if first.later.ending is FAILED:
                    self._fail(first.later)
                    return
                if not first.later.done:
                    return
                parts = first.later.result()
            exchanges.popleft()
            if parts is None:
                if first.key != _MUTED:
                    self._handler.answered(first.key, first.started, 0)
            else:
                self._queue(first.key, first.correlation_id, first.flexible, first.started, parts)

    def _fail(self, later: Later[Parts | None]) -> None:
        """There is no reply where one is due: those before it are sent, and nothing after it."""
        self._abandon_exchanges()
        try:
            later.result()
        except BaseException as error:  # noqa: BLE001 it is only reported
            self._shell.reply_failed(error)
            # Its frames hold it, and the request: that circle would wait for the garbage collector.
            error.__traceback__ = error.__context__ = None

    def _queue(
        self, key: int, correlation_id: int, flexible: bool, started: float, parts: Parts
    ) -> None:
        outbox = self.outbox
        size = 5 if flexible else 4
        if len(parts) == 1 and type(parts[0]) is bytes:  # as most are
            size += len(parts[0])
            packing = _SIZE_CORRELATION_TAGS if flexible else _SIZE_CORRELATION
            outbox.add_bytes(packing.pack(size, correlation_id) + parts[0])
            self._handler.answered(key, started, size + SIZE_BYTES)
            return
        for part in parts:
            size += len(part) if isinstance(part, bytes) else part.size
        head = (_SIZE_CORRELATION_TAGS if flexible else _SIZE_CORRELATION).pack(
            size, correlation_id
        )
        for part in parts:
            if isinstance(part, bytes):
                outbox.add_bytes(head + part)
                head = b""
            else:
                outbox.add_file(part)
        self._handler.answered(key, started, size + SIZE_BYTES)

    # Flow ---------------------------------------------------------------------------------

    def give_way(self) -> None:
        """Let what continues now be finished, and the other clients have a turn; then continue."""
        if self.flow is READY:
            self._move(FlowEvent.GIVE_WAY)
            self._shell.wake_soon()

    def wake(self) -> bool:
        """The next turn has come; False where the flow has moved on meanwhile."""
        if self.flow is not RESTING:
            return False
        self._move(FlowEvent.WAKE)
        return True

    def blocked(self) -> None:
        """The socket took less than there is to send."""
        if self.flow is not SENDING:
            self._move(FlowEvent.BLOCK)

    def must_load(self) -> None:
        """What comes next in the outbox must be read from disk first."""
        self._move(FlowEvent.LOAD)

    def loaded(self, data: bytes) -> None:
        """It is read."""
        self.outbox.take(data)
        self._move(FlowEvent.LOADED)

    def drained(self) -> None:
        """The socket took everything."""
        if self.flow is SENDING:
            self._move(FlowEvent.DRAIN)

    def close(self) -> None:
        """The connection ends: let go of all that waits for it."""
        self._move(FlowEvent.CLOSE)
        self._end_large()
        self._abandon_exchanges()
        self.outbox.clear()
        self.inbox.drop()
        self.inbox.release()

    def _abandon_exchanges(self) -> None:
        exchanges = list(self._exchanges)
        self._exchanges.clear()
        for exchange in exchanges:
            if exchange.later is not None:
                exchange.later.abandon()

    def _move(self, event: FlowEvent) -> None:
        self.flow = moved(FLOW, self.flow, event)

    def _move_input(self, event: InputEvent) -> None:
        self.input = moved(INPUT, self.input, event)
